#include "ranks/children.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "ranks/shared_memory.h"

namespace heddle::ranks {
namespace {

// In the new process: only what may be called between fork and exec.
[[noreturn]] void become(const char* program, char* const* arguments, pid_t parent, int socket, int memory) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::fcntl(socket, F_SETFD, 0);
  ::fcntl(memory, F_SETFD, 0);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::execv(program, arguments);
  ::_exit(127);
}

}  // namespace

Children::Children(const std::string& program, uint32_t ranks,
                   const std::function<std::vector<std::string>(uint32_t, int, int)>& arguments)
    : memory_(make_shared_memory(ranks)) {
  const pid_t self = ::getpid();
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    int sockets[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
      throw Error("rank {} cannot be started: {}", rank, std::strerror(errno));
    std::vector<std::string> words = arguments(rank, sockets[1], memory_);
    words.insert(words.begin(), program);
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const pid_t process = ::fork();
    if (process == 0) become(program.c_str(), pointers.data(), self, sockets[1], memory_);
    const int error = errno;
    ::close(sockets[1]);
    if (process < 0) {
      ::close(sockets[0]);
      throw Error("rank {} cannot be started: {}", rank, std::strerror(error));
    }
    all_.push_back({.process = process, .socket = sockets[0]});
  }
}

Children::~Children() {
  for (Child& child : all_)
    if (child.socket >= 0) ::close(child.socket);
  if (memory_ >= 0) ::close(memory_);
  const auto start = Clock::now();
  for (Child& child : all_) {
    while (!has_ended(child) && seconds_since(start) < end_seconds_)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (child.ended) continue;
    ::kill(child.process, SIGKILL);
    ::waitpid(child.process, nullptr, 0);
  }
}

std::vector<int> Children::take_sockets() {
  std::vector<int> sockets;
  for (Child& child : all_) sockets.push_back(std::exchange(child.socket, -1));
  return sockets;
}
int Children::take_memory() { return std::exchange(memory_, -1); }

bool Children::has_ended(Child& child) {
  if (!child.ended) child.ended = ::waitpid(child.process, &child.status, WNOHANG) == child.process;
  return child.ended;
}

std::string Children::fate(uint32_t rank) {
  Child& child = all_.at(rank - 1);
  // its sockets are closed a moment before its end can be asked for
  for (const auto start = Clock::now(); !has_ended(child) && seconds_since(start) < 0.3;)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (!child.ended) return "";
  if (WIFSIGNALED(child.status))
    return fmt::format("was ended by signal {} ({})", WTERMSIG(child.status), ::strsignal(WTERMSIG(child.status)));
  return fmt::format("has ended with status {}", WEXITSTATUS(child.status));
}

}  // namespace heddle::ranks
