// Several ranks at once, each with launches of its own, in random turns: right sums on all of them, the same bits,
// whatever round each of them is in; and a rank that never comes.
#include "kernels/layer/all_reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ptx/interpret.h"
#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

using ptx::DevicePtr;

// The ranks' mailboxes, and launches that wait in a queue per rank.
class Group {
 public:
  Group(uint32_t ranks, uint32_t places, uint32_t place) : layout_{ranks, places, place}, queues_(ranks) {
    const std::vector<uint8_t> zeros(layout_.bytes());
    for (uint32_t r = 0; r < ranks; ++r) {
      boxes_.push_back(memory.put(zeros));
      stops.push_back(memory.put(std::vector<uint32_t>{0}));
    }
    // what is not written yet must not be read
    for (const auto& box : boxes_) std::memset(reinterpret_cast<void*>(box.address), 0xCC, layout_.flags_at());
  }

  AllReduce::Args args(uint32_t rank, const AllReduce::Args& from) const {
    AllReduce::Args args = from;
    for (uint32_t r = 0; r < layout_.ranks; ++r) args.*AllReduce::boxes[r] = boxes_[r];
    args.stop = stops[rank];
    args.rank = rank;
    args.places = layout_.places;
    args.place = layout_.place;
    return args;
  }
  void launch(uint32_t rank, const ptx::Lowered& kernel, const AllReduce& spec, const AllReduce::Args& from,
              uint64_t seed) {
    const AllReduce::Args with = args(rank, from);
    // blocks of a rank that are not alive yet must not be needed by those that are
    const uint32_t alive = 1 + uint32_t(seed % 3);
    queues_[rank].push_back(
        ptx::QueuedLaunch::of(kernel, spec.grid(with), with, {.resident_blocks = alive, .seed = seed}));
  }
  void run() {
    ptx::interpret_together(queues_, memory);
    for (auto& queue : queues_) queue.clear();
  }
  void set_rounds(uint32_t number) {
    for (const auto& box : boxes_) {
      auto* words = reinterpret_cast<uint32_t*>(box.address + layout_.flags_at());
      std::fill(words, words + (layout_.ranks + 1) * layout_.places, number);
    }
  }

  ptx::Memory memory;
  std::vector<DevicePtr<uint32_t>> stops;

 private:
  const MailboxLayout layout_;
  std::vector<DevicePtr<uint8_t>> boxes_;
  std::vector<std::vector<ptx::QueuedLaunch>> queues_;
};

constexpr uint64_t never = ~uint64_t(0) >> 1;

struct Sum {
  std::vector<DevicePtr<float>> y;  // of each rank
  std::vector<float> want;
};

// `rounds` sums of random sizes on each rank, without anything that keeps the ranks together but the sums themselves.
void expect_sums(uint32_t ranks, uint32_t rounds, uint64_t seed, uint32_t first_round = 0) {
  constexpr uint32_t places = 5, place = 192;
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal;
  Group group(ranks, places, place);
  group.set_rounds(first_round);
  const AllReduce wide{.threads = 64, .ranks = ranks}, narrow{.threads = 32, .ranks = ranks, .vec = 1};
  const ptx::Lowered wide_kernel(wide.build()), narrow_kernel(narrow.build());
  std::vector<Sum> sums;
  for (uint32_t round = 0; round < rounds; ++round) {
    const bool by_four = rng() % 2;
    const uint32_t unit = by_four ? 4 : 1;
    const uint32_t cols = unit * (1 + uint32_t(rng() % (place / unit))), rows = 1 + uint32_t(rng() % places);
    const uint32_t values = cols * rows - unit * uint32_t(rng() % (cols / unit));
    Sum& sum = sums.emplace_back();
    sum.want.assign(values, 0);
    for (uint32_t r = 0; r < ranks; ++r) {
      std::vector<float> part(values);
      for (float& v : part) v = normal(rng) * std::ldexp(1.0f, int(rng() % 20) - 10);
      for (uint32_t i = 0; i < values; ++i) sum.want[i] = r ? sum.want[i] + part[i] : part[i];
      sum.y.push_back(group.memory.put(part));
      group.launch(r, by_four ? wide_kernel : narrow_kernel, by_four ? wide : narrow,
                   {.y = sum.y.back(), .limit = never, .rows = rows, .cols = cols, .values = values}, rng() | 1);
    }
  }
  group.run();
  for (uint32_t round = 0; round < rounds; ++round)
    for (uint32_t r = 0; r < ranks; ++r) {
      const Sum& sum = sums[round];
      ASSERT_EQ(group.memory.get(sum.y[r], sum.want.size()), sum.want) << "round " << round << ", rank " << r;
    }
  for (const auto stop : group.stops) EXPECT_EQ(group.memory.get(stop, 1)[0], 0u);
}

TEST(AllReduce, SumsOfAnySizeInManyRoundsAreTheSameOnAllRanks) {
  for (uint32_t ranks : {2u, 3u, 4u, 8u})
    for (uint64_t seed = 1; seed <= (ranks == 2 ? 12u : 4u); ++seed) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, seed " << seed);
      expect_sums(ranks, 12, seed * 1000 + ranks);
    }
}

TEST(AllReduce, RoundsAreCountedBeyondTheLargestNumber) { expect_sums(3, 8, 77, ~0u - 3); }

