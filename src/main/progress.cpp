#include "main/progress.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <iostream>
#include <utility>

#include "base/clock.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "main/chat/word_wrap.h"

namespace heddle {
namespace {

constexpr double first_after = 1, interval = 0.2;  // seconds
constexpr std::string_view clear_line = "\r\x1b[K";
constexpr size_t bar_width = 24;

std::atomic<bool> disabled = false;

double seconds_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

size_t error_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string time_text(double seconds) {
  const auto whole = uint64_t(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

size_t cells_of_text(std::string_view text) {
  size_t cells = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    cells += cells_of(point.value);
    at += point.bytes;
  }
  return cells;
}

// As much as fits, with dots where something is missing; control characters are left out.
std::string cut_to(std::string_view text, size_t cells) {
  const bool fits = cells_of_text(text) <= cells;
  const std::string_view dots = fits ? "" : std::string_view("...").substr(0, cells);
  std::string cut;
  size_t used = dots.size();
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    at += point.bytes;
    if (is_control(point.value)) continue;
    used += cells_of(point.value);
    if (used > cells) break;
    append_utf8(cut, point.value);
  }
  return cut.append(dots);
}

// --- signals --------------------------------------------------------------------------------------------------------
// While a line is drawn, signals that end the program remove it and then do what they did before.

constexpr std::array ending = {SIGINT, SIGTERM, SIGHUP};
std::array<struct sigaction, ending.size()> actions_before;
std::mutex lines_mutex;
size_t lines_drawn = 0;

void remove_line_and_go_on(int signal) {
  // nothing can be done about a terminal that is gone
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, clear_line.data(), clear_line.size());
  for (size_t i = 0; i < ending.size(); ++i)
    if (ending[i] == signal) ::sigaction(signal, &actions_before[i], nullptr);
  ::raise(signal);
}

bool is_ours(const struct sigaction& action) { return action.sa_handler == remove_line_and_go_on; }

void begin_removing() {
  const std::lock_guard lock(lines_mutex);
  if (lines_drawn++) return;
  struct sigaction action {};
  action.sa_handler = remove_line_and_go_on;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < ending.size(); ++i) {
    ::sigaction(ending[i], nullptr, &actions_before[i]);
    if (actions_before[i].sa_handler != SIG_IGN) ::sigaction(ending[i], &action, nullptr);
  }
}

void end_removing() {
  const std::lock_guard lock(lines_mutex);
  if (--lines_drawn) return;
  for (size_t i = 0; i < ending.size(); ++i) {
    struct sigaction now {};
    ::sigaction(ending[i], nullptr, &now);
    if (is_ours(now)) ::sigaction(ending[i], &actions_before[i], nullptr);
  }
}

}  // namespace

ProgressLine::ProgressLine(const std::ostream* err) : ProgressLine(std::cerr, seconds_now, error_columns) {
  if (!err || err->rdbuf() != std::cerr.rdbuf() || !::isatty(STDERR_FILENO) || disabled)
    err_ = nullptr;
  else
    drawing_ = std::thread([this] { keep_drawing(); });
}

ProgressLine::ProgressLine(std::ostream& err, std::function<double()> now, std::function<size_t()> columns)
    : err_(&err), now_(std::move(now)), columns_(std::move(columns)), start_(now_()) {}

ProgressLine::~ProgressLine() {
  clear();
  if (!drawing_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  end_.notify_one();
  drawing_.join();
}

void ProgressLine::disable() { disabled = true; }

void ProgressLine::keep_drawing() {
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, std::chrono::duration<double>(interval), [this] { return ends_; })) draw_locked();
}

void ProgressLine::show(std::string text) {
  if (!err_) return;
  const std::lock_guard lock(mutex_);
  text_ = std::move(text);
}

std::optional<ProgressLine::Rate> ProgressLine::rate(uint64_t done, uint64_t total) {
  const std::lock_guard lock(mutex_);
  const double now = now_();
  if (total_ != total || done < first_count_) {
    total_ = total;
    first_count_ = done;
    first_at_ = now;
  }
  if (done == first_count_ || now <= first_at_) return std::nullopt;
  const double speed = double(done - first_count_) / (now - first_at_);
  return Rate{speed, total > done ? double(total - done) / speed : 0};
}

void ProgressLine::count(std::string_view what, uint64_t done, uint64_t total, std::string_view unit) {
  if (!err_) return;
  std::string text = fmt::format("{} {} of {} {}", what, done, total, unit);
  if (const auto known = rate(done, total); known && done < total) {
    if (known->per_second >= 1) text += fmt::format(", {:.0f} {}/s", known->per_second, unit);
    text += fmt::format(", {} left", time_text(known->seconds_left));
  }
  show(std::move(text));
}

void ProgressLine::transfer(std::string_view what, uint64_t done, uint64_t total) {
  if (!err_) return;
  const double fraction = total ? double(done) / double(total) : 1;
  std::string figures = fmt::format(" {:.0f} % of {}", std::floor(fraction * 100), bytes_text(double(total)));
  if (const auto known = rate(done, total))
    figures += fmt::format(", {}/s, {} left", bytes_text(known->per_second), time_text(known->seconds_left));
  const size_t room = cells_in_line() - std::min(cells_in_line(), figures.size());  // for a name and a bar
  const std::string name = cut_to(what, room);
  constexpr size_t around = 3;  // the blank before it and its ends
  const size_t left = room - cells_of_text(name), width = std::min(bar_width, left - std::min(left, around));
  std::string bar;
  if (width >= 5) {
    const auto filled = std::min(width, size_t(fraction * double(width)));
    bar = fmt::format(" [{:<{}}]", std::string(filled, '=') + (filled < width ? ">" : ""), width);
  }
  show(name + bar + figures);
}

// The last columns stay free for the ^C of a terminal, which must not begin another line, nor its last one: some
// terminals go on to the next line when that is written.
size_t ProgressLine::cells_in_line() const {
  constexpr size_t free = 3;
  const size_t columns = columns_();
  return columns ? columns - std::min(columns, free) : 1000;
}

void ProgressLine::draw() {
  const std::lock_guard lock(mutex_);
  draw_locked();
}

void ProgressLine::draw_locked() {
  if (!err_ || text_.empty() || text_ == drawn_ || now_() - start_ < first_after) return;
  if (drawn_.empty()) begin_removing();
  drawn_ = text_;
  *err_ << clear_line << cut_to(text_, cells_in_line()) << std::flush;
}

void ProgressLine::remove_locked() {
  if (drawn_.empty()) return;
  drawn_.clear();
  *err_ << clear_line << std::flush;
  end_removing();
}

void ProgressLine::clear() {
  const std::lock_guard lock(mutex_);
  text_.clear();
  remove_locked();
}

void ProgressLine::message(std::ostream& to, std::string_view text) {
  const std::lock_guard lock(mutex_);
  remove_locked();
  to << text << std::endl;
}

}  // namespace heddle
