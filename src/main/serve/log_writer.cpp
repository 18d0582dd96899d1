// A thread that is blocked by a reader cannot be ended: it is detached and keeps its state.
#include "main/serve/log_writer.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <ostream>
#include <utility>

namespace heddle {

struct LogWriter::State {
  std::ostream& out;
  const size_t max_waiting;
  std::mutex mutex;  // guards everything below
  std::condition_variable changed;
  std::deque<std::string> waiting;
  size_t dropped = 0;  // since the last line that was written
  uint64_t lost = 0;   // of all
  bool ending = false, ended = false;
};

namespace {

// All waiting lines, and one that says how many were dropped.
std::string take_lines(auto& state) {
  std::string text;
  for (const std::string& line : state.waiting) text.append(line).append("\n");
  state.waiting.clear();
  if (const size_t dropped = std::exchange(state.dropped, 0)) text += fmt::format("{{\"lost_lines\":{}}}\n", dropped);
  return text;
}

}  // namespace

LogWriter::LogWriter(std::ostream& out, size_t max_waiting, bool* stuck)
    : state_(new State{out, max_waiting}), stuck_(stuck) {
  thread_ = std::thread([state = state_] {
    std::unique_lock lock(state->mutex);
    for (;;) {
      state->changed.wait(lock, [&] { return state->ending || !state->waiting.empty(); });
      if (state->waiting.empty() && state->dropped == 0) break;
      const std::string text = take_lines(*state);
      lock.unlock();
      state->out << text << std::flush;
      lock.lock();
    }
    state->ended = true;
    state->changed.notify_all();
  });
}

LogWriter::~LogWriter() {
  {
    std::unique_lock lock(state_->mutex);
    state_->ending = true;
    state_->changed.notify_all();
    const auto limit = std::chrono::duration<double>(patience);
    if (!state_->changed.wait_for(lock, limit, [this] { return state_->ended; })) {
      thread_.detach();
      if (stuck_) *stuck_ = true;
      return;
    }
  }
  thread_.join();
}

uint64_t LogWriter::lost() const {
  const std::lock_guard lock(state_->mutex);
  return state_->lost;
}

void LogWriter::write(std::string line) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->waiting.size() >= state_->max_waiting) {
      ++state_->dropped;
      ++state_->lost;
      return;
    }
    state_->waiting.push_back(std::move(line));
  }
  state_->changed.notify_one();
}

}  // namespace heddle
