// Lines for a log, written by a thread of its own: who has something to say does not wait for who reads it.
#pragma once
#include <iosfwd>
#include <memory>
#include <string>
#include <thread>

namespace heddle {

class LogWriter {
 public:
  // When more than `most` lines wait, further ones are lost; how many is said as soon as there is room again.
  explicit LogWriter(std::ostream& out, size_t most = 100'000);
  ~LogWriter();  // writes what waits; a reader who does not read is given `patience` seconds

  void write(std::string line);  // without a line end; from any thread

  static constexpr double patience = 2;

 private:
  struct State;

  std::shared_ptr<State> state_;  // of the thread too, which may outlive this
  std::thread thread_;
};

}  // namespace heddle