TEST(AllReduce, IsAddedToTheResidualThroughANorm) {
  for (uint32_t norm : {norm_none, norm_rms, norm_layer})
    for (uint32_t after : {0u, 1u}) {
      const uint32_t ranks = 3, rows = 4, cols = 72;
      std::mt19937_64 rng(norm * 2 + after + 1);
      std::normal_distribution<float> normal;
      const auto values = [&](size_t n) {
        std::vector<float> v(n);
        for (float& x : v) x = normal(rng);
        return v;
      };
      const AllReduce spec{.threads = 32, .ranks = ranks, .norm = norm, .add = 1, .after = after};
      const ptx::Lowered kernel(spec.build());
      Group group(ranks, rows, 128);
      const std::vector<float> h = values(rows * cols), weight = values(cols);
      std::vector<std::vector<float>> parts;
      std::vector<DevicePtr<float>> residuals;
      const float scale = 0.25f, epsilon = 1e-5f, times = 1.5f;
      for (uint32_t r = 0; r < ranks; ++r) {
        parts.push_back(values(rows * cols));
        residuals.push_back(group.memory.put(h));
        group.launch(r, kernel, spec,
                     {.y = group.memory.put(parts[r]),
                      .h = residuals[r],
                      .weight = group.memory.put(weight),
                      .limit = never,
                      .rows = rows,
                      .cols = cols,
                      .values = rows * cols,
                      .scale = scale,
                      .epsilon = epsilon,
                      .after = times},
                     rng() | 1);
      }
      group.run();
      const std::vector<float> first = group.memory.get(residuals[0], h.size());
      for (uint32_t r = 1; r < ranks; ++r) EXPECT_EQ(group.memory.get(residuals[r], h.size()), first) << "rank " << r;
      for (uint32_t row = 0; row < rows; ++row) {
        std::vector<double> sum(cols);
        double mean = 0, squares = 0;
        for (uint32_t c = 0; c < cols; ++c)
          for (uint32_t r = 0; r < ranks; ++r) sum[c] += double(parts[r][row * cols + c]);
        for (const double v : sum) mean += norm == norm_layer ? v / cols : 0;
        for (const double v : sum) squares += (v - mean) * (v - mean);
        const double factor = 1 / std::sqrt(squares / cols + double(epsilon));
        for (uint32_t c = 0; c < cols; ++c) {
          const double v = norm == norm_none ? sum[c] : (sum[c] - mean) * factor * weight[c];
          const double want = (h[row * cols + c] + scale * v) * (after ? times : 1);
          EXPECT_NEAR(first[row * cols + c], want, 4e-6 * (1 + std::abs(want))) << "row " << row << ", column " << c;
        }
      }
    }
}

TEST(AllReduce, ARankThatNeverComesIsNamedAndNotWaitedForAgain) {
  const AllReduce spec{.threads = 32, .ranks = 3};
  const ptx::Lowered kernel(spec.build());
  Group group(3, 2, 64);
  for (uint32_t round = 0; round < 2; ++round)
    for (uint32_t rank : {0u, 2u})
      group.launch(rank, kernel, spec,
                   {.y = group.memory.put(std::vector<float>(128)),
                    .limit = round == 0 ? 200000 : never,  // in the interpreter a nanosecond is an instruction
                    .rows = 2,
                    .cols = 64,
                    .values = 128},
                   1);
  group.run();
  EXPECT_EQ(group.memory.get(group.stops[0], 1)[0], 2u);
  EXPECT_EQ(group.memory.get(group.stops[2], 1)[0], 2u);
}

TEST(AllReduce, StopsWhenTheHostSaysSo) {
  const AllReduce spec{.threads = 32, .ranks = 2};
  const ptx::Lowered kernel(spec.build());
  Group group(2, 1, 64);
  *reinterpret_cast<uint32_t*>(group.stops[0].address) = 99;
  const AllReduce::Args args{
      .y = group.memory.put(std::vector<float>(64)), .limit = never, .rows = 1, .cols = 64, .values = 64};
  group.launch(0, kernel, spec, args, 1);
  group.run();
  EXPECT_EQ(group.memory.get(group.stops[0], 1)[0], 99u);
}

TEST(AllReduce, RefusesWhatItCannotDo) {
  const AllReduce::Args fits{.places = 4, .place = 128, .rows = 4, .cols = 128, .values = 512};
  const auto with = [&](auto member, auto value) {
    AllReduce::Args args = fits;
    args.*member = value;
    return refusal(AllReduce{}, args);
  };
  using Args = AllReduce::Args;
  EXPECT_EQ(refusal(AllReduce{}, fits), "");
  EXPECT_EQ(with(&Args::rows, 5u), "all_reduce: 5 rows of 128 values, but the mailbox has 4 places of 128");
  EXPECT_EQ(with(&Args::cols, 132u), "all_reduce: 4 rows of 132 values, but the mailbox has 4 places of 128");
  EXPECT_EQ(with(&Args::place, 130u), "all_reduce: places of 130 values, expected a multiple of 64");
  EXPECT_EQ(with(&Args::values, 510u),
            "all_reduce: 510 values in rows of 128, but with vec = 4 both must be multiples of it");
  EXPECT_EQ(with(&Args::values, 384u), "all_reduce: 384 values, which are not 4 rows of 128");
  EXPECT_EQ(with(&Args::values, 516u), "all_reduce: 516 values, which are not 4 rows of 128");
  EXPECT_EQ(with(&Args::rank, 2u), "all_reduce: rank 2 of 2");
  EXPECT_NE(refused([] { AllReduce{.ranks = 9}.build(); }), "");
  EXPECT_EQ(refused([] { AllReduce{.norm = norm_rms}.build(); }), "all_reduce: a norm without add");
}

TEST(AllReduce, AssemblesWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::vector<AllReduce> specs;
  for (uint32_t ranks : {2u, 4u, 8u})
    for (uint32_t norm : {norm_none, norm_rms, norm_layer})
      specs.push_back({.threads = 1024, .ranks = ranks, .norm = norm, .add = 1, .after = 1});
  expect_no_spills(specs, "sm_75");
}

}  // namespace
}  // namespace heddle::kernels
