// heddle chat in a real terminal: tmux holds the screen, keys are sent, and what is to be seen is compared as a whole.
#include "tests/main/terminal.h"

namespace heddle::test {
namespace {

// 80 x 24.
class ChatTerminal : public TerminalTest {
 protected:
  void start(const std::string& options = "--temp 0", const std::string& environment = "") const {
    start_shell(fmt::format("{} {} chat {} --device cpu {}", environment, test::program,
                            shell_quoted(HEDDLE_SOURCE_DIR "/models/weft/weft-q8_0.gguf"), options));
  }
  void restart() const {
    tmux("kill-session -t test");
    start();
  }
  // What follows the two lines of the greeting.
  void expect_screen(const std::string& expected) const {
    expect_all("weft-q8_0, context of 512 tokens, CPU\n/help for commands, Ctrl-D to leave\n" + expected);
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
      "heddle is a program that runs language models. It is written in C++ and writes\n"
      "its own GPU code: it builds PTX at run time and hands it to the driver.\n"
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
  tmux("set-buffer " + shell_quoted("one\ntwo"));
  tmux("paste-buffer -p -t test");
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
  std::string seen = screen();  // ^C as the terminal shows it, maybe at the end of a row
  std::erase(seen, '\n');
  EXPECT_NE(seen.find("^C"), std::string::npos) << seen;
  press("C-l");  // a clean screen
  expect_all(">\n");
  enter("/save talk.json");
  expect_end("2 messages saved in talk.json\n\n>\n");
  EXPECT_NE(contents(home.file("talk.json")).find("\"content\": \"Once upon a"), std::string::npos);
  press("C-d");
  expect_end("status 0\n");
}

TEST_F(ChatTerminal, ALineIsDrawnAnewWhenTheTerminalIsResized) {
  start();
  expect_screen(">\n");
  enter("hi");
  const std::string before = "> hi\nHello! I can tell you a little story, or say what heddle is.\n\n";
  expect_screen(before + ">\n");
  type("0123456789 123456789 123456789 123456789 123456789 123456789 123456789");  // 69 cells, and the prompt
  expect_screen(before + "> 0123456789 123456789 123456789 123456789 123456789 123456789 123456789\n");
  resize(62);
  // tmux moves what is above it out of the screen
  expect_end(before + "> 0123456789 123456789 123456789 123456789 123456789 123456789\n 123456789\n");
  type("!");
  expect_end(before + "> 0123456789 123456789 123456789 123456789 123456789 123456789\n 123456789!\n");
  resize(90);
  expect_screen(before + "> 0123456789 123456789 123456789 123456789 123456789 123456789 123456789!\n");
  press("C-a");
  type(">");
  expect_screen(before + "> >0123456789 123456789 123456789 123456789 123456789 123456789 123456789!\n");
  press("C-u C-k");
  enter("What is heddle?");  // answers have the new width
  expect_screen(before +
                "> What is heddle?\n"
                "heddle is a program that runs language models. It is written in C++ and writes its own GPU\n"
                "code: it builds PTX at run time and hands it to the driver.\n"
                "\n"
                ">\n");
}

TEST_F(ChatTerminal, ATerminalThatCannotMoveItsCursorHasAPrompt) {
  start("--temp 0", "TERM=dumb");
  expect_screen(">\n");
  enter("hi");
  expect_screen("> hi\nHello! I can tell you a little story, or say what heddle is.\n\n>\n");
  enter("/bye");
  expect_end("> /bye\nstatus 0\n");
}

TEST_F(ChatTerminal, AFullContextIsSaid) {
  start("--temp 0 --ctx 63");
  expect_end("\n>\n");
  enter("hi");
  expect_end("heddle is.\n\n>\n");
  enter("Who are you?");
  expect_end("about heddle.\n\n>\n");
  press("C-l");
  expect_all(">\n");
  enter("hi");
  expect_end("/reset begins anew\n\n>\n");
  enter("/drop");
  expect_end("tokens are used)\nHello! I can tell you a little story, or say what heddle is.\n\n>\n");
}

TEST_F(ChatTerminal, ACommandThatReadsTheTerminalSaysWhatItWaitsFor) {
  start_shell(test::program + " run weft -n 3 --temp 0 --device cpu");
  expect_all("type a text to continue, then Ctrl-D on a line of its own\n");
  enter("Once upon");
  press("C-d");
  expect_end("\nstatus 0\n");
  EXPECT_NE(screen().find("prompt 4 tokens"), std::string::npos) << screen();
}

TEST_F(ChatTerminal, Commands) {
  start();
  expect_screen(">\n");
  enter("/set temp hot");
  const std::string refused =
      "> /set temp hot\n"
      "heddle: --temp: expected a number, found \"hot\"\n"
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
      "heddle: there is no command /nothing: /help lists them; //nothing is sent to the\n"
      "model with one slash\n"
      "\n";
  expect_all(seen + ">\n");
  press("C-d");
  expect_all(seen + ">\nstatus 0\n");
}

}  // namespace
}  // namespace heddle::test
