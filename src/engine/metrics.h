// What a server exports: counters, gauges and histograms. Only the engine's thread writes them; others read copies.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>

#include "base/error.h"
#include "engine/kv_store.h"
#include "engine/request.h"

namespace heddle::engine {

// How often values fell between fixed bounds. Plain data of 300 bytes.
class Histogram {
 public:
  static constexpr size_t max_bounds = 32;

  explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {  // ascending; must outlive it
    check(bounds.size() <= max_bounds && std::is_sorted(bounds.begin(), bounds.end()), "few and ascending bounds");
  }

  void add(double value);

  uint64_t count() const { return count_; }
  double sum() const { return sum_; }
  double largest() const { return largest_; }  // 0 if nothing was added
  double mean() const { return count_ ? sum_ / double(count_) : 0; }
  // Bucket i counts what is above bound i - 1 and at most bound i; one more counts what is above the last bound.
  std::span<const double> bounds() const { return bounds_; }
  std::span<const uint64_t> counts() const { return std::span(counts_).first(bounds_.size() + 1); }
  // The quantile q (0 to 1), as if values were spread evenly within their bucket; never above largest().
  double quantile(double q) const;

 private:
  std::span<const double> bounds_;
  std::array<uint64_t, max_bounds + 1> counts_{};
  uint64_t count_ = 0;
  double sum_ = 0, largest_ = 0;
};

inline void Histogram::add(double value) {
  check(std::isfinite(value), "the value is finite");
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  ++counts_[size_t(bound - bounds_.begin())];
  largest_ = count_ ? std::max(largest_, value) : value;
  sum_ += value;
  ++count_;
}

inline double Histogram::quantile(double q) const {
  const double wanted = std::clamp(q, 0., 1.) * double(count_);
  double below = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    const double here = double(counts_[i]);
    if (here == 0 || below + here < wanted) {
      below += here;
      continue;
    }
    const double from = i ? bounds_[i - 1] : std::min(0., largest_);
    const double to = i < bounds_.size() ? std::min(bounds_[i], largest_) : largest_;
    return from + (to - from) * (wanted - below) / here;
  }
  return largest_;
}

// 0.1 ms to 300 s, about 3 to a power of ten; and powers of two.
inline constexpr std::array bounds_of_seconds{1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.015, 0.02, 0.025,
                                              0.03, 0.04, 0.05, 0.06, 0.08, 0.1,  0.15, 0.2,   0.3,  0.5,
                                              0.7,  1.0,  2.0,  5.0,  10.0, 20.0, 60.0, 120.0, 300.0};
inline constexpr std::array bounds_of_counts{1.,   2.,    4.,    8.,    16.,   32.,    64.,    128.,  256.,
                                             512., 1024., 2048., 4096., 8192., 16384., 32768., 65536.};

constexpr size_t finish_reasons = size_t(FinishReason::failed) + 1;
inline std::string_view name_of(FinishReason finish_reason) {
  switch (finish_reason) {
    case FinishReason::none:
      return "none";
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::context:
      return "context";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::failed:
      return "failed";
  }
  throw std::logic_error("a finish reason without a name");
}

struct Metrics {
  // Requests. Each completion of a submitted request ends once.
  uint64_t submitted = 0;
  uint64_t refused = 0;                             // submit() threw: not counted as submitted
  std::array<uint64_t, finish_reasons> finished{};  // completions, by FinishReason
  // Tokens.
  uint64_t prompt_computed = 0, prompt_cached = 0;
  uint64_t generated = 0;
  uint64_t proposed = 0, accepted = 0;              // by speculation
  uint64_t draft_proposed = 0, draft_accepted = 0;  // of these, by a draft model
  // Work.
  uint64_t steps = 0, preemptions = 0, faults = 0;
  uint64_t draft_faults = 0;  // calls of the draft that failed: the requests went on without it
  uint64_t snapshots_taken = 0, snapshots_found = 0, snapshots_dropped = 0;  // of recurrent states
  // Now.
  uint64_t ranks = 1;                                             // processes that compute the model
  uint64_t waiting = 0, running = 0;                              // completions
  uint64_t blocks_in_use = 0, blocks_cached = 0, blocks_all = 0;  // of the KV cache; cached: kept for reuse
  uint64_t block_tokens = 0;                                      // of each
  // The same of blocks of windows; 0: there are none.
  uint64_t windows_in_use = 0, windows_cached = 0, windows_all = 0;
  KvStoreMetrics store;                                     // all 0: there is no store
  uint64_t restored = 0;                                    // blocks and states that sequences got from it
  uint64_t slots_in_use = 0, snapshots = 0, slots_all = 0;  // for recurrent states; 0: the model has none
  // Distributions.
  Histogram queue_seconds{bounds_of_seconds};           // from submit() to the first row computed
  Histogram first_token_seconds{bounds_of_seconds};     // from submit() to the first token emitted
  Histogram between_tokens_seconds{bounds_of_seconds};  // of one completion
  Histogram request_seconds{bounds_of_seconds};         // from submit() to the end of a completion
  // Of completions with a token: from the first row computed to the first token, and from there to the end.
  Histogram prefill_seconds{bounds_of_seconds}, decode_seconds{bounds_of_seconds};
  Histogram step_seconds{bounds_of_seconds};
  Histogram prompt_tokens{bounds_of_counts};      // of requests
  Histogram completion_tokens{bounds_of_counts};  // of completions that ended
  Histogram step_rows{bounds_of_counts}, step_sequences{bounds_of_counts};

