// heddle chat through pipes, on weft: greedy, so that what it says is known.
#include <gtest/gtest.h>
#include <signal.h>

#include "main/chat/chat_commands.h"
#include "tests/main/small_model.h"
#include "tests/support/refused.h"

namespace heddle::test {
namespace {

const std::string hello = "Hello! I can tell you a little story, or say what heddle is.\n";
const std::string who =
    "I am weft, a very small language model that comes with heddle. I can tell little stories and answer a few "
    "questions about heddle.\n";

Result chat(const std::string& input, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"chat", weft, "--temp", "0", "--device", "cpu"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return heddle(arguments, input);
}

TEST(ChatCommand, AnswersAndNothingElseGoToThePipe) {
  const Result result = chat("hi\n\nWho are you?\n/quit\nnever read\n");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, hello + who);
  expect_says(result.err, {"weft, context of 512 tokens, CPU\n", "/help for commands, Ctrl-D to leave\n"});
  EXPECT_EQ(chat("").out, "");
  EXPECT_EQ(chat("hi").out, hello);  // the end of the input leaves, too
}

TEST(ChatCommand, ASecondTurnComputesOnlyWhatIsNew) {
  const Result result = chat("hi\nWho are you?\n/again\n", {"--stats"});
  EXPECT_EQ(result.out, hello + who + who);
  expect_says(result.err,
              {"prompt 6 tokens,", "generated 17", "prompt 30 tokens (22 cached)", "prompt 30 tokens (29 cached)"});
}

TEST(ChatCommand, TurnsAreTakenBack) {
  const Result result = chat("hi\n/undo\n/undo\n/again\nhi\n/reset\n/again\n/regenerate now\n");
  EXPECT_EQ(result.out, hello + "taken back; 0 messages are left\n" + hello + "the conversation begins anew\n");
  EXPECT_EQ(result.status, 1);  // nobody was there to see what failed
  expect_says(result.err, {"no message to take back", "no message to answer again", "no message to answer again",
                           "/regenerate: expected nothing after it, found \"now\""});
}

TEST(ChatCommand, WhatDoesNotFitIsTakenBack) {
  std::string long_text;
  for (int i = 0; i < 600; ++i) long_text += "word ";
  const Result result = chat("hi\n" + long_text + "\nWho are you?\n/stats\n");
  EXPECT_EQ(result.status, 1);
  expect_says(result.err, {"heddle: the prompt is too long: expected fewer than 512 tokens"});
  expect_says(result.out, {hello + who, "prompt 30 tokens (22 cached)"});
}

TEST(ChatCommand, ACommandIsNotSaid) {
  const Result result = chat("/nothing at all\n/help\n//\n\"\"\"/quit\"\"\"\n", {"-n", "1", "--stats"});
  EXPECT_EQ(result.status, 1);
  expect_says(result.err, {"no command /nothing: /help lists them; //nothing is said"});
  expect_says(result.out, {"/help", "/again", "/undo", "/reset", "/system [TEXT]", "/set [NAME [VALUE]]", "/save FILE",
                           "/load FILE", "/stats", "/quit"});
  expect_says(result.err, {"generated 1 tokens", "generated 1 tokens"});
}

TEST(ChatCommand, SettingsThatAreNotValidLeaveTheOldOnes) {
  const Result result = chat(
      "/set\n/set temp -1\n/set temp x\n/set nothing 1\n/set stop tell\nhi\n/set\n/set temp 0.5\n/set temp\n/set "
      "stop\n/set\n");
  EXPECT_EQ(result.out,
            "temp 0\n"
            "Hello! I can \n"
            "temp 0\nstop [tell]\n"
            "temp is the default again\nstop is the default again\nevery setting has its default\n");
  expect_says(result.err,
              {"temperature: expected a number of at least 0, found -1", "temp", "x", "no setting \"nothing\""});
}

TEST(ChatCommand, SystemMessages) {
  const Result result = chat("/system\n/system Say hello.\n/system\n/set\n", {"--system", "Be kind."});
  EXPECT_EQ(result.out, "Be kind.\nSay hello.\nsystem Say hello.\ntemp 0\n");
  EXPECT_EQ(chat("/system\n").out, "there is no system message\n");
}

TEST(ChatCommand, SavesAndLoads) {
  const Folder folder;
  const std::string file = folder.file("talk.json");
  const Result saved = chat("hi\nWho are you?\n/save " + file + "\n/save\n", {"--system", "S"});
  EXPECT_EQ(saved.out, hello + who + "4 messages saved in " + file + "\n");
  expect_says(saved.err, {"expected the name of a file"});
  const Result loaded = chat("/load " + file + "\n/system\n/stats\n/undo\n/again\n/stats\n");
  expect_says(loaded.out, {"4 messages, ", " of 512 tokens\n> Who are you?\n" + who, "S\n", "nothing was said yet",
                           "taken back; 2 messages are left"});
  const Result failed =
      chat("hi\n/load " + folder.write("bad.json", "{").string() + "\n/load /none.json\n/save " + file);
  expect_says(failed.err, {"bad.json", "/none.json"});
  EXPECT_EQ(failed.out, hello + "2 messages saved in " + file + "\n");  // as it was before
}

TEST(ChatCommand, AModelThatCannotChatIsRefused) {
  const Folder folder;
  EXPECT_EQ(heddle({"chat", folder.file("none.gguf")}).status, 1);
  const auto running = open_running(write_small_model(folder, "zero.gguf", true), {});
  running->chat_template.clear();
  std::ostringstream out;
  EXPECT_REFUSED(ChatTalk(*running, {}, out, false), "small", "no chat template", "heddle run");
  running->chat_template = "{{ raise_exception('no system message, please') }}";
  ChatTalk talk(*running, {}, out, false);
  EXPECT_REFUSED(talk.say("hi"), "no system message, please");
  EXPECT_TRUE(talk.messages().empty());
}

TEST(ChatCommand, ATerminalDoesNotObeyAnAnswer) {
  const Folder folder;
  const auto running = open_running(write_small_model(folder, "zero.gguf", true), {});
  std::ostringstream out;
  ChatTalk talk(*running, ChatSettings().with("system", "a\x1b[2Jb\u009bc\td"), out, true);
  talk.show_system();
  EXPECT_EQ(out.str(), "a\ufffd[2Jb\ufffdc\td\n");
}

TEST(ChatCommand, NamesAreCompleted) {
  EXPECT_EQ(completions("/sa"), (std::vector<std::string>{"/save "}));
  EXPECT_EQ(completions("/s"), (std::vector<std::string>{"/system ", "/set ", "/save ", "/stats"}));
  EXPECT_EQ(completions("/set min"), (std::vector<std::string>{"/set min-p "}));
  EXPECT_TRUE(completions("hello").empty());
}

// Raises SIGINT as soon as something is written, as if the user had pressed Ctrl-C then.
struct Interrupting : std::stringbuf {
  int sync() override { return ::raise(SIGINT); }
};

TEST(RunCommand, CtrlCEndsItWithWhatThereIs) {
  Interrupting buffer;
  std::ostream out(&buffer);
  std::istringstream in;
  std::ostringstream err;
  const auto before = ::signal(SIGINT, SIG_DFL);
  const int status = run_command_line({"run", weft, "--chat", "-p", "hi", "--temp", "0"}, in, out, err);
  ::signal(SIGINT, before);
  EXPECT_EQ(status, 130);
  EXPECT_EQ(buffer.str(), "Hello\n");
  expect_says(err.str(), {"generated 1 tokens", "(interrupted)"});
}

TEST(RunCommand, StopsAndLogProbabilities) {
  const Result result =
      heddle({"run", weft, "--chat", "-p", "hi", "--temp", "0", "--stop", "tell you", "--logprobs", "2"});
  EXPECT_EQ(result.out, "Hello! I can \n");
  expect_says(result.err, {" \"Hello\"  of -", " \"Hello\", -", "\n", " \" I\"  of", "(a stop string came)"});
  const Result alone = heddle({"run", weft, "-p", "Once", "--temp", "0", "-n", "1", "--logprobs", "0"});
  expect_says(alone.err, {"-0.", " \" upon\"\nprompt"});
  // the most likely token forbidden: another one
  const std::string id = heddle({"tokenize", weft, "Hello", "--no-special"}).out;
  const Result banned = heddle({"run", weft, "--chat", "-p", "hi", "--temp", "0", "-n", "1", "--logit-bias",
                                id.substr(0, id.find('\n')) + "=false"});
  EXPECT_EQ(banned.status, 0) << banned.err;
  EXPECT_NE(banned.out, "Hello\n");
}

}  // namespace
}  // namespace heddle::test
