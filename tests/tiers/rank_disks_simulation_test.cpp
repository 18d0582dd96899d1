// Simulations with a store beyond the KV caches of several ranks, which are threads of the test. Each rank computes the
// whole fake model: a block that one of them has wrongly changes its logits, which must be those of rank 0.
#include <gtest/gtest.h>

#include "ranks/leader.h"
#include "tests/engine/simulation.h"
#include "tests/ranks/groups.h"
#include "tests/support/folder.h"
#include "tests/tiers/damage.h"
#include "tiers/rank_disks.h"
#include "tiers/tiered_store.h"

namespace heddle::test::fake {
namespace {

using model::KvPart;
using tiers::PartFolder;
using tiers::TieredStore;

// What a rank computes, with some bytes more in each part than the others have.
class RankFake : public FakeBackend {
 public:
  RankFake(const model::Model& model, const model::Limits& limits, uint64_t seed, uint64_t more)
      : FakeBackend(model, limits, seed), more_(more) {}

  void begin(const model::Batch& batch) override {
    FakeBackend::begin(batch);
    uint64_t sum = 1;
    for (const float logit : FakeBackend::result().logits) sum = mixed(sum, std::bit_cast<uint32_t>(logit));
    sums.push_back(sum);
  }
  uint64_t kv_part_bytes(KvPart part) const override {
    const uint64_t bytes = FakeBackend::kv_part_bytes(part);
    return bytes ? bytes + more_ : 0;
  }
  void read_kv(std::span<const model::KvRead> reads) override {
    std::vector<model::KvRead> shorter_reads;
    for (const auto& [from, to] : reads) {
      shorter_reads.push_back({from, to.first(to.size() - more_)});
      std::ranges::fill(to.last(more_), uint8_t(more_));
    }
    const uint64_t more = std::exchange(more_, 0);
    FakeBackend::read_kv(shorter_reads);
    more_ = more;
  }
  void write_kv(model::KvPlace place, std::span<const uint8_t> bytes) override {
    EXPECT_TRUE(std::ranges::all_of(bytes.last(more_), [&](uint8_t byte) { return byte == more_; }));
    const uint64_t more = std::exchange(more_, 0);
    FakeBackend::write_kv(place, bytes.first(bytes.size() - more));
    more_ = more;
  }

  std::vector<uint64_t> sums;  // of the logits of each batch

 private:
  uint64_t more_;
};

// Ranks with a store. The model and the limits are those of a simulation.
class StoredRanks {
 public:
  StoredRanks(const Traffic& traffic, const std::filesystem::path& folder, uint32_t ranks, uint64_t memory,
              uint64_t disk)
      : model_(with_window(fake_model(traffic.context, 16, traffic.repetition), traffic.window)),
        limits_(traffic.limits),
        groups_(ranks::groups_of(ranks)) {
    const auto own = [&](uint32_t rank) {
      return disk ? std::make_unique<PartFolder>(tiers::rank_folder(folder, rank, ranks), disk) : nullptr;
    };
    for (uint32_t rank = 1; rank < ranks; ++rank) {
      RankFake& backend = *backends_.emplace_back(std::make_unique<RankFake>(model_, limits_, 1, 5 * rank));
      threads_.emplace_back([this, rank, memory, &backend, mine = own(rank)]() mutable {
        ranks::PartBuffers buffers(memory);
        const tiers::RankDisk answering(std::move(mine), *groups_[rank], buffers, backend);
        try {
          ranks::follow(model_, backend, limits_, *groups_[rank], &buffers);
        } catch (const Error& error) {
          ADD_FAILURE() << error.what();
        }
        EXPECT_LE(buffers.bytes(), memory);
      });
    }
    std::unique_ptr<tiers::PartDisk> all;
    if (disk) all = std::make_unique<tiers::GroupDisk>(own(0), *groups_[0], numbers);
    store.emplace(memory, std::move(all), nullptr, [this](const uint8_t* data) { numbers.drop(data); });
  }
  // All must have computed the same.
  void end(const std::vector<uint64_t>& sums) {
    store.reset();
    groups_[0].reset();
    for (std::thread& thread : threads_) thread.join();
    for (const auto& backend : backends_) EXPECT_EQ(backend->sums, sums);
  }

  ranks::Group& group() { return *groups_[0]; }
  ranks::PartNumbers numbers;
  std::optional<TieredStore> store;

 private:
  const model::Model model_;
  const model::Limits limits_;
  std::vector<std::unique_ptr<ranks::Group>> groups_;
  std::vector<std::unique_ptr<RankFake>> backends_;
  std::vector<std::thread> threads_;
};

// Rank 0's part as a simulation knows it; what the engine calls goes through the leader's backend.
class LeaderFake : public RankFake {
 public:
  static inline StoredRanks* ranks;               // that the next one leads
  static inline std::vector<uint64_t> last_sums;  // of the last one

  LeaderFake(const model::Model& model, const model::Limits& limits, uint64_t seed)
      : RankFake(model, limits, seed, 3),
        leader_(ranks::make_leader(std::make_unique<Own>(*this), ranks->group(), &ranks->numbers)) {}
  ~LeaderFake() override { last_sums = sums; }

