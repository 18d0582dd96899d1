// A thread that reads signals as it would read a file.
#include "main/serve/stop_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"

namespace heddle {

StopSignals::StopSignals(std::function<void()> first) : first_(std::move(first)) {
  sigset_t stops;
  sigemptyset(&stops);
  for (const int stop : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    ::sigaction(stop, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&stops, stop);  // a shell lets programs in the background ignore Ctrl-C
  }
  check(::pthread_sigmask(SIG_BLOCK, &stops, &before_) == 0, "signals can be held back");
  signals_ = ::signalfd(-1, &stops, SFD_CLOEXEC);
  end_ = ::eventfd(0, EFD_CLOEXEC);
  check(signals_ >= 0 && end_ >= 0, "signals can be read");
  thread_ = std::thread([this] { watch(); });
}

StopSignals::~StopSignals() {
  const uint64_t one = 1;
  check(::write(end_, &one, sizeof one) == sizeof one, "the thread can be told");
  thread_.join();
  ::close(signals_);
  ::close(end_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopSignals::watch() {
  for (int seen = 0;;) {
    pollfd both[] = {{.fd = signals_, .events = POLLIN}, {.fd = end_, .events = POLLIN}};
    if (::poll(both, 2, -1) < 0) continue;
    if (both[1].revents) return;
    signalfd_siginfo about;
    if (::read(signals_, &about, sizeof about) != sizeof about) continue;
    if (++seen > 1) ::_exit(1);
    first_();
  }
}

}  // namespace heddle
