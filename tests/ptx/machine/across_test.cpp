// What the interpreter reports of barriers, promises and progress, and what a report says.
#include "tests/ptx/reporting.h"

namespace heddle::ptx {
namespace {

using Out = Global<uint32_t>;

// --- barriers -----------------------------------------------------------------------------------------------------
TEST(ReportBarrier, SomeLanesOnly) {
  auto run = [](uint32_t lanes) {
    return run_words([&](WordBuilder& k, Out) { k.when(k.lane() < lanes, [&] { k.barrier(); }); });
  };
  EXPECT_CLEAN(run(32));
  EXPECT_REPORT(Kind::barrier_divergence, run(31));
}
TEST(ReportBarrier, SomeWarpsNeverCome) {
  auto run = [](uint32_t warps) {
    return run_words([&](WordBuilder& k, Out) { k.when(k.warp() < warps, [&] { k.barrier(); }); });
  };
  EXPECT_CLEAN(run(2));
  EXPECT_REPORT(Kind::deadlock, run(1));
}
TEST(ReportBarrier, DifferentTripCounts) {
  auto run = [](uint32_t more) {
    return run_words([&](WordBuilder& k, Out) { k.loop(0u, k.warp() * more + 2u, 1u, [&](U32) { k.barrier(); }); });
  };
  EXPECT_CLEAN(run(0));
  EXPECT_REPORT(Kind::deadlock, run(1));
}
TEST(ReportBarrier, NamedBarrierCounts) {
  auto run = [](uint32_t first, uint32_t second) {
    return run_words([&](WordBuilder& k, Out) {
      k.when_else(
          k.warp() == 0u, [&] { k.barrier(1, first); }, [&] { k.barrier(1, second); });
    });
  };
  EXPECT_CLEAN(run(64, 64));
  EXPECT_REPORT(Kind::bad_operand, run(64, 96));
  EXPECT_REPORT(Kind::deadlock, run(96, 96));
}
TEST(ReportBarrier, ShufflesAndVotesNeedTheWholeWarp) {
  auto run = [](uint32_t lanes, bool vote) {
    return run_words([&](WordBuilder& k, Out out) {
      k.when(k.lane() < lanes,
             [&] { store(out + k.thread(), vote ? ballot(k.lane() < 3u) : shuffle_xor(k.lane(), 1u)); });
    });
  };
  for (bool vote : {false, true}) {
    EXPECT_CLEAN(run(32, vote));
    EXPECT_REPORT(Kind::barrier_divergence, run(16, vote));
  }
}
TEST(ReportBarrier, ClusterBarrierTwiceOrWithoutArrival) {
  auto run = [](int arrivals, bool wait) {
    return run_words(
        [&](WordBuilder& k, Out) {
          for (int i = 0; i < arrivals; ++i) k.cluster_arrive();
          if (wait) k.cluster_wait();
        },
        {.launch = {.threads = 32, .cluster = 2}, .grid = {2}});
  };
  EXPECT_CLEAN(run(1, true));
  EXPECT_REPORT(Kind::bad_operand, run(2, true));
  EXPECT_REPORT(Kind::bad_operand, run(0, true));
}
TEST(ReportBarrier, ClusterBarrierThatOneBlockMisses) {
  EXPECT_REPORT(Kind::deadlock,
                run_words([](WordBuilder& k, Out) { k.when(k.cluster_rank() == 0u, [&] { k.cluster_barrier(); }); },
                          {.launch = {.threads = 32, .cluster = 2}, .grid = {2}}));
}
TEST(ReportProgress, SpinningOnWhatNoThreadWrites) {
  auto run = [](uint32_t value) {
    return run_words(
        [&](WordBuilder& k, Out out) {
          k.when(k.thread() == 63u, [&] { store(out, value); });
          k.loop_while([&] { return load_acquire(out) == 0u; }, [] {});
        },
        {.interpret = {.max_idle_steps = 100000}});
  };
  EXPECT_CLEAN(run(1));
  EXPECT_REPORT(Kind::no_progress, run(0));
}

// --- promises, division, trap -------------------------------------------------------------------------------------
TEST(ReportUniform, PromisesAreChecked) {
  auto run = [](Uniform across, auto value) {
    return run_words([&](WordBuilder& k, Out out) { store(out + k.thread(), k.assume_uniform(value(k), across)); },
                     {.launch = {.threads = 256}, .grid = {2}, .words = 256});
  };
  EXPECT_CLEAN(run(Uniform::block, [](WordBuilder& k) { return k.block_id(); }));
  EXPECT_CLEAN(run(Uniform::group, [](WordBuilder& k) { return k.group(); }));
  EXPECT_CLEAN(run(Uniform::warp, [](WordBuilder& k) { return k.warp(); }));
  EXPECT_REPORT(Kind::not_uniform, run(Uniform::warp, [](WordBuilder& k) { return k.lane(); }));
  EXPECT_REPORT(Kind::not_uniform, run(Uniform::block, [](WordBuilder& k) { return k.warp(); }));
  EXPECT_REPORT(Kind::not_uniform, run(Uniform::group, [](WordBuilder& k) { return k.warp(); }));
}
TEST(ReportOperand, DivisionByZero) {
  auto run = [](uint32_t add) {
    return run_words([&](WordBuilder& k, Out out) { store(out + k.thread(), 100u / (k.thread() + add)); });
  };
  EXPECT_CLEAN(run(1));
  EXPECT_REPORT(Kind::bad_operand, run(0));
}
TEST(ReportTrap, Fires) {
  auto run = [](uint32_t n) {
    return run_words([&](WordBuilder& k, Out) { k.when(k.thread() >= n, [&] { k.trap(); }); });
  };
  EXPECT_CLEAN(run(64));
  EXPECT_REPORT(Kind::trap, run(63));
}

// --- what a report says -------------------------------------------------------------------------------------------
TEST(Report, NamesKernelBlockThreadAndLine) {
  uint32_t line = 0;
  Outcome o = run_words(
      [&](WordBuilder& k, Out out) {
        k.when((k.block_id() == 2u) & (k.thread() == 41u), [&] {
          line = __LINE__ + 1;
          store(out.offset(5000), 1u);
        });
      },
      {.grid = {3}});
  ASSERT_TRUE(o.report);
  EXPECT_EQ(o.report->kernel, "test_kernel");
  EXPECT_EQ(o.report->block.x, 2u);
  EXPECT_EQ(o.report->thread, 41u);
  EXPECT_EQ(o.report->line, line);
  EXPECT_NE(o.report->file.find("across_test.cpp"), std::string::npos);
  for (const char* part : {"test_kernel", "across_test.cpp:", "block (2, 0, 0)", "thread 41", "4 bytes", "4096 bytes"})
    EXPECT_NE(o.what().find(part), std::string::npos) << part << " not in: " << o.what();
}

}  // namespace
}  // namespace heddle::ptx
