// Ranks as threads of one process: a Collective through their memory, and a backend for a whole model that computes it
// on several ranks.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "model/backend.h"
#include "model/collective.h"
#include "model/shard.h"

namespace heddle::test {

// What the ranks of a group meet in. When one fails, all others throw an Error instead of waiting for it.
class Meeting {
 public:
  explicit Meeting(uint32_t ranks) : spans_(ranks), sent_(ranks) {}

  uint32_t ranks() const { return uint32_t(spans_.size()); }
  // Each rank says what it has; `work` is done by each when all have, and no rank goes on before all are done.
  void meet(uint32_t rank, std::span<const float> values, const std::function<void()>& work) {
    {
      const std::lock_guard lock(mutex_);
      spans_[rank] = values;
    }
    wait_for_all();
    work();
    wait_for_all();
  }
  std::span<const float> of(uint32_t rank) const { return spans_[rank]; }
  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }
  uint64_t sums = 0, gathers = 0;  // rank 0 counts

  void put(uint32_t from, uint32_t to, std::span<const float> values) {
    const std::lock_guard lock(mutex_);
    sent_[to].emplace_back(from, std::vector<float>(values.begin(), values.end()));
    changed_.notify_all();
  }
  std::vector<float> take(uint32_t from, uint32_t to) {
    std::unique_lock lock(mutex_);
    const auto first = [&] {
      return std::find_if(sent_[to].begin(), sent_[to].end(), [&](const auto& one) { return one.first == from; });
    };
    changed_.wait(lock, [&] { return failed_ || first() != sent_[to].end(); });
    if (failed_) throw Error("another rank has failed");
    std::vector<float> values = std::move(first()->second);
    sent_[to].erase(first());
    return values;
  }

 private:
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    if (++here_ == spans_.size()) {
      here_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return failed_ || round_ != round; });
    if (failed_) throw Error("another rank has failed");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t here_ = 0;
  uint64_t round_ = 0;
  bool failed_ = false;
  std::vector<std::span<const float>> spans_;
  std::vector<std::vector<std::pair<uint32_t, std::vector<float>>>> sent_;
};

class CollectiveInMemory : public model::Collective {
 public:
  CollectiveInMemory(Meeting& meeting, uint32_t rank) : meeting_(meeting), rank_(rank) {}
  uint32_t rank() const override { return rank_; }
  uint32_t ranks() const override { return meeting_.ranks(); }
  void sum(std::span<float> values) override {
    if (rank_ == 0) ++meeting_.sums;
    std::vector<float> all(values.size(), 0.0f);
    meeting_.meet(rank_, values, [&] {
      for (uint32_t rank = 0; rank < ranks(); ++rank) {
        check(meeting_.of(rank).size() == values.size(), "as many values of every rank");
        for (size_t i = 0; i < all.size(); ++i) all[i] += meeting_.of(rank)[i];
      }
    });
    std::copy(all.begin(), all.end(), values.begin());
  }
  void gather(std::span<const float> part, std::span<const uint64_t> sizes, std::span<float> all) override {
    if (rank_ == 0) ++meeting_.gathers;
    meeting_.meet(rank_, part, [&] {
      float* to = all.data();
      for (uint32_t rank = 0; rank < ranks(); ++rank) {
        check(meeting_.of(rank).size() == sizes[rank], "a part of the size that was said");
        to = std::copy(meeting_.of(rank).begin(), meeting_.of(rank).end(), to);
      }
      check(to == all.data() + all.size(), "room for all parts");
    });
  }
  void send(uint32_t to, std::span<const float> values) override { meeting_.put(rank_, to, values); }
  void receive(uint32_t from, std::span<float> values) override {
    const std::vector<float> found = meeting_.take(from, rank_);
    check(found.size() == values.size(), "as many values as were sent");
    std::copy(found.begin(), found.end(), values.begin());
  }

 private:
  Meeting& meeting_;
  const uint32_t rank_;
};

