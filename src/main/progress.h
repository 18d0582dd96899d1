// One line on the terminal that says how far something is that takes longer than a second.
#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

namespace heddle {

class Progress {
 public:
  // "prompt 512 of 2000 tokens, 12 s left"; without a unit "loading 43 %, 3 s left". Nothing is shown unless `out` is
  // standard error and a terminal.
  Progress(const std::ostream* out, std::string what, std::string unit = {});
  // For tests: shown on `out` in any case, by this clock in seconds.
  Progress(std::ostream& out, std::string what, std::string unit, std::function<double()> now);
  ~Progress();  // takes the line away
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // As often as one likes: the line is written from the first second on, and then five times a second.
  void update(uint64_t done, uint64_t total);
  void clear();  // takes the line away until the next update

 private:
  std::ostream* out_;  // null: nothing is shown
  std::string what_, unit_;
  std::function<double()> now_;
  double start_, shown_at_;
  uint64_t before_ = 0;  // done at the first update: what is left is reckoned from what came after
  bool begun_ = false, shown_ = false;
};

}  // namespace heddle
