// A line on the terminal that says how far something is, and is gone when it is done.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace heddle {

// Shows nothing if `err` is null or not the terminal's standard error, and nothing in the first second: what is quick
// needs no progress. From then on a thread of its own draws what was said last, five times a second at most, cut to the
// terminal's width. A signal that ends the program removes the line first. Any thread may call it.
class ProgressLine {
 public:
  explicit ProgressLine(const std::ostream* err);
  // For tests: a terminal of that many columns (0: not known), and a clock in seconds. Only draw() draws.
  ProgressLine(std::ostream& err, std::function<double()> now, std::function<size_t()> columns);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // From now on there are none: what is printed is for a program.
  static void disable();

  // Replaces the line.
  void show(std::string text);
  // "prompt 512 of 2000 tokens, 120 tokens/s, 12 s left".
  void count(std::string_view what, uint64_t done, uint64_t total, std::string_view unit);
  // "qwen3:0.6b [=====>    ] 43 % of 4.9 GB, 112.0 MB/s, 24 s left"; the bar is shorter where there is no room for it.
  void transfer(std::string_view what, uint64_t done_bytes, uint64_t total_bytes);
  void clear();  // until the next call
  // Writes a line that stays; what was shown is drawn again below it.
  void message(std::ostream& to, std::string_view text);

  void draw();

 private:
  struct Rate {
    double per_second, seconds_left;
  };
  std::optional<Rate> rate(uint64_t done, uint64_t total);
  size_t cells_in_line() const;
  void draw_locked();
  void remove_locked();
  void keep_drawing();

  std::ostream* err_;  // null: nothing is shown
  std::function<double()> now_;
  std::function<size_t()> columns_;
  double start_;
  std::mutex mutex_;          // guards what follows
  std::string text_;          // empty: there is no line
  std::string drawn_;         // what is on the terminal
  uint64_t first_count_ = 0;  // the speed is that of what came after the first call for this total
  std::optional<uint64_t> total_;
  double first_at_ = 0;
  bool ends_ = false;
  std::condition_variable end_;
  std::thread drawing_;
};

}  // namespace heddle
