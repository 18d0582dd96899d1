#include "main/process.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "base/error.h"

namespace heddle {
namespace {

std::atomic<bool> was_interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a handler may set it");

}  // namespace

DescriptorBuffer::DescriptorBuffer(int descriptor) : descriptor_(descriptor) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

DescriptorBuffer::int_type DescriptorBuffer::overflow(int_type c) {
  if (sync() != 0) return traits_type::eof();
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  *pptr() = traits_type::to_char_type(c);
  pbump(1);
  return c;
}

int DescriptorBuffer::sync() {
  for (const char* at = pbase(); at < pptr() && error_ == 0;) {
    const ssize_t written = ::write(descriptor_, at, size_t(pptr() - at));
    if (written >= 0)
      at += written;
    else if (errno != EINTR)
      error_ = errno;
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return error_ == 0 ? 0 : -1;
}

StandardOutput::StandardOutput() : buffer_(STDOUT_FILENO), before_(std::cout.rdbuf(&buffer_)) {}

StandardOutput::~StandardOutput() {
  std::cout.flush();
  std::cout.rdbuf(before_);
}

int status_after_output(int status, std::ostream& out, std::ostream& err) {
  if (out.flush()) return status;
  const auto* buffer = dynamic_cast<const DescriptorBuffer*>(out.rdbuf());
  const int error = buffer ? buffer->error() : 0;
  if (error == EPIPE) return 128 + SIGPIPE;
  err << "heddle: standard output cannot be written" << (error ? ": " : "") << (error ? std::strerror(error) : "")
      << std::endl;
  return status ? status : 1;
}

std::string read_all(std::istream& in, std::ostream& err, const char* what) {
  if (&in == &std::cin && ::isatty(STDIN_FILENO))
    err << "type " << what << ", then Ctrl-D on a line of its own" << std::endl;
  return {std::istreambuf_iterator<char>(in), {}};
}

Interrupt::Interrupt() {
  was_interrupted = false;
  struct sigaction action = {};
  action.sa_handler = [](int) { was_interrupted = true; };
  action.sa_flags = SA_RESTART;
  check(::sigaction(SIGINT, &action, &before_) == 0, "SIGINT can be handled");
  // A shell makes its background jobs ignore SIGINT: Ctrl-C is meant for another program.
  if (before_.sa_handler == SIG_IGN) ::sigaction(SIGINT, &before_, nullptr);
}

Interrupt::~Interrupt() { ::sigaction(SIGINT, &before_, nullptr); }

const std::atomic<bool>& Interrupt::flag() const { return was_interrupted; }

StopSignals::StopSignals(std::function<void()> on_first, std::function<void()> on_hangup)
    : on_first_(std::move(on_first)), on_hangup_(std::move(on_hangup)) {
  sigset_t stops;
  sigemptyset(&stops);
  for (const int stop : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    ::sigaction(stop, nullptr, &action);
    if (action.sa_handler != SIG_IGN && (stop != SIGHUP || on_hangup_)) sigaddset(&stops, stop);
  }
  check(::pthread_sigmask(SIG_BLOCK, &stops, &before_) == 0, "signals can be blocked");
  signals_ = ::signalfd(-1, &stops, SFD_CLOEXEC);
  end_ = ::eventfd(0, EFD_CLOEXEC);
  check(signals_ >= 0 && end_ >= 0, "signals can be read");
  thread_ = std::thread([this] { watch(); });
}

StopSignals::~StopSignals() {
  const uint64_t one = 1;
  check(::write(end_, &one, sizeof one) == sizeof one, "the thread can be woken");
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
    signalfd_siginfo info;
    if (::read(signals_, &info, sizeof info) != sizeof info) continue;
    if (info.ssi_signo == SIGHUP) {
      on_hangup_();
      continue;
    }
    if (++seen > 1) ::_exit(1);
    on_first_();
  }
}

// Field 22 of /proc/self/stat: ticks between the start of the system and that of the process.
double seconds_since_process_start() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t name_end = text.rfind(')');  // the name is field 2 and may hold anything
  const long ticks_per_second = ::sysconf(_SC_CLK_TCK);
  timespec now{};
  if (name_end == std::string::npos || ticks_per_second <= 0 || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  if (!(fields >> ticks)) return 0;
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9 - ticks / double(ticks_per_second);
}

}  // namespace heddle
