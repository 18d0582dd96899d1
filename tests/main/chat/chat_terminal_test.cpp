// heddle chat in a real terminal: tmux holds the screen, keys are sent, and what is to be seen is compared as a whole.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "tests/support/folder.h"

namespace heddle::test {
namespace {

using std::chrono::steady_clock;

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

struct Ran {
  int status;
  std::string out;
};
Ran shell(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return {-1, ""};
  std::string out;
  std::array<char, 4096> piece;
  while (const size_t size = std::fread(piece.data(), 1, piece.size(), pipe)) out.append(piece.data(), size);
  return {::pclose(pipe), out};
}

bool has_terminals() {  // in a container there may be none
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0) return false;
  const char* name = ::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0 ? ::ptsname(terminal) : nullptr;
  const bool found = name && ::access(name, F_OK) == 0;
  ::close(terminal);
  return found;
}

// 80 x 24, with a folder as its home and a tmux server of its own.
class ChatTerminal : public testing::Test {
 protected:
  Folder home;

  void SetUp() override {
    if (shell("tmux -V").status != 0) GTEST_SKIP() << "needs tmux";
    if (!has_terminals()) GTEST_SKIP() << "needs pseudo-terminals (/dev/pts)";
  }
  void TearDown() override { tmux("kill-server"); }

  Ran tmux(const std::string& tokenizer) const {
    return shell(fmt::format("env -u TMUX LC_ALL=C.UTF-8 TMUX_TMPDIR={} tmux -L heddle -f /dev/null {}",
                             quoted(home.path()), tokenizer));
  }
  // Ends with the exit status on the screen.
  void start(const std::string& options = "--temp 0") const {
    const std::string program = fmt::format(
        "cd {}; HOME=$PWD XDG_STATE_HOME= LC_ALL=C.UTF-8 {} chat {} --device cpu {}; echo status $?; exec sleep 1000",
        quoted(home.path()), quoted(HEDDLE_PROGRAM), quoted(HEDDLE_SOURCE_DIR "/models/weft/weft-q8_0.gguf"), options);
    const Ran ran = tmux("new-session -d -x 80 -y 24 -s chat " + quoted(program));
    ASSERT_EQ(ran.status, 0) << ran.out;
  }
  void restart() const {
    tmux("kill-session -t chat");
    start();
  }

  void type(const std::string& text) const { tmux("send-keys -t chat -l " + quoted(text)); }
  void press(const std::string& keys) const { tmux("send-keys -t chat " + keys); }
  void enter(const std::string& text) const {
    type(text);
    press("Enter");
  }

