// heddle chat through pipes, on weft: greedy, so that what it says is known.
#include "main/chat/chat_command.h"

#include <gtest/gtest.h>

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
  expect_says(result.err, {"weft-q8_0, context of 512 tokens, CPU\n", "/help for commands, Ctrl-D to leave\n"});
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
  EXPECT_EQ(result.out, hello + hello);  // answers alone
  EXPECT_EQ(result.status, 1);           // no terminal showed what failed
  expect_says(result.err, {"taken back; 0 messages are left\n", "no message to take back", "no message to answer again",
                           "the conversation begins anew\n", "no message to answer again",
                           "/regenerate: expected nothing after it, found \"now\""});
}

TEST(ChatCommand, WhatDoesNotFitIsTakenBack) {
  std::string long_text;
  for (int i = 0; i < 600; ++i) long_text += "word ";
  const Result result = chat("hi\n" + long_text + "\nWho are you?\n/stats\n");
  EXPECT_EQ(result.status, 1);
  expect_says(result.err, {"heddle: the conversation is too long: expected fewer than 512 tokens, the context, found ",
                           "/drop forgets the oldest turns", "/undo", "/reset", "prompt 30 tokens (22 cached)"});
  EXPECT_EQ(result.out, hello + who);
}

TEST(ChatCommand, ACommandIsNotSaid) {
  const Result result = chat("/nothing at all\n/help\n//\n\"\"\"/quit\"\"\"\n", {"-n", "1", "--stats"});
  EXPECT_EQ(result.status, 1);
  expect_says(result.err,
              {"no command /nothing: /help lists them; //nothing is sent", "/help, /?", "/again, /regenerate",
               "/continue", "/undo", "/drop", "/reset, /clear", "/system [TEXT]", "/set [NAME [VALUE]]", "/save FILE",
               "/load FILE", "/stats", "/quit, /exit, /bye", "generated 1 tokens", "generated 1 tokens"});
  expect_says(chat("/udno\n").err, {"no command /udno; did you mean /undo? /help lists them"});
}

TEST(ChatCommand, SettingsThatAreNotValidLeaveTheOldOnes) {
  const Result result = chat(
      "/set\n/set temp -1\n/set temp x\n/set nothing 1\n/set stop tell\nhi\n/set\n/set temp 0.5\n/set temp\n/set "
      "stop\n/set\n");
  EXPECT_EQ(result.out, "Hello! I can \n");
  expect_says(result.err, {"temp 0\n", "temperature: expected a number of at least 0, found -1",
                           "--temp: expected a number, found \"x\"", "no setting \"nothing\"", "temp 0\nstop [tell]\n",
                           "temp is the default again\nstop is the default again\nevery setting has its default\n"});
}

TEST(ChatCommand, SystemMessages) {
  const Result result = chat("/system\n/system Say hello.\n/system\n/set\n", {"--system", "Be kind."});
  expect_says(result.err, {"Be kind.\nSay hello.\nsystem Say hello.\ntemp 0\n"});
  expect_says(chat("/system\n").err, {"there is no system message\n"});
  EXPECT_EQ(result.out, "");
}

TEST(ChatCommand, SavesAndLoads) {
  const Folder folder;
  const std::string file = folder.file("talk.json");
  const Result saved = chat("hi\nWho are you?\n/save " + file + "\n/save\n", {"--system", "S"});
  EXPECT_EQ(saved.out, hello + who);
  expect_says(saved.err, {"4 messages saved in " + file + "\n", "expected the name of a file"});
  const Result loaded = chat("/load " + file + "\n/system\n/stats\n/undo\n/again\n/stats\n");
  expect_says(loaded.err, {"4 messages, ", " of 512 tokens\n> Who are you?\n" + who, "S\n", "nothing was said yet",
                           "taken back; 2 messages are left"});
  const Result failed =
      chat("hi\n/load " + folder.write("bad.json", "{").string() + "\n/load /none.json\n/save " + file);
  expect_says(failed.err, {"bad.json", "/none.json", "2 messages saved in " + file + "\n"});  // as it was before
  EXPECT_EQ(failed.out, hello);
}

TEST(ChatCommand, AModelThatCannotChatIsRefused) {
  const Folder folder;
  EXPECT_EQ(heddle({"chat", folder.file("none.gguf")}).status, 1);
  const auto running = open_running(write_small_model(folder, "zero.gguf", true), {});
  running->chat_template.clear();
  std::ostringstream out;
  const ChatOutput output{.answers = out, .notices = out, .width = {}};
  EXPECT_REFUSED(ChatTalk(*running, {}, output), "no chat template", "heddle run");
  running->chat_template = "{{ raise_exception('no system message, please') }}";
  ChatTalk talk(*running, {}, output);
  EXPECT_REFUSED(talk.say("hi"), "no system message, please");
  EXPECT_TRUE(talk.messages().empty());
}

