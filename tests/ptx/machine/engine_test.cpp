// How the interpreter runs grids: control flow under masks, blocks that wait for each other, clusters, schedules.
#include "tests/ptx/reporting.h"

namespace heddle::ptx {
namespace {

using Out = Global<uint32_t>;

TEST(Control, WhenElseNested) {
  Outcome o = run_words([](WordBuilder& k, Out out) {
    auto v = k.var(0u);
    U32 t = k.thread();
    k.when_else(
        t < 20u,
        [&] {
          k.when_else(
              t % 2u == 0u, [&] { v = 1u; }, [&] { v = 2u; });
        },
        [&] {
          v = 3u;
          k.when(t >= 40u, [&] { v += 10u; });
        });
    store(out + t, v.get());
  });
  ASSERT_FALSE(o.report) << o.what();
  for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(o.out[t], t < 20 ? 1 + t % 2 : t < 40 ? 3 : 13) << t;
}
TEST(Control, LoopsWithATripCountPerLane) {
  Outcome o = run_words([](WordBuilder& k, Out out) {
    auto sum = k.var(0u);
    k.loop(0u, k.thread(), 1u, [&](U32 i) { k.loop(0u, i, 2u, [&](U32 j) { sum += j + 1u; }); });
    store(out + k.thread(), sum.get());
  });
  ASSERT_FALSE(o.report) << o.what();
  for (uint32_t t = 0; t < 64; ++t) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < t; ++i)
      for (uint32_t j = 0; j < i; j += 2) sum += j + 1;
    EXPECT_EQ(o.out[t], sum) << t;
  }
}
TEST(Control, SnapshotsDoNotChange) {
  Outcome o = run_words([](WordBuilder& k, Out out) {
    auto v = k.var(k.thread());
    U32 before = v.get();
    v += 100u;
    store(out + k.thread(), before);
  });
  EXPECT_EQ(o.out[9], 9u);
}
TEST(Control, LoopOverSixtyFourBits) {
  struct Args {
    DevicePtr<uint64_t> out;
  };
  Builder<Args> k("wide_loop", 32);
  auto sum = k.var(uint64_t(0));
  uint64_t far = uint64_t(1) << 40;
  k.loop(k.constant(far), far + 10, uint64_t(3), [&](U64 i) { sum += i; });
  store(k.arg(&Args::out), sum.get());
  Kernel kernel = k.finish();
  Memory m;
  auto out = m.alloc<uint64_t>(1);
  interpret(kernel, {}, Args{out}, m);
  EXPECT_EQ(m.get(out, 1)[0], 4 * far + 3 + 6 + 9);
}

TEST(Grids, ThreeDimensions) {
  Outcome o = run_words(
      [](WordBuilder& k, Out out) {
        U32 x = k.block_id(), y = k.block_y(), z = k.block_z();
        store(out + (z * 6u + y * 3u + x), x + 10u * y + 100u * z);
      },
      {.launch = {.threads = 32}, .grid = {3, 2, 4}});
  ASSERT_FALSE(o.report) << o.what();
  for (uint32_t z = 0; z < 4; ++z)
    for (uint32_t y = 0; y < 2; ++y)
      for (uint32_t x = 0; x < 3; ++x) EXPECT_EQ(o.out[z * 6 + y * 3 + x], x + 10 * y + 100 * z);
}
TEST(Grids, EmptyGridDoesNothing) {
  Outcome o = run_words([](WordBuilder&, Out out) { store(out, 1u); }, {.grid = {0}});
  EXPECT_CLEAN(o);
  EXPECT_EQ(o.out[0], 0u);
}
TEST(Grids, ManyMoreBlocksThanAreAliveAtOnce) {
  Outcome o = run_words([](WordBuilder& k, Out out) { reduce(Atomic::add, out, k.thread() & 1u); },
                        {.grid = {1000}, .interpret = {.resident_blocks = 3}});
  EXPECT_EQ(o.out[0], 32000u);
}
TEST(Grids, ThreadsInTwoDimensions) {
  Outcome o = run_words(
      [](WordBuilder& k, Out out) {
        U32 x = k.special(Special::tid_x), y = k.special(Special::tid_y);
        store(out + (y * 32u + x), x * 100u + y);
      },
      {.launch = {.threads = 32, .threads_y = 4}});
  ASSERT_FALSE(o.report) << o.what();
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(o.out[i], i % 32 * 100 + i / 32);
}