  // Without the blanks at the ends of lines, and without empty lines below.
  std::string screen() const {
    std::string text = tmux("capture-pane -p -t chat").out, result, blanks;
    for (char c : text) {
      if (c == ' ' || c == '\n') {
        if (c == '\n') blanks.erase(blanks.find_last_not_of(' ') + 1);
        blanks += c;
        continue;
      }
      result += blanks + c;
      blanks.clear();
    }
    return result + '\n';
  }
  template <class Condition>
  bool wait_until(const Condition& condition) const {
    const auto end = steady_clock::now() + std::chrono::seconds(30);
    while (steady_clock::now() < end) {
      if (condition(screen())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  void expect_all(const std::string& expected) const {
    if (wait_until([&](const std::string& seen) { return seen == expected; })) return;
    EXPECT_EQ(screen(), expected);
  }
  void expect_end(const std::string& expected) const {
    EXPECT_TRUE(wait_until([&](const std::string& seen) { return seen.ends_with(expected); }))
        << expected << " is not at the end of\n"
        << screen();
  }
  // What follows the two lines of the greeting.
  void expect_screen(const std::string& expected) const {
    expect_all("weft, context of 512 tokens, CPU\n/help for commands, Ctrl-D to leave\n" + expected);
  }
};

TEST_F(ChatTerminal, EditsLinesAndRemembersThem) {
  start();
  expect_screen(">\n");
  enter("hi");
  expect_screen(
      "> hi\n"
      "Hello! I can tell you a little story, or say what heddle is.\n"
      "\n"
      ">\n");
  type("is \u65e5\u672cheddle");
  press("C-a");
  type("What ");
  expect_screen(
      "> hi\n"
      "Hello! I can tell you a little story, or say what heddle is.\n"
      "\n"
      "> What is \u65e5\u672cheddle\n");
  press("End");
  type("?");
  press("Left Left Left Left Left Left Left BSpace BSpace");  // one key per character, however wide
  type("gr\u00fcn ");
  press("BSpace BSpace BSpace BSpace BSpace");
  expect_screen(
      "> hi\n"
      "Hello! I can tell you a little story, or say what heddle is.\n"
      "\n"
      "> What is heddle?\n");
  press("Enter");
  const std::string answered =
      "> hi\n"
      "Hello! I can tell you a little story, or say what heddle is.\n"
      "\n"
      "> What is heddle?\n"
      "heddle is a program that runs language models. It is written in C++ and writes i\n"
      "ts own GPU code: it builds PTX at run time and hands it to the driver.\n"
      "\n";
  expect_screen(answered + ">\n");
  press("C-d");
  expect_screen(answered + ">\nstatus 0\n");

  restart();
  expect_screen(">\n");
  press("Up");
  expect_screen("> What is heddle?\n");
  press("Up");
  expect_screen("> hi\n");
  press("Down C-c");
  expect_screen("> What is heddle?\n>\n");
  press("C-c");
  expect_screen("> What is heddle?\n>\n(Ctrl-D or /quit leaves)\n>\n");
  enter("/quit");
  expect_screen("> What is heddle?\n>\n(Ctrl-D or /quit leaves)\n> /quit\nstatus 0\n");
  const auto history = home.file(".local/state/heddle/chat_history");
  EXPECT_EQ(std::filesystem::status(history).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(ChatTerminal, MessagesOfSeveralLines) {
  start("--temp 0 -n 2 --no-history");
  expect_screen(">\n");
  enter("h\\");
  expect_screen("> h\\\n...\n");
  enter("i");
  expect_end("\n\n>\n");
  enter("/undo");
  expect_end("0 messages are left\n\n>\n");
  EXPECT_NE(screen().find("> h\\\n... i\n"), std::string::npos) << screen();
  // pasted line breaks do not send
  tmux("set-buffer " + quoted("one\ntwo"));
  tmux("paste-buffer -p -t chat");
  expect_end("> one\ntwo\n");
  press("M-Enter");
  enter("three");
  expect_end("\n\n>\n");
  EXPECT_NE(screen().find("> one\ntwo\nthree\n"), std::string::npos) << screen();
  enter("/save talk.json");
  expect_end("2 messages saved in talk.json\n\n>\n");
  EXPECT_NE(contents(home.file("talk.json")).find("\"content\": \"one\\ntwo\\nthree\""), std::string::npos);
  press("Up");
  expect_end("> /save talk.json\n");
  press("Up");
  expect_end("> one\ntwo\nthree\n");
  EXPECT_FALSE(std::filesystem::exists(home.file(".local")));
}

TEST_F(ChatTerminal, CtrlCStopsAnAnswerAndNotTheProgram) {
  start("--temp 0 --ctx 8192 --logit-bias 1=-inf");  // it cannot end by itself
  expect_end("\n>\n");
  enter("Tell me a story.");
  ASSERT_TRUE(wait_until([](const std::string& all) { return all.find("Once upon a") != all.npos; }));
  press("C-c");
  expect_end("\n\n>\n");
  EXPECT_NE(screen().find("^C"), std::string::npos) << screen();  // as the terminal shows it
  press("C-l");                                                   // a clean screen
  expect_all(">\n");
  enter("/save talk.json");
  expect_end("2 messages saved in talk.json\n\n>\n");
  EXPECT_NE(contents(home.file("talk.json")).find("\"content\": \"Once upon a"), std::string::npos);
  press("C-d");
  expect_end("status 0\n");
}

TEST_F(ChatTerminal, Commands) {
  start();
  expect_screen(">\n");
  enter("/set temp hot");
  const std::string refused =
      "> /set temp hot\n"
      "heddle: Could not convert: --temp = hot\n"
      "\n";
  expect_screen(refused + ">\n");
  type("/set top-k");
  press("Tab");
  enter("7");
  expect_screen(refused + "> /set top-k 7\n\n>\n");
  enter("/set");
  const std::string set = refused +
                          "> /set top-k 7\n"
                          "\n"
                          "> /set\n"
                          "temp 0\n"
                          "top-k 7\n"
                          "\n";
  expect_screen(set + ">\n");
  press("C-l");
  expect_all(">\n");
  enter("hi");
  const std::string hello = "Hello! I can tell you a little story, or say what heddle is.\n";
  std::string seen = "> hi\n" + hello + "\n";
  expect_all(seen + ">\n");
  enter("/save talk.json");
  seen += "> /save talk.json\n2 messages saved in talk.json\n\n";
  expect_all(seen + ">\n");
  enter("/reset");
  seen += "> /reset\nthe conversation begins anew\n\n";
  expect_all(seen + ">\n");
  enter("/load talk.json");
  seen += "> /load talk.json\n2 messages, 24 of 512 tokens\n> hi\n" + hello + "\n";
  expect_all(seen + ">\n");
  enter("/nothing");
  seen +=
      "> /nothing\n"
      "heddle: there is no command /nothing: /help lists them; //nothing is said to the\n"
      " model with one slash\n"
      "\n";
  expect_all(seen + ">\n");
  press("C-d");
  expect_all(seen + ">\nstatus 0\n");
}

}  // namespace
}  // namespace heddle::test
