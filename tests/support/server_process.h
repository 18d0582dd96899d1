// `heddle serve` as a process of its own, on a port that is free.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/folder.h"

namespace heddle::test {

class ServerProcess {
 public:
  // `program serve --port 0 ARGUMENTS`. Use up() before anything else. `prepare` is called in the new process, before
  // the program begins.
  ServerProcess(const std::string& program, std::vector<std::string> arguments,
                const std::function<void()>& prepare = {}) {
    arguments.insert(arguments.begin(), {program, "serve", "--port", "0"});
    std::vector<char*> words;
    for (std::string& word : arguments) words.push_back(word.data());
    words.push_back(nullptr);
    process_ = ::fork();
    if (process_ != 0) return;
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
      const int file = ::open(folder_.file(stream == STDOUT_FILENO ? "out" : "err").c_str(), O_CREAT | O_WRONLY, 0600);
      ::dup2(file, stream);
    }
    if (prepare) prepare();
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  ~ServerProcess() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  std::string out() const { return contents(folder_.file("out")); }
  std::string err() const { return contents(folder_.file("err")); }
  bool says(const std::string& text, double seconds = 30) const {  // on standard error, within this time
    for (double waited = 0; waited < seconds; waited += 0.01) {
      if (err().find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  bool up() const { return says("\nready "); }
  std::string address() const {  // "http://127.0.0.1:41234"
    const std::string text = err(), mark = "listening  ";
    const size_t at = text.find(mark);
    if (at == text.npos) return "";
    return text.substr(at + mark.size(), text.find('\n', at) - at - mark.size());
  }
  uint16_t port() const {
    const std::string text = address();
    return uint16_t(std::atoi(text.substr(text.rfind(':') + 1).c_str()));
  }

  pid_t process() const { return process_; }
  void signal(int number) { ::kill(process_, number); }
  // The exit status; -1: it was ended by a signal, or did not end in time.
  int status(double seconds = 30) {
    for (double waited = 0; waited < seconds; waited += 0.01) {
      int status = 0;
      if (::waitpid(process_, &status, WNOHANG) == process_) {
        process_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return -1;
  }
  int stop() {
    signal(SIGTERM);
    return status();
  }

 private:
  Folder folder_;
  pid_t process_ = -1;
};

}  // namespace heddle::test
