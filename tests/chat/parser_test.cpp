#include "chat/parser.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "families.h"
#include "tests/support/sanitized.h"

namespace heddle::chat {
namespace {

TEST(ChatParser, ReadsEveryFamily) {
  for (const Family& family : families()) {
    SCOPED_TRACE(family.name);
    const Answer answer = answer_of(family, {family.text});
    EXPECT_EQ(answer.content, family.content);
    EXPECT_EQ(answer.reasoning, family.reasoning);
    EXPECT_EQ(answer.ended, family.calls.size());
    std::vector<FamilyCall> calls;
    for (size_t i = 0; i < answer.names.size(); ++i)
      calls.push_back({answer.names[i], nlohmann::ordered_json::parse(answer.arguments[i], nullptr, false)});
    EXPECT_EQ(calls, family.calls) << testing::PrintToString(answer);
  }
}

const size_t cut_step = test::sanitized ? 3 : 1;  // 34 s otherwise

TEST(ChatParser, CutAtEveryByteIsTheSame) {
  for (const Family& family : families()) {
    SCOPED_TRACE(family.name);
    const std::string_view text = family.text;
    const Answer whole = answer_of(family, {text});
    std::vector<std::string_view> bytes;
    for (size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
    ASSERT_EQ(answer_of(family, bytes), whole);
    // two cuts within the length of a mark, and two anywhere
    for (size_t i = 0; i <= text.size(); i += cut_step)
      for (size_t j = i; j <= text.size(); j += j < i + 14 ? cut_step : 37)
        ASSERT_EQ(answer_of(family, {text.substr(0, i), text.substr(i, j - i), text.substr(j)}), whole)
            << i << " " << j;
  }
}

// An answer that breaks off, or that something is wrong in: the same however it is cut, whole characters, and every
// event in its place.
TEST(ChatParser, BrokenAnswersAreTheSameHoweverTheyAreCut) {
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  for (int round = 0; round < 60; ++round)
    for (const Family& family : families()) {
      std::string text = family.text;
      const size_t mutations = below(4);
      for (size_t m = 0; m < mutations && !text.empty(); ++m) {
        const size_t at = below(text.size());
        switch (below(4)) {
          case 0:
            text.erase(at, below(8));
            break;
          case 1:
            text[at] = "{}[]()<>\"\\:,| \n"[below(15)];
            break;
          case 2:
            text.insert(at, text.substr(below(text.size()), below(20)));
            break;
          default:
            text.resize(at);
            break;
        }
      }
      SCOPED_TRACE(family.name + ": " + in_quotes(text, 2000));
      const Answer whole = answer_of(family, {text});
      EXPECT_EQ(whole.ended, whole.names.size());
      std::vector<std::string_view> pieces;
      for (std::string_view rest = text; !rest.empty();) {
        const size_t size = 1 + below(std::min<size_t>(rest.size(), 12));
        pieces.push_back(rest.substr(0, size));
        rest.remove_prefix(size);
      }
      ASSERT_EQ(answer_of(family, pieces), whole);
    }
}

Answer hermes(std::string_view text, ParserOptions options = {}) {
  auto format = std::make_shared<ChatFormat>();
  format->calls = generic_call_format();
  format->thought = {"<think>", "</think>"};
  ChatParser parser(format, family_tools(), options);
  Answer answer;
  answer.add(parser.push(text));
  answer.add(parser.finish());
  return answer;
}

TEST(ChatParser, WhatIsNoCallIsContent) {
  for (const std::string text :
       {"<tool_call> is a tag", "<tool_call>\n{\"name\": 3}\n</tool_call>", "<tool_call>\n{\"nam", "a <tool_c",
        "<tool_call>[1]</tool_call>", "  spaces stay \n", "{\"name\": \"now\"}",
        "<tool_call>{\"name\": \"no such name!\", \"arguments\": {}}</tool_call>", "</think> alone", ""})
    EXPECT_EQ(hermes(text), (Answer{.content = text}));
}

TEST(ChatParser, ACallThatBreaksOffKeepsWhatItHas) {
  EXPECT_EQ(hermes("<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": 1"),
            (Answer{.names = {"now"}, .arguments = {"{\"a\": 1"}, .ended = 1}));
  EXPECT_EQ(hermes("<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": x}} more"),
            (Answer{.content = "x}} more", .names = {"now"}, .arguments = {"{\"a\": "}, .ended = 1}));
  EXPECT_EQ(hermes("<tool_call>{\"name\": \"now\", \"arguments\": {}} more"),
            (Answer{.content = "more", .names = {"now"}, .arguments = {"{}"}, .ended = 1}));
}

TEST(ChatParser, ArgumentsInOtherForms) {
  const Answer now{.names = {"now"}, .arguments = {"{\"a\":1}"}, .ended = 1};
  EXPECT_EQ(hermes("<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"now\"}</tool_call>"), now);
  EXPECT_EQ(hermes("<tool_call>{\"name\": \"now\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>"), now);
  EXPECT_EQ(hermes("<tool_call>{\"function\": {\"name\": \"now\", \"parameters\": {\"a\": 1}}}</tool_call>"), now);
  EXPECT_EQ(hermes("<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"x\ny\"}}</tool_call>").arguments,
            std::vector<std::string>{"{\"a\": \"x\\ny\"}"});  // JSON has no line end in a string
  EXPECT_EQ(hermes("<tool_call>{\"name\": \"now\"}</tool_call>").arguments, std::vector<std::string>{"{}"});
}

TEST(ChatParser, WithoutToolsOnlyThoughtsAreSplit) {
  const std::string call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  EXPECT_EQ(hermes("<think>a</think>\n" + call, {.calls = false}), (Answer{.content = call, .reasoning = "a"}));
  EXPECT_EQ(hermes("a", {.in_thought = true}), (Answer{.reasoning = "a"}));
  EXPECT_EQ(hermes("<think>a </think>b", {.in_thought = true}), (Answer{.content = "b", .reasoning = "a"}));
  EXPECT_EQ(hermes("a</think>b<think>c</think> d", {.in_thought = true}),
            (Answer{.content = "b d", .reasoning = "ac"}));
}

TEST(ChatParser, ContentAroundCallsStaysApart) {
  const std::string call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  EXPECT_EQ(hermes("First:\n" + call + "\n\nThen " + call + "\n" + call + "last. ").content, "First:\nThen last.");
  EXPECT_EQ(hermes("a" + call + " \nb" + call + "c").content, "a \nbc");
  EXPECT_EQ(hermes("<think>x</think>\n\n" + call + "\nb\n" + call + "\n").content, "b");
}

Answer answer_of_family(std::string_view name, std::string_view text) {
  for (const Family& family : families())
    if (family.name == name) return answer_of(family, {text});
  ADD_FAILURE() << name;
  return {};
}

TEST(ChatParser, AFirstTagThatIsLeftOut) {
  const std::string_view rest = "<function=now>\n</function>\n</tool_call>";
  const Answer now{.names = {"now"}, .arguments = {"{}"}, .ended = 1};
  EXPECT_EQ(answer_of_family("qwen3-coder", rest), now);
  EXPECT_EQ(answer_of_family("qwen3-coder", "<function=of x"), (Answer{.content = "<function=of x"}));
}

TEST(ChatParser, TheSchemaKnowsBetterThanATag) {
  const std::string text =
      "<\uff5cDSML\uff5cfunction_calls>\n<\uff5cDSML\uff5cinvoke name=\"get_weather\">\n"
      "<\uff5cDSML\uff5cparameter name=\"city\" string=\"true\">5</\uff5cDSML\uff5cparameter>\n"
      "<\uff5cDSML\uff5cparameter name=\"days\" string=\"true\">3</\uff5cDSML\uff5cparameter>\n"
      "</\uff5cDSML\uff5cinvoke>\n</\uff5cDSML\uff5cfunction_calls>";
  EXPECT_EQ(answer_of_family("deepseek v3.2", text).arguments, std::vector<std::string>{R"({"city":"5","days":3})"});
}

TEST(ChatParser, ACallEndsAThoughtThatIsOpen) {
  const std::string call = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  EXPECT_EQ(hermes("a\n" + call + "\nb", {.in_thought = true}),
            (Answer{.content = "b", .reasoning = "a", .names = {"now"}, .arguments = {"{}"}, .ended = 1}));
  EXPECT_EQ(hermes("a <tool_call> b</think>c", {.in_thought = true}),
            (Answer{.content = "c", .reasoning = "a <tool_call> b"}));
}

TEST(ChatParser, StreamsLongStringsInPieces) {
  const Family* coder = nullptr;
  for (const Family& family : families())
    if (family.name == "qwen3-coder") coder = &family;
  ASSERT_NE(coder, nullptr);
  ChatParser parser(coder->format, family_tools());
  Answer answer;
  answer.add(parser.push("<tool_call>\n<function=note>\n<parameter=text>\nfirst words"));
  EXPECT_EQ(answer.arguments, std::vector<std::string>{"{\"text\":\"first words"});
  EXPECT_EQ(parser.calls(), 1u);
}

}  // namespace
}  // namespace heddle::chat
