#include "main/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "base/clock.h"
#include "base/memory.h"

namespace heddle {
namespace {

constexpr double first_after = 1, interval = 0.2;  // seconds
constexpr const char* clear_line = "\r\x1b[K";

double seconds_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

std::string time_text(double seconds) {
  const auto whole = uint64_t(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace

ProgressLine::ProgressLine(const std::ostream* err) : ProgressLine(std::cerr, seconds_now) {
  if (!err || err->rdbuf() != std::cerr.rdbuf() || !::isatty(STDERR_FILENO)) err_ = nullptr;
}

ProgressLine::ProgressLine(std::ostream& err, std::function<double()> now)
    : err_(&err), now_(std::move(now)), start_(now_()) {}

void ProgressLine::show(const std::function<std::string()>& text) {
  if (!err_) return;
  const std::lock_guard lock(mutex_);
  const double now = now_();
  if (now - start_ < first_after || (shown_ && now - shown_at_ < interval)) return;
  *err_ << clear_line << text() << std::flush;
  shown_ = true;
  shown_at_ = now;
}

void ProgressLine::count(std::string_view what, uint64_t done, uint64_t total, std::string_view unit) {
  if (!err_) return;
  const uint64_t first = first_of(done);
  show([&] {
    std::string text = unit.empty() ? fmt::format("{} {} %", what, total ? 100 * done / total : 100)
                                    : fmt::format("{} {} of {} {}", what, done, total, unit);
    if (done > first && done < total)
      text += fmt::format(", {} left", time_text(seconds() * double(total - done) / double(done - first)));
    return text;
  });
}

uint64_t ProgressLine::first_of(uint64_t done) {
  const std::lock_guard lock(mutex_);
  if (!first_count_) {
    first_count_ = done;
    first_at_ = now_();
  }
  return *first_count_;
}

void ProgressLine::transfer(std::string_view what, uint64_t done, uint64_t total) {
  if (!err_) return;
  const uint64_t first = first_of(done);
  show([&] {
    constexpr uint64_t width = 24;  // of the bar
    const double fraction = total ? double(done) / double(total) : 1, passed = now_() - first_at_;
    const auto filled = std::min<uint64_t>(width, uint64_t(fraction * width));
    const std::string bar = std::string(filled, '=') + (filled < width ? ">" : "");
    std::string text =
        fmt::format("{} [{:<{}}] {:.0f} % of {}", what, bar, width, fraction * 100, bytes_text(double(total)));
    if (done > first && passed > 0) {
      const double speed = double(done - first) / passed;
      text += fmt::format(", {}/s, {} left", bytes_text(speed), time_text(double(total - done) / speed));
    }
    return text;
  });
}

void ProgressLine::clear() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(shown_, false)) *err_ << clear_line << std::flush;
}

}  // namespace heddle
