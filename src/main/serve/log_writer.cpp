// The thread of a log that nobody reads cannot be ended: it is left alone with its state.
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
  const size_t most;
  std::mutex mutex;  // of all that follows
  std::condition_variable changed;
  std::deque<std::string> waiting;
  size_t lost = 0;
  bool ending = false, ended = false;
};

namespace {

// All that waits, with a word about what was lost.
std::string take_lines(auto& state) {
  std::string text;
  for (const std::string& line : state.waiting) text.append(line).append("\n");
  state.waiting.clear();
  if (const size_t lost = std::exchange(state.lost, 0)) text += fmt::format("{{\"lost_lines\":{}}}\n", lost);
  return text;
}

}  // namespace

LogWriter::LogWriter(std::ostream& out, size_t most) : state_(new State{out, most}) {
  thread_ = std::thread([state = state_] {
    std::unique_lock lock(state->mutex);
    for (;;) {
      state->changed.wait(lock, [&] { return state->ending || !state->waiting.empty(); });
      if (state->waiting.empty() && state->lost == 0) break;
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
      return;
    }
  }
  thread_.join();
}

void LogWriter::write(std::string line) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->waiting.size() >= state_->most) {
      ++state_->lost;
      return;
    }
    state_->waiting.push_back(std::move(line));
  }
  state_->changed.notify_one();
}

}  // namespace heddle