// Blocks hand work on in a chain, from the last to the first: all must be alive at once.
Outcome chain(uint32_t resident, uint64_t seed = 0) {
  return run_words(
      [](WordBuilder& k, Out out) {
        U32 me = k.block_id(), last = k.grid_x() - 1u;
        k.when(k.thread() == 0u, [&] {
          k.when(me < last, [&] {
            k.loop_while([&] { return load_acquire(out + (me + 1u)) == 0u; }, [&] { k.nanosleep(100u); });
          });
          U32 mine = select(me < last, load_relaxed(out + (me + 1u)), 0u) + 1u;
          store_release(out + me, mine);
        });
      },
      {.launch = {.threads = 32},
       .grid = {12},
       .interpret = {.resident_blocks = resident, .max_idle_steps = 200000, .seed = seed}});
}
TEST(Grids, BlocksHandWorkFromBlockToBlock) {
  Outcome o = chain(12);
  ASSERT_FALSE(o.report) << o.what();
  for (uint32_t i = 0; i < 12; ++i) EXPECT_EQ(o.out[i], 12 - i);
}
TEST(Grids, ThatNeedMoreBlocksThanFitAreReported) {
  Outcome o = chain(4);
  ASSERT_TRUE(o.report);
  EXPECT_TRUE(o.kind() == Kind::deadlock || o.kind() == Kind::no_progress);
}
TEST(Grids, GridBarrierByCounting) {
  // Each block adds to a counter and spins without sleeping until all have; then reads what the others wrote.
  auto o = run_words(
      [](WordBuilder& k, Out out) {
        k.when(k.thread() == 0u, [&] {
          store_relaxed(out + (k.block_id() + 100u), k.block_id() + 1u);
          (void)atomic_add(out, 1u, {.order = Order::release, .scope = Scope::gpu});
          k.loop_while([&] { return load_acquire(out) < k.grid_x(); }, [] {});
          auto sum = k.var(0u);
          k.loop(0u, k.grid_x(), 1u, [&](U32 b) { sum += load(out + (b + 100u)); });
          store(out + (k.block_id() + 200u), sum.get());
        });
      },
      {.launch = {.threads = 32}, .grid = {8}});
  ASSERT_FALSE(o.report) << o.what();
  for (uint32_t b = 0; b < 8; ++b) EXPECT_EQ(o.out[200 + b], 36u);
}
TEST(Grids, TheLastBlockToArriveFinishes) {
  auto o = run_words(
      [](WordBuilder& k, Out out) {
        auto is_last = k.shared<uint32_t>(1);
        store(out + (k.block_id() * 64u + k.thread() + 64u), k.thread() + k.block_id());
        k.fence(Order::acq_rel, Scope::gpu);
        k.barrier();
        k.when(k.thread() == 0u,
               [&] { store(is_last, select(atomic_add(out, 1u) == k.grid_x() - 1u, k.constant(1u), 0u)); });
        k.barrier();
        k.when(load(is_last) == 1u, [&] {
          auto sum = k.var(0u);
          k.loop(0u, k.grid_x(), 1u, [&](U32 b) { sum += load(out + (b * 64u + k.thread() + 64u)); });
          store(out + (k.thread() + 900u), sum.get());
        });
      },
      {.grid = {10}, .words = 1000});
  ASSERT_FALSE(o.report) << o.what();
  for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(o.out[900 + t], 45 + 10 * t);
}

TEST(Schedules, AnyOrderGivesTheSame) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Outcome o = chain(12, seed);
    ASSERT_FALSE(o.report) << "seed " << seed << ": " << o.what();
    EXPECT_EQ(o.out[0], 12u);
    auto sums = run_words(
        [](WordBuilder& k, Out out) {
          U32 total = block_sum(k, k.thread() + k.block_id());
          store(out + (k.block_id() * 128u + k.thread()), block_max(k, total ^ k.thread()));
        },
        {.launch = {.threads = 128}, .grid = {5}, .interpret = {.seed = seed}});
    ASSERT_FALSE(sums.report) << "seed " << seed << ": " << sums.what();
    for (uint32_t b = 0; b < 5; ++b) {
      uint32_t total = 127 * 64 + 128 * b, top = 0;
      for (uint32_t t = 0; t < 128; ++t) top = std::max(top, total ^ t);
      EXPECT_EQ(sums.out[b * 128 + 77], top);
    }
  }
}

TEST(Clusters, SumThroughDistributedSharedMemory) {
  Outcome o = run_words(
      [](WordBuilder& k, Out out) {
        auto s = k.shared<uint32_t>(1);
        k.when(k.thread() == 0u, [&] { store(s, 0u); });
        k.cluster_barrier();
        reduce(Atomic::add, in_block(s, 0u), k.thread() + k.cluster_rank() * 64u, {.scope = Scope::cluster});
        k.cluster_barrier();
        k.when(k.cluster_rank() == 0u,
               [&] { k.when(k.thread() == 0u, [&] { store(out + k.special(Special::clusterid_x), load(s)); }); });
      },
      {.launch = {.threads = 64, .cluster = 4}, .grid = {12}});
  ASSERT_FALSE(o.report) << o.what();
  for (uint32_t c = 0; c < 3; ++c) EXPECT_EQ(o.out[c], 255u * 128);
}
TEST(Clusters, AGridThatIsNotAWholeNumberIsRefused) {
  EXPECT_THROW(run_words([](WordBuilder&, Out) {}, {.launch = {.threads = 32, .cluster = 4}, .grid = {6}}), Error);
}

TEST(Lines, PiecesBelongToTheirCaller) {
  WordBuilder k("lines", 64);
  auto out = k.arg(&WordArgs::out);
  const uint32_t here = __LINE__ + 1;
  store(out + k.thread(), block_sum(k, k.thread()));
  const Kernel kernel = k.finish();
  for (auto& i : kernel.body) {
    EXPECT_LE(i.line, here) << name(i.op);
    EXPECT_NE(std::string(i.file).find("engine_test.cpp"), std::string::npos) << name(i.op) << " is from " << i.file;
  }
}

TEST(Stats, CountActiveLanes) {
  WordBuilder k("stats", 32);
  auto out = k.arg(&WordArgs::out);                // 1 x 32
  k.when(k.lane() < 3u, [&] { store(out, 7u); });  // special, compare: 2 x 32; store: 3 lanes
  Kernel kernel = k.finish();
  Memory m;
  InterpretStats s = interpret(kernel, {2}, WordArgs{m.alloc<uint32_t>(1)}, m);
  EXPECT_EQ(s.warp_instructions, 8u);
  EXPECT_EQ(s.lane_instructions, 2u * (3 * 32 + 3));
}
TEST(Arguments, SizeIsChecked) {
  WordBuilder k("arguments", 32);
  Kernel kernel = k.finish();
  Memory m;
  uint32_t small = 0;
  EXPECT_THROW(interpret(kernel, {}, &small, sizeof small, m), Error);
}

}  // namespace
}  // namespace heddle::ptx
