// heddle pull from a hub of the tests' own, and the offer to pull in a terminal.
#include "main/models/pull_command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/main/models/own_stores.h"
#include "tests/store/test_hub.h"
#include "tests/support/program.h"
#include "tests/support/refused.h"

namespace heddle::test {
namespace {

class PullCommand : public testing::Test {
 protected:
  PullCommand() {
    stores.set("HF_ENDPOINT", hub.server.address());
    stores.set("HEDDLE_OLLAMA_REGISTRY", hub.server.address());
    hub.repositories["heddle/weft-GGUF"] = {{"weft-Q8_0.gguf", contents(weft)}, {"README.md", "weft"}};
    hub.add_model("library/weft-small/latest", contents(weft));
  }
  OwnStores stores;
  TestHub hub;
};

TEST_F(PullCommand, GetsAModelThatRuns) {
  const Result pulled = heddle({"pull", "heddle/weft-GGUF"});
  EXPECT_EQ(pulled.status, 0) << pulled.err;
  const std::string path = stores.own() / "hub/heddle/weft-GGUF/weft-Q8_0.gguf";
  EXPECT_EQ(pulled.out, "heddle/weft-GGUF:Q8_0\t" + path + "\n");
  expect_says(pulled.err, {"heddle/weft-GGUF:Q8_0: 8.8 MB from " + hub.server.address(), "pulled and verified in ",
                           "to talk to it: heddle chat heddle/weft-GGUF:Q8_0"});
  EXPECT_EQ(contents(path), contents(weft));
  expect_says(heddle({"pull", "heddle/weft-GGUF:Q8_0"}).err, {"it is here already"});
  EXPECT_EQ(heddle({"pull", "weft-small"}).out.substr(0, 18), "weft-small:latest\t");
  const std::vector<std::string> rest{"-p", "Once", "-n", "8", "--temp", "0", "--device", "cpu"};
  std::vector<std::string> by_name{"run", "weft-small"}, own{"run", "weft"};
  by_name.insert(by_name.end(), rest.begin(), rest.end());
  own.insert(own.end(), rest.begin(), rest.end());
  EXPECT_EQ(heddle(by_name).out, heddle(own).out);
}

TEST_F(PullCommand, WhatIsRefused) {
  const auto refused = [](const std::vector<std::string>& words) {
    const Result result = heddle(words);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  expect_says(refused({"pull", "heddle/none"}), {"heddle/none: there is no such model at", "(404)"});
  expect_says(refused({"pull", "../../etc"}), {"\"../../etc\": expected org/repo"});
  expect_says(refused({"pull", "heddle/weft-GGUF:Q2_K"}), {"expected the type Q2_K in it, found Q8_0"});
  expect_says(refused({"pull", "weft-small", "--connections", "0"}), {"--connections: expected 1 to 32, found 0"});
  EXPECT_EQ(heddle({"pull"}).status, 2);
  // without a terminal nothing is pulled by itself
  for (const char* command : {"run", "chat", "serve"})
    expect_says(refused({command, "weft-small"}), {"to get it: heddle pull weft-small"});
  EXPECT_EQ(hub.server.requests().size(), 2u);
  stores.set("HF_ENDPOINT", "nowhere");
  expect_says(refused({"pull", "heddle/none"}), {"HF_ENDPOINT: expected an address"});
}

// The program in a terminal: what it shows until it ends, with `answer` typed after the question.
struct Shown {
  std::string text;
  int status = -1;
};
Shown in_terminal(const std::vector<std::string>& arguments, const std::string& question, const std::string& answer) {
  std::vector<std::string> all = arguments;
  all.insert(all.begin(), program_path());
  std::vector<char*> words;
  for (std::string& word : all) words.push_back(word.data());
  words.push_back(nullptr);
  int terminal = -1;
  const pid_t process = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (process < 0) return {"no terminal"};
  if (process == 0) {
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  Shown shown;
  bool answered = false;
  for (pollfd waiting{.fd = terminal, .events = POLLIN}; ::poll(&waiting, 1, 60'000) > 0;) {
    char piece[4096];
    const ssize_t size = ::read(terminal, piece, sizeof piece);
    if (size <= 0) break;
    shown.text.append(piece, size_t(size));
    if (answered || shown.text.find(question) == std::string::npos) continue;
    answered = ::write(terminal, answer.data(), answer.size()) > 0;
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  ::close(terminal);
  shown.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return shown;
}

TEST_F(PullCommand, IsOfferedInATerminal) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0) GTEST_SKIP() << "needs pseudo-terminals";
  ::close(terminal);
  const std::vector<std::string> run{"run", "weft-small", "-p", "Once", "-n", "8", "--temp", "0", "--device", "cpu"};
  Shown shown = in_terminal(run, "[y/N] ", "n\n");
  EXPECT_EQ(shown.status, 1);
  expect_says(shown.text, {"no model of that name on this machine",
                           "Pull weft-small:latest (8.8 MB) from registry.ollama.ai now? [y/N] "});
  EXPECT_FALSE(std::filesystem::exists(stores.own()));
  shown = in_terminal(run, "[y/N] ", "y\n");
  EXPECT_EQ(shown.status, 0) << shown.text;
  expect_says(shown.text, {"now? [y/N] y", "pulled and verified", " upon a time", "tok/s"});
  shown = in_terminal({"run", "none-such", "-p", "x"}, "[y/N] ", "y\n");
  EXPECT_EQ(shown.status, 1);
  expect_says(shown.text, {"there is no such model at registry.ollama.ai (404)"});
  shown = in_terminal({"inspect", "none-such"}, "[y/N] ", "y\n");  // it does not run a model: it is not asked about
  EXPECT_EQ(shown.status, 1);
  EXPECT_EQ(shown.text.find("[y/N]"), std::string::npos);
}

TEST_F(PullCommand, CtrlCKeepsWhatHasCome) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0) GTEST_SKIP() << "needs pseudo-terminals";
  ::close(terminal);
  hub.change = [](TestServer::Reply& reply) { reply.delay = 0.0002; };
  const Shown shown = in_terminal({"pull", "heddle/weft-GGUF"}, "/s, ", "\x03");  // its progress is to be seen
  EXPECT_EQ(shown.status, 130) << shown.text;
  expect_says(shown.text, {"heddle/weft-GGUF:Q8_0 [", "] ", "% of 8.8 MB, ", "/s, ", " left",
                           "interrupted; heddle pull heddle/weft-GGUF:Q8_0 goes on from here"});
  EXPECT_TRUE(std::filesystem::exists(stores.own() / "hub/heddle/weft-GGUF/weft-Q8_0.gguf.part"));
  hub.change = [](TestServer::Reply&) {};
  EXPECT_EQ(heddle({"pull", "heddle/weft-GGUF"}).status, 0);
}

}  // namespace
}  // namespace heddle::test
