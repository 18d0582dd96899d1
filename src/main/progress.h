// A line on the terminal that says how far something is, and is gone when it is done.
#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace heddle {

// Shows nothing if `err` is null or not the terminal's standard error, and nothing in the first second: what is quick
// needs no progress. From then on the line is written five times a second at most. Any thread may call it.
class ProgressLine {
 public:
  explicit ProgressLine(const std::ostream* err);
  ProgressLine(std::ostream& err, std::function<double()> now);  // for tests: a terminal, and a clock in seconds
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Replaces the line; `text` is called only if it is shown.
  void show(const std::function<std::string()>& text);
  // "prompt 512 of 2000 tokens, 12 s left"; without a unit "loading 43 %, 3 s left".
  void count(std::string_view what, uint64_t done, uint64_t total, std::string_view unit = {});
  // "qwen3:0.6b [=====>    ] 43 % of 4.9 GB, 112.0 MB/s, 24 s left".
  void transfer(std::string_view what, uint64_t done_bytes, uint64_t total_bytes);
  void clear();  // until the next call

  double seconds() const { return now_() - start_; }  // since it was constructed

 private:
  uint64_t first_of(uint64_t done);

  std::ostream* err_;  // null: nothing is shown
  std::function<double()> now_;
  double start_;
  std::mutex mutex_;  // guards what follows
  bool shown_ = false;
  double shown_at_ = 0;
  std::optional<uint64_t> first_count_;  // done at the first count(): the speed is that of what came after
  double first_at_ = 0;
};

}  // namespace heddle
