// The time left is what the work since the first update lets expect.
#include "main/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/clock.h"

namespace heddle {
namespace {

constexpr double first_after = 1, apart = 0.2;  // seconds

double seconds_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

std::string time_text(double seconds) {
  const auto whole = uint64_t(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace

Progress::Progress(const std::ostream* out, std::string what, std::string unit)
    : Progress(std::cerr, std::move(what), std::move(unit), seconds_now) {
  if (out != &std::cerr || !::isatty(STDERR_FILENO)) out_ = nullptr;
}

Progress::Progress(std::ostream& out, std::string what, std::string unit, std::function<double()> now)
    : out_(&out),
      what_(std::move(what)),
      unit_(std::move(unit)),
      now_(std::move(now)),
      start_(now_()),
      shown_at_(start_ + first_after - apart) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (std::exchange(shown_, false)) *out_ << "\r\x1b[K" << std::flush;
}

void Progress::update(uint64_t done, uint64_t total) {
  if (!out_) return;
  const double now = now_();
  if (!std::exchange(begun_, true)) before_ = done;
  if (now - shown_at_ < apart) return;
  shown_at_ = now;
  shown_ = true;
  *out_ << "\r\x1b[K" << what_ << ' ';
  if (unit_.empty())
    *out_ << fmt::format("{} %", total ? 100 * done / total : 100);
  else
    *out_ << fmt::format("{} of {} {}", done, total, unit_);
  if (done > before_ && done < total)
    *out_ << fmt::format(", {} left", time_text((now - start_) * double(total - done) / double(done - before_)));
  *out_ << std::flush;
}

}  // namespace heddle