TEST(ChatCommand, ATerminalDoesNotObeyAnAnswer) {
  const Folder folder;
  const auto running = open_running(write_small_model(folder, "zero.gguf", true), {});
  std::ostringstream out;
  const ChatOutput output{.answers = out, .notices = out, .width = [] { return size_t(80); }};
  ChatTalk talk(*running, ChatSettings().with("system", "a\x1b[2Jb\u009bc\td"), output);
  talk.show_system();
  EXPECT_EQ(out.str(), "a\ufffd[2Jb\ufffdc\td\n");
}

// The small model must say what the grammar says.
TEST(ChatCommand, ThoughtsAreDimOnATerminal) {
  const Folder folder;
  const auto running = open_running(write_small_model(folder, "zero.gguf", true), {});
  running->chat_template =
      "{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>"
      "{% endif %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
  const ChatSettings settings =
      ChatSettings().with("grammar", folder.write("g.gbnf", "root ::= \"<think>h h</think> hi\""));
  const auto said = [&](bool styled) {
    std::ostringstream out;
    ChatTalk talk(*running, settings,
                  {.answers = out, .notices = out, .width = [] { return size_t(80); }, .styled = styled});
    talk.say("hi");
    EXPECT_EQ(talk.messages().back().content, "<think>h h</think> hi");
    return out.str();
  };
  EXPECT_EQ(said(false), "<think>h h</think> hi\n");
  EXPECT_EQ(said(true), "\x1b[2m<think>h h</think>\x1b[22m hi\n");
  running->chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}";
  EXPECT_EQ(said(true), "<think>h h</think> hi\n");
}

TEST(ChatCommand, CommandsHaveTheNamesOfOtherPrograms) {
  for (const char* leave : {"/quit", "/exit", "/bye"}) {
    const Result result = chat(std::string(leave) + "\nhi\n");
    EXPECT_EQ(result.out, "") << leave;
    EXPECT_EQ(result.status, 0) << result.err;
  }
  expect_says(chat("hi\n/clear\n/again\n").err, {"the conversation begins anew", "no message to answer again"});
  expect_says(chat("/?\n").err, {"/help, /?", "/quit"});
}

TEST(ChatCommand, ALimitIsSaidAndCanBePassed) {
  const Result result = chat("hi\n/continue\n/set tokens 0\n/continue\n/continue\nWho are you?\n", {"-n", "3"});
  EXPECT_EQ(result.out, "Hello! I\n can tell you\n a little story, or say what heddle is.\n" + who);
  expect_says(result.err, {"(stopped at the limit of 3 tokens: /continue goes on, /set tokens N changes the limit)",
                           "(stopped at the limit of 3 tokens: ", "the answer is complete"});
  expect_says(chat("/continue\n").err, {"there is no answer to continue"});
  // what was continued is one answer
  const Folder folder;
  chat("hi\n/set tokens 0\n/continue\n/save " + folder.file("c.json").string() + "\n", {"-n", "3"});
  expect_says(contents(folder.file("c.json")), {"\"content\": \"" + hello.substr(0, hello.size() - 1) + "\""});
}

TEST(ChatCommand, AFullContextGivesUpTheOldestTurns) {
  // prompts of 6 and 30 tokens; the third message does not fit
  const std::vector<std::string> small{"--ctx", "63"};
  const Result full = chat("hi\nWho are you?\nhi\n/drop\n/stats\n", small);
  EXPECT_EQ(full.out, hello + who + hello);
  expect_says(full.err, {"the conversation is too long: expected fewer than 63 tokens, the context, found ",
                         "/drop forgets the oldest turns and goes on, /undo takes back the last turn, /reset",
                         "(forgot the ", "oldest turn", " of 63 tokens are used)", "generated 17"});
  // an answer that fills the context
  const Result cut = chat("hi\nTell me a story.\n/drop\n/continue\n/undo\nhi\n", {"--ctx", "80"});
  expect_says(cut.err, {"(the context of 80 tokens is full: /drop forgets the oldest turns, then /continue goes on; "
                        "/undo takes back this turn, /reset begins anew)",
                        "(forgot the 1 oldest turn: ", " of 80 tokens are used)", "taken back; 0 messages"});
  EXPECT_TRUE(cut.out.ends_with("\n" + hello)) << cut.out;
  // nothing can be forgotten
  const std::string long_text(1000, 'x');
  expect_says(chat(long_text + "\n/drop\n").err,
              {"the conversation is too long", "a larger --ctx", "no turn to forget"});
  expect_says(chat("hi\n/drop\n").err, {"no turn to forget but the last one"});
}

TEST(ChatCommand, NamesAreCompleted) {
  EXPECT_EQ(completions("/sa"), (std::vector<std::string>{"/save "}));
  EXPECT_EQ(completions("/s"), (std::vector<std::string>{"/system ", "/set ", "/save ", "/stats"}));
  EXPECT_EQ(completions("/set min"), (std::vector<std::string>{"/set min-p "}));
  EXPECT_TRUE(completions("hello").empty());
}

}  // namespace
}  // namespace heddle::test
