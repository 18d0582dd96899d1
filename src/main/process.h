// The process and its surroundings: standard streams that report failures, signals as the user means them, and how long
// it has been running.
#pragma once
#include <signal.h>

#include <array>
#include <atomic>
#include <functional>
#include <iosfwd>
#include <streambuf>
#include <string>
#include <thread>

namespace heddle {

// Writes to a file descriptor. After a failure nothing more is written.
class DescriptorBuffer : public std::streambuf {
 public:
  explicit DescriptorBuffer(int descriptor);

  int error() const { return error_; }  // errno of the write that failed; 0: none did

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  int descriptor_;
  int error_ = 0;
  std::array<char, 1 << 14> buffer_;
};

// While one lives, std::cout writes through a DescriptorBuffer.
class StandardOutput {
 public:
  StandardOutput();
  ~StandardOutput();
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

 private:
  DescriptorBuffer buffer_;
  std::streambuf* before_;
};

// Flushes `out` and turns a failed write into an exit status and a line on `err`; `status` if all was written. A reader
// that closed the pipe is no failure worth a word: then the status alone says so, as if SIGPIPE had ended the program.
int status_after_output(int status, std::ostream& out, std::ostream& err);

// Everything up to the end. Where `in` is a terminal, a line on `err` says what is to be typed: "a text to continue".
std::string read_all(std::istream& in, std::ostream& err, const char* what);

// While one lives (one at a time), Ctrl-C sets a flag instead of ending the program, unless SIGINT was ignored.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();  // SIGINT does what it did before
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  const std::atomic<bool>& flag() const;

 private:
  struct sigaction before_ = {};
};

// For a server: the first SIGINT or SIGTERM asks it to stop, the second ends the process with status 1; SIGHUP asks it
// to read its files again. Signals that were ignored stay so. Create it before any other thread: threads that are
// created while it lives leave these signals to it.
class StopSignals {
 public:
  // Called from a thread of its own, one at a time. `on_hangup` empty: SIGHUP ends the process.
  explicit StopSignals(std::function<void()> on_first, std::function<void()> on_hangup = {});
  ~StopSignals();  // the signals do what they did before
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  void watch();

  std::function<void()> on_first_, on_hangup_;
  sigset_t before_{};
  int signals_ = -1, end_ = -1;  // descriptors
  std::thread thread_;
};

// Seconds since the process was started, to about 10 ms; 0 where the system does not tell.
double seconds_since_process_start();

}  // namespace heddle
