// One thread: what has arrived goes in, a step is done, and callbacks note the time.
#include "main/bench/serve_sim_run.h"

#include <algorithm>
#include <thread>

#include "base/clock.h"
#include "main/progress.h"

namespace heddle {
namespace {

class Run {
 public:
  Run(engine::Engine& engine, const std::vector<Arrival>& arrivals, uint32_t at_once, engine::Speculation speculation,
      const std::ostream* log)
      : engine_(engine), arrivals_(arrivals), at_once_(at_once), speculation_(speculation), progress_(log) {
    traffic_.streams.resize(arrivals.size());
  }

  Traffic run() {
    const size_t timed = arrivals_.empty() || arrivals_.back().at ? arrivals_.size() : arrivals_.size() - 1;
    std::vector<uint32_t> order(timed);  // the long one may come between the others
    for (uint32_t i = 0; i < timed; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return arrivals_[a].at < arrivals_[b].at; });
    bool untimed = timed < arrivals_.size();
    for (size_t next = 0;;) {
      for (; next < order.size() && has_room() && *arrivals_[order[next]].at <= now(); ++next)
        submit(order[next], at_once_ ? now() : *arrivals_[order[next]].at);
      const bool all_run = under_way_ > 0 && without_token_ == 0 && (next == order.size() || !has_room());
      if (untimed && (all_run || (next == order.size() && under_way_ == 0))) {
        untimed = false;
        submit(uint32_t(arrivals_.size() - 1), now());
      }
      if (engine_.step()) {
        traffic_.most_blocks = std::max(traffic_.most_blocks, engine_.metrics().blocks_in_use);
        progress_.count("finished", finished_, arrivals_.size(), "requests");
        continue;
      }
      if (under_way_ > 0) continue;
      if (next == order.size()) break;
      std::this_thread::sleep_for(std::chrono::duration<double>(std::max(0., *arrivals_[order[next]].at - now())));
    }
    for (const uint64_t hash : hashes_) traffic_.answers = mixed(traffic_.answers, hash);
    traffic_.metrics = engine_.metrics();
    return std::move(traffic_);
  }

 private:
  double now() const { return seconds_since(start_); }
  bool has_room() const { return at_once_ == 0 || under_way_ < at_once_; }
  static uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
  }

  void submit(uint32_t index, double due) {
    const Arrival& arrival = arrivals_[index];
    Stream& stream = traffic_.streams[index];
    stream.due = due;
    stream.prompt = uint32_t(arrival.prompt.size());
    engine::Request request{.prompt = arrival.prompt, .max_tokens = arrival.answer, .speculation = speculation_};
    request.sampling.temperature = 0;
    try {
      engine_.submit(std::move(request), [this, index](const engine::Event& event) { note(index, event); });
    } catch (const Error& error) {
      ++traffic_.refused;
      say(error.what());
      return;
    }
    ++under_way_;
    ++without_token_;
  }

  void note(uint32_t index, const engine::Event& event) {
    Stream& stream = traffic_.streams[index];
    const double time = now();
    if (event.finish_reason == engine::FinishReason::none) {
      if (stream.generated == 0) {
        stream.first = time;
        --without_token_;
      } else {
        traffic_.gaps.push_back(time - stream.last);
      }
      ++stream.generated;
      stream.last = time;
      hashes_[index] = mixed(hashes_[index], event.pick.id + 1);
      traffic_.seconds = time;
      return;
    }
    if (stream.generated == 0) --without_token_;
    --under_way_;
    ++finished_;
    stream.finish_reason = event.finish_reason;
    stream.cached_tokens = event.cached_tokens;
    if (event.finish_reason != engine::FinishReason::failed) return;
    ++traffic_.failed;
    say(event.reason);
  }
  void say(const std::string& reason) {
    if (traffic_.reason.empty()) traffic_.reason = reason;
  }

  engine::Engine& engine_;
  const std::vector<Arrival>& arrivals_;
  uint32_t at_once_;
  engine::Speculation speculation_;
  Clock::time_point start_ = Clock::now();
  uint32_t under_way_ = 0, without_token_ = 0, finished_ = 0;  // streams
  ProgressLine progress_;
  std::vector<uint64_t> hashes_ = std::vector<uint64_t>(arrivals_.size());
  Traffic traffic_;
};

}  // namespace

Traffic run_traffic(engine::Engine& engine, const std::vector<Arrival>& arrivals, uint32_t at_once,
                    engine::Speculation speculation, const std::ostream* log) {
  return Run(engine, arrivals, at_once, speculation, log).run();
}

}  // namespace heddle