  void begin(const model::Batch& batch) override { leader_->begin(batch); }
  model::Result result() override { return leader_->result(); }
  void copy_block(uint32_t from, uint32_t to) override { leader_->copy_block(from, to); }
  void copy_window_block(uint32_t from, uint32_t to) override { leader_->copy_window_block(from, to); }
  void copy_state(uint32_t from, uint32_t to) override { leader_->copy_state(from, to); }
  std::string kv_layout() const override { return leader_->kv_layout(); }
  uint64_t kv_part_bytes(KvPart part) const override {
    return own_sizes_ ? RankFake::kv_part_bytes(part) : leader_->kv_part_bytes(part);
  }
  void read_kv(std::span<const model::KvRead> reads) override { leader_->read_kv(reads); }
  void write_kv(model::KvPlace place, std::span<const uint8_t> bytes) override { leader_->write_kv(place, bytes); }
  bool usable() const override { return leader_->usable(); }

 private:
  // What this rank computes itself.
  struct Own : IdleBackend {
    LeaderFake& fake;
    explicit Own(LeaderFake& of) : fake(of) {}
    std::string describe() const override { return "fake"; }
    void begin(const model::Batch& batch) override { fake.RankFake::begin(batch); }
    model::Result result() override { return fake.RankFake::result(); }
    void copy_block(uint32_t from, uint32_t to) override { fake.RankFake::copy_block(from, to); }
    void copy_window_block(uint32_t from, uint32_t to) override { fake.RankFake::copy_window_block(from, to); }
    void copy_state(uint32_t from, uint32_t to) override { fake.RankFake::copy_state(from, to); }
    std::string kv_layout() const override { return "fake"; }
    uint64_t kv_part_bytes(KvPart part) const override { return fake.RankFake::kv_part_bytes(part); }
    void read_kv(std::span<const model::KvRead> reads) override {
      fake.with_own_sizes([&] { fake.RankFake::read_kv(reads); });
    }
    void write_kv(model::KvPlace place, std::span<const uint8_t> bytes) override {
      fake.with_own_sizes([&] { fake.RankFake::write_kv(place, bytes); });
    }
  };
  // The fake backend asks itself how long its parts are.
  void with_own_sizes(auto&& work) {
    own_sizes_ = true;
    work();
    own_sizes_ = false;
  }
  bool own_sizes_ = false;
  std::unique_ptr<model::Backend> leader_;
};

struct Found {
  uint64_t restored = 0, loaded = 0;
};

void run_with_ranks(uint64_t seed, uint32_t requests, uint32_t ranks, Found& all) {
  SCOPED_TRACE(fmt::format("seed {}, {} ranks", seed, ranks));
  const Folder folder;
  std::mt19937_64 random(seed * 7919);
  const auto below = [&](uint64_t end) { return random() % end; };
  const bool on_disk = below(3) > 0;
  const uint64_t memory = below(2) ? 4'000 + below(20'000) : below(2'000'000);
  Traffic traffic{.requests = requests, .open = uint32_t(1 + below(30))};
  const uint32_t block = uint32_t(4) << below(3);  // of small ones thousands would be written
  traffic.limits =
      fake_limits(uint32_t(traffic.longest_prompt / block + 2 + below(60)), block, uint32_t(2 + below(60)));
  traffic.turns = double(below(3)) * 0.45;
  traffic.cached = 0;
  if (seed % 3 == 1) {
    traffic.limits.state_slots = 1 + uint32_t(seed % 7);
  } else if (seed % 3 == 2) {
    traffic.window = 1 + uint32_t(seed % 40);
    const uint32_t least = (traffic.window + traffic.limits.rows + block - 1) / block + 1;
    traffic.limits.window_blocks = std::min(least + uint32_t(seed % 5), traffic.limits.kv_blocks);
  }
  for (uint32_t turn = 0; turn < (on_disk ? 3 : 1); ++turn) {
    StoredRanks stored(traffic, folder.path(), ranks, memory,
                       !on_disk   ? 0
                       : below(2) ? 1 + below(200'000)
                                  : 100'000'000);
    LeaderFake::ranks = &stored;
    traffic.options.store = &*stored.store;
    traffic.options.store_identity = "fake";
    if (on_disk && seed % 2) traffic.disturb = [&] { tiers::damage_a_file(folder.path(), random); };
    const Tally tally = Simulation<LeaderFake>(traffic, seed).run();
    all.restored += tally.metrics.restored;
    all.loaded += tally.metrics.store.loaded;
    EXPECT_LE(tally.metrics.store.memory_bytes, memory);
    stored.end(LeaderFake::last_sums);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RankStoreSimulation, OfEveryShape) {
  Found all;
  for (uint64_t seed = 1; seed <= 12; ++seed) run_with_ranks(seed, 40 / shorter, uint32_t(2 + seed / 3 % 2), all);
  EXPECT_GT(all.restored, 300u / shorter);
  EXPECT_GT(all.loaded, 30u / shorter);
}

}  // namespace
}  // namespace heddle::test::fake
