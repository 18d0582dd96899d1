// Messages of several lines.
#include "main/chat/input.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/refused.h"

namespace heddle::test {
namespace {

struct Remembering : LineSource {
  std::istringstream in;
  StreamLines lines{in};
  std::vector<std::string> remembered, prompts;

  explicit Remembering(const std::string& text) : in(text) {}
  Line read(std::string_view prompt) override {
    prompts.emplace_back(prompt);
    Line line = lines.read(prompt);
    if (line.text == "^C") line.kind = Line::Kind::interrupted;
    return line;
  }
  void remember(const std::string& message) override { remembered.push_back(message); }
};

TEST(ChatInput, LinesThatGoOn) {
  Remembering lines("one\ntwo\\\nlines\r\na\\\n\\\nb\n   \nlast");
  EXPECT_EQ(read_message(lines).text, "one");
  EXPECT_EQ(read_message(lines).text, "two\nlines");
  EXPECT_EQ(read_message(lines).text, "a\n\nb");
  EXPECT_EQ(read_message(lines).text, "   ");
  EXPECT_EQ(read_message(lines).text, "last");
  EXPECT_EQ(read_message(lines).kind, Line::Kind::end);
  EXPECT_EQ(lines.remembered, (std::vector<std::string>{"one", "two\nlines", "a\n\nb", "last"}));
  EXPECT_EQ(lines.prompts[1], "> ");
  EXPECT_EQ(lines.prompts[2], "... ");
}

TEST(ChatInput, QuotedTexts) {
  Remembering lines(
      "\"\"\"\n/not a command\\\n\n\"two\"\n\"\"\"\n"
      "\"\"\"one line\"\"\"\n"
      "\"\"\"begins\nends\"\"\"\n"
      "\"\"\"\"\"\"\n");
  Input input = read_message(lines);
  EXPECT_EQ(input.text, "/not a command\\\n\n\"two\"");
  EXPECT_TRUE(input.quoted);
  EXPECT_EQ(read_message(lines).text, "one line");
  EXPECT_EQ(read_message(lines).text, "begins\nends");
  input = read_message(lines);
  EXPECT_EQ(input.text, "");
  EXPECT_EQ(input.kind, Line::Kind::text);
  // what is remembered can be sent again
  Remembering again(lines.remembered[2] + "\n");
  EXPECT_EQ(read_message(again).text, "begins\nends");
  EXPECT_EQ(lines.remembered[2], "\"\"\"begins\nends\"\"\"");
}

TEST(ChatInput, InterruptedOrEndedInside) {
  Remembering lines("one\\\n^C\n\"\"\"two\n^C\n^C\nthree\\\n");
  EXPECT_EQ(read_message(lines).kind, Line::Kind::interrupted);
  EXPECT_EQ(read_message(lines).kind, Line::Kind::interrupted);
  EXPECT_EQ(read_message(lines).kind, Line::Kind::interrupted);
  EXPECT_REFUSED(read_message(lines), "ended inside a message", "after the backslash");
  Remembering quoted("\"\"\"two");
  EXPECT_REFUSED(read_message(quoted), "ended inside a message", "\"\"\"");
  EXPECT_TRUE(lines.remembered.empty() && quoted.remembered.empty());
}

}  // namespace
}  // namespace heddle::test
