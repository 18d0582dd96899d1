// A program in a real terminal: tmux holds the screen, keys are sent, and what is to be seen is compared as a whole.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "tests/main/heddle_command.h"
#include "tests/support/folder.h"

namespace heddle::test {

inline bool has_terminals() {  // in a container there may be none
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0) return false;
  const char* name = ::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0 ? ::ptsname(terminal) : nullptr;
  const bool found = name && ::access(name, F_OK) == 0;
  ::close(terminal);
  return found;
}

// With a folder as its home and a tmux server of its own; skipped where there is no tmux or no terminal.
class TerminalTest : public testing::Test {
 protected:
  Folder home;

  void SetUp() override {
    if (shell("tmux -V").status != 0) GTEST_SKIP() << "needs tmux";
    if (!has_terminals()) GTEST_SKIP() << "needs pseudo-terminals (/dev/pts)";
  }
  void TearDown() override { tmux("kill-server"); }

  Ran tmux(const std::string& arguments) const {
    return shell(fmt::format("env -u TMUX LC_ALL=C.UTF-8 TMUX_TMPDIR={} tmux -L heddle -f /dev/null {}",
                             shell_quoted(home.path()), arguments));
  }
  // A line for a shell, in the folder. Ends with the exit status on the screen, also after Ctrl-C.
  void start_shell(const std::string& line, int columns = 80) const {
    const std::string command =
        fmt::format("trap : INT; cd {}; HOME=$PWD XDG_STATE_HOME= LC_ALL=C.UTF-8 {}; echo status $?; exec sleep 1000",
                    shell_quoted(home.path()), line);
    const std::string session = fmt::format("new-session -d -x {} -y 24 -s test {}", columns, shell_quoted(command));
    Ran ran = tmux(session);
    for (int tries = 0; ran.status != 0 && tries < 100; ++tries) {  // a server that is about to exit still answers
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ran = tmux(session);
    }
    ASSERT_EQ(ran.status, 0) << ran.out;
  }

  // tmux shows the new size at once and tells the program a quarter of a second later.
  void resize(int columns) const {
    tmux(fmt::format("resize-window -t test -x {} -y 24", columns));
    std::string tty = tmux("display-message -p -t test '#{pane_tty}'").out;
    tty.erase(tty.find_last_not_of('\n') + 1);
    const std::string size = fmt::format("24 {}\n", columns);
    EXPECT_TRUE(wait_until([&](const std::string&) { return shell("stty size <" + shell_quoted(tty)).out == size; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // for the program to draw
  }
  void type(const std::string& text) const { tmux("send-keys -t test -l " + shell_quoted(text)); }
  void press(const std::string& keys) const { tmux("send-keys -t test " + keys); }
  void enter(const std::string& text) const {
    type(text);
    press("Enter");
  }

  // Without the blanks at the ends of lines, and without empty lines below.
  std::string screen() const {
    std::string text = tmux("capture-pane -p -t test").out, result, blanks;
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
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
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
};

}  // namespace heddle::test