// A thread per rank, for one piece of work after another: to start a thread takes the sanitizers longer than most
// pieces.
class RankThreads {
 public:
  explicit RankThreads(uint32_t ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
  }
  ~RankThreads() {
    publish(nullptr);
    for (std::thread& thread : threads_) thread.join();
  }
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // work(rank) on all at the same time; it throws nothing.
  void run(const std::function<void(uint32_t rank)>& work) {
    publish(&work);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return busy_ == 0; });
  }

 private:
  void publish(const std::function<void(uint32_t)>* work) {
    const std::lock_guard lock(mutex_);
    work_ = work;
    busy_ = threads_.size();
    ++round_;
    changed_.notify_all();
  }
  void serve(uint32_t rank) {
    std::unique_lock lock(mutex_);
    for (uint64_t seen = 0;;) {
      changed_.wait(lock, [&] { return round_ != seen; });
      seen = round_;
      if (!work_) return;
      const std::function<void(uint32_t)>& work = *work_;
      lock.unlock();
      work(rank);
      lock.lock();
      if (--busy_ == 0) changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(uint32_t)>* work_ = nullptr;  // null: the end
  size_t busy_ = 0;                                      // ranks that have not done it yet
  uint64_t round_ = 0;
  std::vector<std::thread> threads_;
};

using MakeRank = std::function<std::unique_ptr<model::Backend>(const model::Model& part, const model::Limits& limits,
                                                               model::Collective& ranks)>;

// Every verb on all ranks at the same time; all must come to the same bits. The result is that of rank 0.
class RanksBackend : public model::Backend {
 public:
  RanksBackend(const model::Model& model, const model::Limits& limits, uint32_t ranks,
               const model::ShardOptions& options, const MakeRank& make)
      : meeting_(ranks), threads_(ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      collectives_.push_back(std::make_unique<CollectiveInMemory>(meeting_, rank));
      shards_.push_back(std::make_unique<model::Model>(model::shard_of(model, rank, ranks, options)));
    }
    // at the same time: they may meet while they are made
    backends_.resize(ranks);
    on_all([&](uint32_t rank) { backends_[rank] = make(*shards_[rank], limits, *collectives_[rank]); });
  }

  const model::Model& shard(uint32_t rank) const { return *shards_[rank]; }
  const Meeting& meeting() const { return meeting_; }
  model::Backend& backend(uint32_t rank) { return *backends_[rank]; }

  std::string describe() const override { return fmt::format("{} ranks", backends_.size()); }
  void begin(const model::Batch& batch) override {
    on_all([&](model::Backend& backend) { backend.begin(batch); });
  }
  void embed() override {
    on_all([](model::Backend& backend) { backend.embed(); });
  }
  void compute(uint32_t layer, uint32_t sublayer) override {
    on_all([&](model::Backend& backend) { backend.compute(layer, sublayer); });
  }
  void add(uint32_t layer, uint32_t sublayer) override {
    on_all([&](model::Backend& backend) { backend.add(layer, sublayer); });
  }
  void keep_states() override {
    on_all([](model::Backend& backend) { backend.keep_states(); });
  }
  void head() override {
    on_all([](model::Backend& backend) { backend.head(); });
  }
  model::Result result() override {
    const model::Result first = backends_[0]->result();
    for (size_t i = 1; i < backends_.size(); ++i) {
      const model::Result other = backends_[i]->result();
      check(std::equal(first.logits.begin(), first.logits.end(), other.logits.begin(), other.logits.end()) &&
                std::equal(first.states.begin(), first.states.end(), other.states.begin(), other.states.end()),
            "the same result on every rank");
      check(first.picked.size() == other.picked.size(), "as many tokens of every rank");
      for (size_t j = 0; j < first.picked.size(); ++j)
        check(first.picked[j].has_value() == other.picked[j].has_value() &&
                  (!first.picked[j] || first.picked[j]->id == other.picked[j]->id),
              "the same token of every rank");
    }
    return first;
  }
  void allow(std::span<const std::span<const uint32_t>> masks) override {
    on_all([&](model::Backend& backend) { backend.allow(masks); });
  }
  bool can_pick(const model::Picking& picking) const override { return backends_[0]->can_pick(picking); }
  uint32_t max_in_flight() const override { return backends_[0]->max_in_flight(); }
  uint32_t max_followed_rows() const override { return backends_[0]->max_followed_rows(); }
  uint32_t max_followed_changes() const override { return backends_[0]->max_followed_changes(); }
  std::span<const float> residual() override { return backends_[0]->residual(); }
  void set_residual(std::span<const float> rows) override {
    for (auto& backend : backends_) backend->set_residual(rows);
  }
  void copy_block(uint32_t from, uint32_t to) override {
    for (auto& backend : backends_) backend->copy_block(from, to);
  }
  void copy_window_block(uint32_t from, uint32_t to) override {
    for (auto& backend : backends_) backend->copy_window_block(from, to);
  }
  void copy_state(uint32_t from, uint32_t to) override {
    for (auto& backend : backends_) backend->copy_state(from, to);
  }
  bool usable() const override {
    return std::all_of(backends_.begin(), backends_.end(), [](const auto& backend) { return backend->usable(); });
  }

 private:
  void on_all(const std::function<void(model::Backend&)>& work) {
    on_all([&](uint32_t rank) { work(*backends_[rank]); });
  }
  // The first exception of a rank ends all, and is thrown here.
  void on_all(const std::function<void(uint32_t rank)>& work) {
    std::exception_ptr failure;
    std::mutex mutex;
    threads_.run([&](uint32_t rank) {
      try {
        work(rank);
      } catch (...) {
        {
          const std::lock_guard lock(mutex);
          if (!failure) failure = std::current_exception();
        }
        meeting_.fail();
      }
    });
    if (failure) std::rethrow_exception(failure);
  }

  Meeting meeting_;
  std::vector<std::unique_ptr<CollectiveInMemory>> collectives_;
  std::vector<std::unique_ptr<model::Model>> shards_;
  std::vector<std::unique_ptr<model::Backend>> backends_;
  RankThreads threads_;
};

}  // namespace heddle::test
