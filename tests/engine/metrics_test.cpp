// Histograms by value, and every metric under its name.
#include "engine/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>

namespace heddle::engine {
namespace {

constexpr std::array bounds{1., 2., 4.};

TEST(Histogram, CountsBetweenBounds) {
  Histogram histogram(bounds);
  EXPECT_EQ(histogram.quantile(0.5), 0);
  EXPECT_EQ(histogram.mean(), 0);
  for (const double value : {0., 1., 1.5, 2., 2.0001, 4., 5., 100.}) histogram.add(value);
  EXPECT_EQ(std::vector<uint64_t>(histogram.counts().begin(), histogram.counts().end()),
            std::vector<uint64_t>({2, 2, 2, 2}));
  EXPECT_EQ(histogram.count(), 8u);
  EXPECT_DOUBLE_EQ(histogram.sum(), 115.5001);
  EXPECT_EQ(histogram.largest(), 100);
}

TEST(Histogram, FindsQuantilesBetweenBounds) {
  Histogram histogram(bounds);
  for (int i = 0; i < 10; ++i) histogram.add(2.5);  // all between 2 and 4, none above 2.5
  EXPECT_EQ(histogram.quantile(0), 2);
  EXPECT_EQ(histogram.quantile(0.5), 2.25);
  EXPECT_EQ(histogram.quantile(1), 2.5);
  for (int i = 0; i < 10; ++i) histogram.add(0.5);
  EXPECT_EQ(histogram.quantile(0.25), 0.5);
  EXPECT_EQ(histogram.quantile(0.5), 1);
  EXPECT_EQ(histogram.quantile(0.75), 2.25);
  histogram.add(50);
  EXPECT_EQ(histogram.quantile(1), 50);
  EXPECT_EQ(histogram.quantile(7), 50);
}

TEST(Histogram, IsNearTheTruthOverItsRange) {
  for (const std::span<const double> all :
       {std::span<const double>(bounds_of_seconds), std::span<const double>(bounds_of_counts)}) {
    Histogram histogram(all);
    for (int i = 1; i <= 1000; ++i) histogram.add(i * all.back() / 1000);
    EXPECT_NEAR(histogram.quantile(0.5), all.back() / 2, all.back() / 50);
    EXPECT_EQ(histogram.quantile(1), all.back());
  }
}

struct Collected {
  std::map<std::string, double> values;
  std::map<std::string, std::string> helps;
  std::set<std::string> closed;
  std::string last;

