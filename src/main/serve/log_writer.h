// A log written by a thread of its own: a caller that logs a line does not wait for the reader of the log.
#pragma once
#include <iosfwd>
#include <memory>
#include <string>
#include <thread>

namespace heddle {

class LogWriter {
 public:
  // When `max_waiting` lines wait, further ones are dropped; a line says how many as soon as there is room again.
  explicit LogWriter(std::ostream& out, size_t max_waiting = 100'000);
  ~LogWriter();  // writes waiting lines, for up to `patience` seconds

  void write(std::string line);  // without a line break; from any thread

  static constexpr double patience = 2;

 private:
  struct State;

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this
  std::thread thread_;
};

}  // namespace heddle