  uint64_t& ended(FinishReason finish_reason) { return finished[size_t(finish_reason)]; }
};

// The name of a metric as it is exported to Prometheus.
struct MetricName {
  std::string_view name, help;
  std::string_view label, value;  // both empty, or one of several metrics of the same name: {label="value"}
};

// Calls visitor.counter(MetricName, uint64_t), .gauge(MetricName, uint64_t) or .histogram(MetricName, Histogram) for
// each metric. Those of one name are contiguous.
template <class Visitor>
void for_each(const Metrics& metrics, Visitor&& visitor) {
  visitor.counter({"heddle_requests_submitted_total", "Requests accepted by the engine", {}, {}}, metrics.submitted);
  visitor.counter({"heddle_requests_refused_total", "Requests refused as invalid or because of a full queue", {}, {}},
                  metrics.refused);
  for (size_t i = size_t(FinishReason::none) + 1; i < finish_reasons; ++i)
    visitor.counter({"heddle_requests_finished_total", "Completions that ended, by finish reason", "finish_reason",
                     name_of(FinishReason(i))},
                    metrics.finished[i]);
  constexpr std::string_view prompts = "heddle_prompt_tokens_total",
                             prompts_help = "Prompt tokens computed, and found in the prefix cache";
  visitor.counter({prompts, prompts_help, "source", "computed"}, metrics.prompt_computed);
  visitor.counter({prompts, prompts_help, "source", "cached"}, metrics.prompt_cached);
  visitor.counter({"heddle_generated_tokens_total", "Tokens generated", {}, {}}, metrics.generated);
  constexpr std::string_view speculation = "heddle_speculation_tokens_total",
                             speculation_help = "Tokens proposed by speculative decoding, and those of them accepted";
  visitor.counter({speculation, speculation_help, "result", "proposed"}, metrics.proposed);
  visitor.counter({speculation, speculation_help, "result", "accepted"}, metrics.accepted);
  constexpr std::string_view draft = "heddle_draft_tokens_total",
                             draft_help = "Of the tokens of speculative decoding, those of the draft model";
  visitor.counter({draft, draft_help, "result", "proposed"}, metrics.draft_proposed);
  visitor.counter({draft, draft_help, "result", "accepted"}, metrics.draft_accepted);
  visitor.counter({"heddle_steps_total", "Batches computed", {}, {}}, metrics.steps);
  visitor.counter({"heddle_preemptions_total", "Sequences preempted because the KV cache was full", {}, {}},
                  metrics.preemptions);
  visitor.counter({"heddle_faults_total", "Batches that failed", {}, {}}, metrics.faults);
  visitor.counter({"heddle_draft_faults_total", "Batches of the draft model that failed", {}, {}},
                  metrics.draft_faults);
  constexpr std::string_view snapshots = "heddle_state_snapshots_total",
                             snapshots_help = "Snapshots of recurrent states: taken, found by a prompt, dropped";
  visitor.counter({snapshots, snapshots_help, "event", "taken"}, metrics.snapshots_taken);
  visitor.counter({snapshots, snapshots_help, "event", "found"}, metrics.snapshots_found);
  visitor.counter({snapshots, snapshots_help, "event", "dropped"}, metrics.snapshots_dropped);
  visitor.gauge({"heddle_ranks", "Processes that compute the model", {}, {}}, metrics.ranks);
  visitor.gauge({"heddle_requests_waiting", "Completions that wait in the queue", {}, {}}, metrics.waiting);
  visitor.gauge({"heddle_requests_running", "Completions in progress", {}, {}}, metrics.running);
  constexpr std::string_view blocks = "heddle_kv_blocks",
                             blocks_help = "Blocks of the KV cache: in use, kept for the prefix cache, total";
  visitor.gauge({blocks, blocks_help, "state", "in_use"}, metrics.blocks_in_use);
  visitor.gauge({blocks, blocks_help, "state", "cached"}, metrics.blocks_cached);
  visitor.gauge({blocks, blocks_help, "state", "all"}, metrics.blocks_all);
  constexpr std::string_view windows = "heddle_kv_window_blocks",
                             windows_help =
                                 "Blocks of the KV cache of layers with a window: in use, kept for the prefix cache, "
                                 "total";
  visitor.gauge({windows, windows_help, "state", "in_use"}, metrics.windows_in_use);
  visitor.gauge({windows, windows_help, "state", "cached"}, metrics.windows_cached);
  visitor.gauge({windows, windows_help, "state", "all"}, metrics.windows_all);
  constexpr std::string_view slots = "heddle_state_slots",
                             slots_help = "Slots for recurrent states: in use, with a snapshot, total";
  visitor.gauge({slots, slots_help, "state", "in_use"}, metrics.slots_in_use);
  visitor.gauge({slots, slots_help, "state", "snapshot"}, metrics.snapshots);
  visitor.gauge({slots, slots_help, "state", "all"}, metrics.slots_all);
  constexpr std::string_view parts = "heddle_kv_store_parts",
                             parts_help = "Blocks and states of texts beyond the KV cache, by tier";
  visitor.gauge({parts, parts_help, "tier", "host"}, metrics.store.memory_parts);
  visitor.gauge({parts, parts_help, "tier", "disk"}, metrics.store.disk_parts);
  constexpr std::string_view bytes = "heddle_kv_store_bytes", bytes_help = "Bytes of these, by tier";
  visitor.gauge({bytes, bytes_help, "tier", "host"}, metrics.store.memory_bytes);
  visitor.gauge({bytes, bytes_help, "tier", "disk"}, metrics.store.disk_bytes);
  visitor.counter({"heddle_kv_store_restored_total", "Blocks and states that prompts got back", {}, {}},
                  metrics.restored);
  constexpr std::string_view fetched = "heddle_kv_store_fetched_total",
                             fetched_help = "Blocks and states brought to the host, by where they came from";
  visitor.counter({fetched, fetched_help, "source", "disk"}, metrics.store.loaded);
  visitor.counter({fetched, fetched_help, "source", "remote"}, metrics.store.received);
  visitor.counter(
      {"heddle_kv_store_failures_total", "Blocks and states that could not be read, or were damaged", {}, {}},
      metrics.store.failures);
  visitor.counter({"heddle_kv_store_dropped_total", "Blocks and states that were not kept for lack of room", {}, {}},
                  metrics.store.dropped);
  visitor.histogram({"heddle_queue_seconds", "Time from submission to the first computed token", {}, {}},
                    metrics.queue_seconds);
  visitor.histogram({"heddle_time_to_first_token_seconds", "Time from submission to the first token", {}, {}},
                    metrics.first_token_seconds);
  visitor.histogram({"heddle_inter_token_seconds", "Time between two tokens of a completion", {}, {}},
                    metrics.between_tokens_seconds);
  visitor.histogram({"heddle_request_seconds", "Time from submission to the end of a completion", {}, {}},
                    metrics.request_seconds);
  visitor.histogram({"heddle_prefill_seconds", "Time from the first computed token to the first token", {}, {}},
                    metrics.prefill_seconds);
  visitor.histogram({"heddle_decode_seconds", "Time from the first token to the end of a completion", {}, {}},
                    metrics.decode_seconds);
  visitor.histogram({"heddle_prompt_tokens", "Tokens of a prompt", {}, {}}, metrics.prompt_tokens);
  visitor.histogram({"heddle_completion_tokens", "Tokens of a completion", {}, {}}, metrics.completion_tokens);
  visitor.histogram({"heddle_step_seconds", "Time of a batch", {}, {}}, metrics.step_seconds);
  visitor.histogram({"heddle_step_rows", "Tokens computed in a batch", {}, {}}, metrics.step_rows);
  visitor.histogram({"heddle_step_sequences", "Sequences in a batch", {}, {}}, metrics.step_sequences);
}

}  // namespace heddle::engine