  void note(const MetricName& name) {
    const std::string text(name.name);
    EXPECT_EQ(text.substr(0, 7), "heddle_");
    EXPECT_FALSE(name.help.empty()) << text;
    EXPECT_EQ(name.label.empty(), name.value.empty()) << text;
    if (text != last) {
      EXPECT_TRUE(closed.insert(text).second) << text << " comes back";
    }
    last = text;
    const auto [help, added] = helps.emplace(text, name.help);
    EXPECT_EQ(help->second, name.help) << text;
  }
  void put(const MetricName& name, double value) {
    note(name);
    const std::string key = std::string(name.name) + (name.label.empty() ? "" : ":" + std::string(name.value));
    EXPECT_TRUE(values.emplace(key, value).second) << key << " twice";
  }
  void counter(const MetricName& name, uint64_t value) { put(name, double(value)); }
  void gauge(const MetricName& name, uint64_t value) { put(name, double(value)); }
  void histogram(const MetricName& name, const Histogram& value) { put(name, value.sum()); }
};

TEST(Metrics, HaveOneNameEach) {
  Metrics metrics;
  double next = 1;
  for (uint64_t* value : {&metrics.submitted,
                          &metrics.refused,
                          &metrics.ended(FinishReason::stop),
                          &metrics.ended(FinishReason::length),
                          &metrics.ended(FinishReason::context),
                          &metrics.ended(FinishReason::cancelled),
                          &metrics.ended(FinishReason::failed),
                          &metrics.prompt_computed,
                          &metrics.prompt_cached,
                          &metrics.generated,
                          &metrics.proposed,
                          &metrics.accepted,
                          &metrics.steps,
                          &metrics.preemptions,
                          &metrics.faults,
                          &metrics.waiting,
                          &metrics.running,
                          &metrics.blocks_in_use,
                          &metrics.blocks_cached,
                          &metrics.blocks_all})
    *value = uint64_t(next++);
  metrics.draft_proposed = 29;
  metrics.draft_accepted = 30;
  metrics.draft_faults = 31;
  metrics.snapshots_taken = 33;
  metrics.snapshots_found = 34;
  metrics.snapshots_dropped = 35;
  metrics.windows_in_use = 39;
  metrics.windows_cached = 40;
  metrics.windows_all = 41;
  metrics.slots_in_use = 36;
  metrics.snapshots = 37;
  metrics.slots_all = 38;
  metrics.store = {.memory_parts = 42,
                   .memory_bytes = 43,
                   .memory_capacity = 1000,
                   .disk_parts = 44,
                   .disk_bytes = 45,
                   .disk_capacity = 1001,
                   .loaded = 46,
                   .received = 47,
                   .failures = 48,
                   .dropped = 49};
  metrics.restored = 50;
  for (Histogram* value :
       {&metrics.queue_seconds, &metrics.first_token_seconds, &metrics.between_tokens_seconds, &metrics.prompt_tokens,
        &metrics.completion_tokens, &metrics.step_seconds, &metrics.step_rows, &metrics.step_sequences})
    value->add(next++);
  metrics.request_seconds.add(32);
  metrics.ranks = 53;
  metrics.prefill_seconds.add(51);
  metrics.decode_seconds.add(52);
  const Metrics copy = metrics;
  metrics.submitted = 999;

  Collected found;
  for_each(copy, found);
  const std::map<std::string, double> expected{{"heddle_requests_submitted_total", 1},
                                               {"heddle_requests_refused_total", 2},
                                               {"heddle_requests_finished_total:stop", 3},
                                               {"heddle_requests_finished_total:length", 4},
                                               {"heddle_requests_finished_total:context", 5},
                                               {"heddle_requests_finished_total:cancelled", 6},
                                               {"heddle_requests_finished_total:failed", 7},
                                               {"heddle_prompt_tokens_total:computed", 8},
                                               {"heddle_prompt_tokens_total:cached", 9},
                                               {"heddle_generated_tokens_total", 10},
                                               {"heddle_speculation_tokens_total:proposed", 11},
                                               {"heddle_speculation_tokens_total:accepted", 12},
                                               {"heddle_draft_tokens_total:proposed", 29},
                                               {"heddle_draft_tokens_total:accepted", 30},
                                               {"heddle_request_seconds", 32},
                                               {"heddle_prefill_seconds", 51},
                                               {"heddle_decode_seconds", 52},
                                               {"heddle_draft_faults_total", 31},
                                               {"heddle_steps_total", 13},
                                               {"heddle_preemptions_total", 14},
                                               {"heddle_faults_total", 15},
                                               {"heddle_ranks", 53},
                                               {"heddle_requests_waiting", 16},
                                               {"heddle_requests_running", 17},
                                               {"heddle_kv_blocks:in_use", 18},
                                               {"heddle_kv_blocks:cached", 19},
                                               {"heddle_kv_blocks:all", 20},
                                               {"heddle_state_snapshots_total:taken", 33},
                                               {"heddle_state_snapshots_total:found", 34},
                                               {"heddle_state_snapshots_total:dropped", 35},
                                               {"heddle_kv_window_blocks:in_use", 39},
                                               {"heddle_kv_window_blocks:cached", 40},
                                               {"heddle_kv_window_blocks:all", 41},
                                               {"heddle_state_slots:in_use", 36},
                                               {"heddle_state_slots:snapshot", 37},
                                               {"heddle_state_slots:all", 38},
                                               {"heddle_kv_store_parts:host", 42},
                                               {"heddle_kv_store_bytes:host", 43},
                                               {"heddle_kv_store_parts:disk", 44},
                                               {"heddle_kv_store_bytes:disk", 45},
                                               {"heddle_kv_store_fetched_total:disk", 46},
                                               {"heddle_kv_store_fetched_total:remote", 47},
                                               {"heddle_kv_store_failures_total", 48},
                                               {"heddle_kv_store_dropped_total", 49},
                                               {"heddle_kv_store_restored_total", 50},
                                               {"heddle_queue_seconds", 21},
                                               {"heddle_time_to_first_token_seconds", 22},
                                               {"heddle_inter_token_seconds", 23},
                                               {"heddle_prompt_tokens", 24},
                                               {"heddle_completion_tokens", 25},
                                               {"heddle_step_seconds", 26},
                                               {"heddle_step_rows", 27},
                                               {"heddle_step_sequences", 28}};
  EXPECT_EQ(found.values, expected);
}

TEST(Histogram, RefusesInvalidBounds) {
  static constexpr std::array descending{2., 1.};
  static constexpr std::array<double, 33> many{};
  EXPECT_THROW(Histogram{descending}, std::logic_error);
  EXPECT_THROW(Histogram{many}, std::logic_error);
  Histogram histogram(bounds);
  EXPECT_THROW(histogram.add(std::nan("")), std::logic_error);
  EXPECT_EQ(histogram.count(), 0u);
}

}  // namespace
}  // namespace heddle::engine
