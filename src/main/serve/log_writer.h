// A log written by a thread of its own: a caller that logs a line does not wait for the reader of the log.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <thread>

namespace heddle {

class LogWriter {
 public:
  // When `max_waiting` lines wait, further ones are dropped; a line says how many as soon as there is room again.
  // `stuck` is set if it ends while the reader keeps it from writing: then `out` must not be used any more.
  explicit LogWriter(std::ostream& out, size_t max_waiting = 100'000, bool* stuck = nullptr);
  ~LogWriter();  // writes waiting lines, for up to `patience` seconds

  void write(std::string line);  // without a line break; from any thread
  uint64_t lost() const;         // lines, so far

  static constexpr double patience = 2;

 private:
  struct State;

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this
  std::thread thread_;
  bool* const stuck_;
};

}  // namespace heddle
