// Each thing the interpreter reports: it fires on the mistake, and not on the correct program next to it.
#include "reporting.h"

namespace heddle::ptx {
namespace {

using Out = Global<uint32_t>;

// --- bounds and alignment -----------------------------------------------------------------------------------------
TEST(ReportBounds, GlobalReadOnePastTheEnd) {
  auto run = [](int64_t at) {
    return run_words(
        [&](WordBuilder& k, Out out) { k.when(k.thread() == 5u, [&] { store(out, load(out.offset(at))); }); },
        {.words = 100});
  };
  EXPECT_CLEAN(run(99));
  EXPECT_REPORT(Kind::out_of_bounds, run(100));
  EXPECT_REPORT(Kind::out_of_bounds, run(-1));
}
TEST(ReportBounds, GlobalVectorThatHangsOver) {
  auto run = [](int64_t at) {
    return run_words([&](WordBuilder&, Out out) { store_vec(out.offset(at), load_vec<4>(out)); },
                     {.launch = {.threads = 32}, .words = 102});
  };
  EXPECT_CLEAN(run(96));
  EXPECT_REPORT(Kind::out_of_bounds, run(100));
}
TEST(ReportBounds, GlobalWrite) {
  auto run = [](uint32_t words) {
    return run_words([&](WordBuilder& k, Out out) { store(out + k.thread(), k.thread()); }, {.words = words});
  };
  EXPECT_CLEAN(run(64));
  EXPECT_REPORT(Kind::out_of_bounds, run(63));
  EXPECT_EQ(run(63).report->thread, 63u);
}
TEST(ReportBounds, NullPointer) {
  EXPECT_REPORT(Kind::out_of_bounds, run_words([](WordBuilder& k, Out) { store(Out{k.constant(uint64_t(0))}, 1u); }));
}
TEST(ReportBounds, Shared) {
  auto run = [](uint32_t words) {
    return run_words([&](WordBuilder& k, Out) { store(k.shared<uint32_t>(words) + k.thread(), 1u); });
  };
  EXPECT_CLEAN(run(64));
  EXPECT_REPORT(Kind::out_of_bounds, run(63));
}
TEST(ReportBounds, SharedBelowTheFirstByte) {
  EXPECT_REPORT(Kind::out_of_bounds,
                run_words([](WordBuilder& k, Out) { store(k.shared<uint32_t>(64).offset(-1), 1u); }));
}
TEST(ReportBounds, DynamicSharedIsAsLargeAsTheLaunchSays) {
  auto run = [](uint32_t bytes) {
    return run_words([](WordBuilder& k, Out) { store(k.dynamic_shared<uint32_t>() + k.thread(), 1u); },
                     {.interpret = {.dynamic_shared_bytes = bytes}});
  };
  EXPECT_CLEAN(run(256));
  EXPECT_REPORT(Kind::out_of_bounds, run(252));
}
TEST(ReportBounds, Constants) {
  auto run = [](uint32_t at) {
    return run_words([&](WordBuilder& k, Out out) {
      store(out + k.thread(), load(k.constants(std::vector<uint32_t>(64, 7u)) + (k.thread() + at)));
    });
  };
  EXPECT_CLEAN(run(0));
  EXPECT_REPORT(Kind::out_of_bounds, run(1));
}
TEST(ReportBounds, CopySources) {
  auto run = [](uint32_t words) {
    return run_words(
        [](WordBuilder& k, Out out) {
          auto s = k.shared<uint32_t>(256);
          copy_async<16>(s + k.thread() * 4u, out + k.thread() * 4u);
          copy_commit(k), copy_wait(k, 0);
        },
        {.words = words});
  };
  EXPECT_CLEAN(run(256));
  EXPECT_REPORT(Kind::out_of_bounds, run(255));
}
TEST(ReportAlignment, GlobalVector) {
  auto run = [](int64_t at) {
    return run_words([&](WordBuilder&, Out out) { store(out.offset(9), load_vec<4>(out.offset(at))[0]); },
                     {.launch = {.threads = 32}});
  };
  EXPECT_CLEAN(run(4));
  EXPECT_REPORT(Kind::misaligned, run(2));
}
TEST(ReportAlignment, SharedWordAtAnOddByte) {
  auto run = [](uint32_t byte) {
    return run_words([&](WordBuilder& k, Out) {
      k.when(k.thread() == 0u, [&] { store((k.shared<uint8_t>(64) + (k.thread() + byte)).as<uint32_t>(), 1u); });
    });
  };
  EXPECT_CLEAN(run(4));
  EXPECT_REPORT(Kind::misaligned, run(2));
}

// --- shared memory read before it was written ---------------------------------------------------------------------
TEST(ReportUninitialised, WholeWord) {
  auto run = [](bool write) {
    return run_words([&](WordBuilder& k, Out out) {
      auto s = k.shared<uint32_t>(64);
      if (write) store(s + k.thread(), 1u);
      store(out + k.thread(), load(s + k.thread()));
    });
  };
  EXPECT_CLEAN(run(true));
  EXPECT_REPORT(Kind::uninitialised, run(false));
}
TEST(ReportUninitialised, OneByteOfAWord) {
  auto run = [](uint32_t bytes) {
    return run_words(
        [&](WordBuilder& k, Out out) {
          auto s = k.shared<uint8_t>(4);
          k.when(k.thread() == 0u, [&] {
            for (uint32_t i = 0; i < bytes; ++i) store(s.offset(i), k.constant(i));
            store(out, load(s.as<uint32_t>()));
          });
        },
        {.launch = {.threads = 32}});
  };
  EXPECT_CLEAN(run(4));
  EXPECT_EQ(run(4).out[0], 0x03020100u);
  EXPECT_REPORT(Kind::uninitialised, run(3));
}
TEST(ReportUninitialised, EachBlockStartsWithFreshMemory) {
  EXPECT_REPORT(Kind::uninitialised,
                run_words(
                    [](WordBuilder& k, Out out) {
                      auto s = k.shared<uint32_t>(32);
                      k.when(k.block_id() == 0u, [&] { store(s + k.thread(), 1u); });
                      store(out + k.thread(), load(s + k.thread()));
                    },
                    {.launch = {.threads = 32}, .grid = {2}, .interpret = {.resident_blocks = 1}}));
}

// --- races --------------------------------------------------------------------------------------------------------
enum class Between { nothing, warp_sync, barrier, named, shuffle };
void put(WordBuilder& k, Between b) {
  switch (b) {
    case Between::nothing:
      break;
    case Between::warp_sync:
      k.warp_sync();
      break;
    case Between::barrier:
      k.barrier();
      break;
    case Between::named:
      k.barrier(3, k.threads());
      break;
    case Between::shuffle:
      (void)shuffle_xor(k.lane(), 1u);
      break;
  }
}
// Every thread writes a word and reads the one of the thread `by` away.
Outcome neighbour(uint32_t by, Between b) {
  return run_words([&](WordBuilder& k, Out out) {
    auto s = k.shared<uint32_t>(64);
    store(s + k.thread(), 0u);
    k.barrier();
    store(s + k.thread(), k.thread() * 3u);
    put(k, b);
    store(out + k.thread(), load(s + (k.thread() ^ by)));
  });
}
TEST(ReportRace, ReadAfterWriteOfAnotherWarp) {
  EXPECT_REPORT(Kind::race, neighbour(32, Between::nothing));
  EXPECT_REPORT(Kind::race, neighbour(32, Between::warp_sync));
  EXPECT_CLEAN(neighbour(32, Between::barrier));
  EXPECT_CLEAN(neighbour(32, Between::named));
  EXPECT_EQ(neighbour(32, Between::barrier).out[5], 37u * 3);
}
TEST(ReportRace, ReadAfterWriteInTheSameWarp) {
  EXPECT_REPORT(Kind::race, neighbour(1, Between::nothing));
  EXPECT_REPORT(Kind::race, neighbour(1, Between::shuffle));  // a shuffle moves registers, it does not order memory
  EXPECT_CLEAN(neighbour(1, Between::warp_sync));
  EXPECT_CLEAN(neighbour(0, Between::nothing));  // its own word
}
TEST(ReportRace, WriteAfterRead) {
  auto run = [](bool second) {
    return run_words([&](WordBuilder& k, Out out) {
      auto s = k.shared<uint32_t>(64);
      store(s + k.thread(), k.thread());
      k.barrier();
      store(out + k.thread(), load(s + (k.thread() ^ 32u)));
      if (second) k.barrier();
      store(s + k.thread(), 9u);
    });
  };
  EXPECT_CLEAN(run(true));
  EXPECT_REPORT(Kind::race, run(false));
}
TEST(ReportRace, WriteAfterReadOfManyReaders) {
  // Both warps read one word; only one of them is waited for.
  auto run = [](bool all) {
    return run_words(
        [&](WordBuilder& k, Out out) {
          auto s = k.shared<uint32_t>(1);
          k.when(k.thread() == 0u, [&] { store(s, 1u); });
          k.barrier();
          store(out + k.thread(), load(s));
          U32 w = k.warp();
          if (all) {
            k.barrier();
          } else {
            k.when(w < 2u, [&] { k.barrier(1, 64); });  // warps 0 and 1 meet, warp 2 may still be reading
          }
          k.when(k.thread() == 0u, [&] { store(s, 2u); });
        },
        {.launch = {.threads = 96}});
  };
  EXPECT_CLEAN(run(true));
  EXPECT_REPORT(Kind::race, run(false));
}
TEST(ReportRace, TwoWritersOfOneWord) {
  auto run = [](uint32_t mask) {
    return run_words([&](WordBuilder& k, Out) { store(k.shared<uint32_t>(64) + (k.thread() & mask), k.thread()); });
  };
  EXPECT_CLEAN(run(63));
  EXPECT_REPORT(Kind::race, run(31));  // two warps
  EXPECT_REPORT(Kind::race, run(62));  // two lanes of one instruction
}
TEST(ReportRace, BytesOfOneWordAreSeparate) {
  auto run = [](uint32_t shift) {
    return run_words([&](WordBuilder& k, Out out) {
      auto s = k.shared<uint8_t>(64);
      store(s + (k.thread() >> shift), k.thread());
      k.barrier();
      store(out + k.thread(), load(s.as<uint32_t>() + (k.thread() & 7u)));
    });
  };
  EXPECT_CLEAN(run(0));
  EXPECT_EQ(run(0).out[1], 0x07060504u);
  EXPECT_REPORT(Kind::race, run(1));
}
TEST(ReportRace, AtomicsMayMeetButNotPlainReads) {
  auto run = [](bool barrier, bool plain) {
    return run_words([&](WordBuilder& k, Out out) {
      auto s = k.shared<uint32_t>(1);
      k.when(k.thread() == 0u, [&] { store(s, 0u); });
      k.barrier();
      reduce(Atomic::add, s, 1u, {.scope = Scope::cta});
      if (barrier) k.barrier();
      if (plain) store(out + k.thread(), load(s));
    });
  };
  EXPECT_CLEAN(run(true, true));
  EXPECT_EQ(run(true, true).out[63], 64u);
  EXPECT_CLEAN(run(false, false));
  EXPECT_REPORT(Kind::race, run(false, true));
}
TEST(ReportRace, ReleaseAndAcquireOrder) {
  // Warp 0 writes data, then sets a flag; warp 1 spins on the flag, then reads.
  auto run = [](Order set, Order see) {
    return run_words([&](WordBuilder& k, Out out) {
      auto data = k.shared<uint32_t>(32), flag = k.shared<uint32_t>(1);
      k.when(k.thread() == 0u, [&] { store(flag, 0u); });
      k.barrier();
      k.when_else(
          k.warp() == 0u,
          [&] {
            store(data + k.lane(), k.lane() + 100u);
            k.warp_sync();
            k.when(k.lane() == 0u, [&] { store(flag, 1u, {.order = set, .scope = Scope::cta}); });
          },
          [&] {
            k.loop_while([&] { return load(flag, {.order = see, .scope = Scope::cta}) == 0u; },
                         [&] { k.nanosleep(20u); });
            store(out + k.lane(), load(data + k.lane()));
          });
    });
  };
  EXPECT_CLEAN(run(Order::release, Order::acquire));
  EXPECT_EQ(run(Order::release, Order::acquire).out[31], 131u);
  EXPECT_REPORT(Kind::race, run(Order::relaxed, Order::acquire));
  EXPECT_REPORT(Kind::race, run(Order::release, Order::relaxed));
}
TEST(ReportRace, FencesMakeRelaxedFlagsOrder) {
  auto run = [](bool fences) {
    return run_words([&](WordBuilder& k, Out out) {
      auto data = k.shared<uint32_t>(32), flag = k.shared<uint32_t>(1);
      k.when(k.thread() == 0u, [&] { store(flag, 0u); });
      k.barrier();
      k.when_else(
          k.warp() == 0u,
          [&] {
            store(data + k.lane(), 1u);
            k.warp_sync();
            if (fences) k.fence(Order::acq_rel, Scope::cta);
            k.when(k.lane() == 0u, [&] { store_relaxed(flag, 1u, Scope::cta); });
          },
          [&] {
            k.loop_while([&] { return load_relaxed(flag, Scope::cta) == 0u; }, [&] { k.nanosleep(20u); });
            if (fences) k.fence(Order::acq_rel, Scope::cta);
            store(out + k.lane(), load(data + k.lane()));
          });
    });
  };
  EXPECT_CLEAN(run(true));
  EXPECT_REPORT(Kind::race, run(false));
}
TEST(ReportRace, NamedBarriersOrderOnlyTheirOwnWarps) {
  auto run = [](uint32_t reader) {
    return run_words(
        [&](WordBuilder& k, Out out) {
          auto s = k.shared<uint32_t>(32);
          U32 w = k.warp();
          k.when(w == 0u, [&] {
            store(s + k.lane(), 5u);
            k.barrier_arrive(1, 64);
          });
          k.when(w == 1u, [&] { k.barrier(1, 64); });
          k.when(w == reader, [&] { store(out + k.lane(), load(s + k.lane())); });
        },
        {.launch = {.threads = 96}});
  };
  EXPECT_CLEAN(run(1));
  Outcome other = run(2);
  ASSERT_TRUE(other.report);
  EXPECT_TRUE(other.kind() == Kind::race || other.kind() == Kind::uninitialised) << other.what();
}
TEST(ReportRace, CanBeSwitchedOff) {
  EXPECT_CLEAN(run_words(
      [](WordBuilder& k, Out out) {
        auto s = k.shared<uint32_t>(64);
        store(s + k.thread(), k.thread());
        store(out + k.thread(), load(s + (k.thread() ^ 1u)));
      },
      {.interpret = {.races = false}}));
}

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
TEST(ReportProgress, SpinningOnWhatNobodyWrites) {
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

// --- copies -------------------------------------------------------------------------------------------------------
enum class Wait { none, commit_only, wait, wait_and_barrier };
Outcome copied(Wait how, uint32_t reads) {  // every thread copies its 16 bytes, then reads those of thread ^ reads
  return run_words([&](WordBuilder& k, Out out) {
    auto s = k.shared<uint32_t>(256);
    copy_async<16>(s + k.thread() * 4u, out + k.thread() * 4u);
    if (how != Wait::none) copy_commit(k);
    if (how >= Wait::wait) copy_wait(k, 0);
    if (how == Wait::wait_and_barrier) k.barrier();
    store(out + (k.thread() + 512u), load(s + (k.thread() ^ reads) * 4u));
  });
}
TEST(ReportNotWaited, CpAsync) {
  EXPECT_REPORT(Kind::not_waited, copied(Wait::none, 0));
  EXPECT_REPORT(Kind::not_waited, copied(Wait::commit_only, 0));
  EXPECT_CLEAN(copied(Wait::wait, 0));
  EXPECT_REPORT(Kind::race, copied(Wait::wait, 1));  // waiting is for the own copies only
  EXPECT_CLEAN(copied(Wait::wait_and_barrier, 1));
}
TEST(ReportNotWaited, CpAsyncGroups) {
  auto run = [](uint32_t remaining, uint32_t reads) {
    return run_words([&](WordBuilder& k, Out out) {
      auto s = k.shared<uint32_t>(512);
      for (uint32_t stage = 0; stage < 2; ++stage) {
        copy_async<16>(s.offset(stage * 256) + k.thread() * 4u, out + k.thread() * 4u);
        copy_commit(k);
      }
      copy_wait(k, remaining);
      store(out + (k.thread() + 512u), load(s.offset(reads * 256) + k.thread() * 4u));
    });
  };
  EXPECT_CLEAN(run(1, 0));
  EXPECT_REPORT(Kind::not_waited, run(1, 1));
  EXPECT_CLEAN(run(0, 1));
}
TEST(ReportNotWaited, CpAsyncIntoWhatOthersStillRead) {
  auto run = [](bool barrier) {
    return run_words([&](WordBuilder& k, Out out) {
      auto s = k.shared<uint32_t>(256);
      for (uint32_t i = 0; i < 4; ++i) store(s + (k.thread() * 4u + i), 1u);
      k.barrier();
      store(out + (k.thread() + 512u), load(s + (k.thread() ^ 32u) * 4u));
      if (barrier) k.barrier();
      copy_async<16>(s + k.thread() * 4u, out + k.thread() * 4u);
      copy_commit(k), copy_wait(k, 0);
    });
  };
  EXPECT_CLEAN(run(true));
  EXPECT_REPORT(Kind::race, run(false));
}

// One thread brings 256 bytes by bulk copy; `readers` of the 64 threads wait for the barrier.
Outcome bulk(uint32_t waiters, bool ordered_init = true) {
  return run_words([&](WordBuilder& k, Out out) {
    auto s = k.shared<uint32_t>(64);
    auto done = mbarrier(k);
    k.when(k.thread() == 0u, [&] {
      done.init(1u);
      fence_mbarrier_init(k);
      done.arrive_expect_bytes(256u);
      bulk_load(s, out, 256u, done);
    });
    if (ordered_init) k.barrier();
    k.when(k.thread() < waiters, [&] { done.wait(k, 0u); });
    store(out + (k.thread() + 64u), load(s + k.thread()));
  });
}
TEST(ReportNotWaited, BulkLoad) {
  EXPECT_CLEAN(bulk(64));
  EXPECT_REPORT(Kind::not_waited, bulk(0));
  EXPECT_REPORT(Kind::not_waited, bulk(63));  // one thread forgot
  EXPECT_EQ(bulk(63).report->thread, 63u);
}
TEST(ReportRace, MbarrierUsedBeforeItsInitIsVisible) {
  Outcome o = bulk(64, false);
  ASSERT_TRUE(o.report);
  EXPECT_TRUE(o.kind() == Kind::race || o.kind() == Kind::bad_operand) << o.what();
}
TEST(ReportNotWaited, BulkStoreSourceReused) {
  auto run = [](bool wait, bool fence) {
    return run_words(
        [&](WordBuilder& k, Out out) {
          auto s = k.shared<uint32_t>(32);
          store(s + k.lane(), k.lane());
          if (fence) fence_async_shared(k);
          k.warp_sync();
          k.when(k.lane() == 0u, [&] {
            bulk_store(out, s, 128u);
            bulk_commit(k);
            if (wait) bulk_wait(k, 0, true);
          });
          k.warp_sync();
          store(s + k.lane(), 99u);
          k.when(k.lane() == 0u, [&] { bulk_wait(k, 0); });
        },
        {.launch = {.threads = 32}});
  };
  EXPECT_CLEAN(run(true, true));
  EXPECT_EQ(run(true, true).out[31], 31u);
  EXPECT_REPORT(Kind::not_waited, run(false, true));
  EXPECT_REPORT(Kind::no_proxy_fence, run(true, false));
}
TEST(ReportProxyFence, MayBeTheReadersAfterTheBarrier) {
  auto run = [](bool fence) {
    return run_words([&](WordBuilder& k, Out out) {
      auto s = k.shared<uint32_t>(64);
      store(s + k.thread(), k.thread());
      k.barrier();
      k.when(k.thread() == 0u, [&] {
        if (fence) fence_async_shared(k);
        bulk_store(out, s, 256u);
        bulk_commit(k);
        bulk_wait(k, 0);
      });
    });
  };
  EXPECT_CLEAN(run(true));
  EXPECT_EQ(run(true).out[63], 63u);
  EXPECT_REPORT(Kind::no_proxy_fence, run(false));
}
TEST(ReportMbarrier, PipelineOfTwoStages) {
  // Warp 0 fills, warp 1 empties; `empty` barriers keep the producer from overwriting what is still read.
  auto run = [](bool wait_empty) {
    return run_words(
        [&](WordBuilder& k, Out out) {
          auto s = k.shared<uint32_t>(64);
          auto full = mbarriers(k, 2), empty = mbarriers(k, 2);
          k.when(k.thread() == 0u, [&] {
            for (auto& b : full) b.init(32u);
            for (auto& b : empty) b.init(32u);
          });
          k.barrier();
          k.when_else(
              k.warp() == 0u,
              [&] {
                for (uint32_t i = 0; i < 8; ++i) {
                  if (wait_empty && i >= 2) empty[i % 2].wait(k, (i / 2 - 1) & 1u);
                  store(s.offset(i % 2 * 32) + k.lane(), k.lane() + i);
                  full[i % 2].arrive();
                }
              },
              [&] {
                for (uint32_t i = 0; i < 8; ++i) {
                  full[i % 2].wait(k, i / 2 & 1u);
                  store(out.offset(i * 32) + k.lane(), load(s.offset(i % 2 * 32) + (31u - k.lane())));
                  empty[i % 2].arrive();
                }
              });
        },
        {});
  };
  EXPECT_CLEAN(run(true));
  EXPECT_EQ(run(true).out[7 * 32], 31u + 7);
  // The producer runs ahead: the consumer misses phases or meets words that are written under its eyes.
  Outcome o = run(false);
  ASSERT_TRUE(o.report);
  EXPECT_TRUE(o.kind() == Kind::race || o.kind() == Kind::deadlock) << o.what();
}
TEST(ReportMbarrier, WaitThatNeverEnds) {
  auto run = [](uint32_t arrivals) {
    return run_words([&](WordBuilder& k, Out) {
      auto b = mbarrier(k);
      k.when(k.thread() == 0u, [&] { b.init(arrivals); });
      k.barrier();
      b.arrive();
      b.wait(k, 0u);
    });
  };
  EXPECT_CLEAN(run(64));
  EXPECT_REPORT(Kind::deadlock, run(65));
}
TEST(ReportMbarrier, Misuse) {
  auto one = [](auto f) {
    return run_words(
        [&](WordBuilder& k, Out out) {
          auto b = mbarrier(k);
          k.when(k.thread() == 0u, [&] { f(k, b, out); });
        },
        {.launch = {.threads = 32}});
  };
  EXPECT_CLEAN(
      one([](WordBuilder&, Mbarrier& b, Out) { b.init(1u), b.arrive(), b.invalidate(), b.init(2u), b.arrive(); }));
  EXPECT_REPORT(Kind::bad_operand, one([](WordBuilder&, Mbarrier& b, Out) { b.arrive(); }));  // not initialised
  EXPECT_REPORT(Kind::bad_operand, one([](WordBuilder&, Mbarrier& b, Out) { b.init(1u), b.init(1u); }));
  EXPECT_REPORT(Kind::bad_operand, one([](WordBuilder&, Mbarrier& b, Out) { b.init(0u); }));
  EXPECT_REPORT(Kind::bad_operand, one([](WordBuilder&, Mbarrier& b, Out) { b.init(1u), b.arrive(2u); }));
  EXPECT_REPORT(Kind::bad_operand, one([](WordBuilder& k, Mbarrier& b, Out) { b.init(1u), b.wait(k, 2u); }));
  EXPECT_REPORT(Kind::bad_operand,
                one([](WordBuilder&, Mbarrier& b, Out out) { b.init(1u), store(out, load(b.at.as<uint32_t>())); }));
  EXPECT_REPORT(Kind::bad_operand, one([](WordBuilder& k, Mbarrier& b, Out out) {
                  b.init(1u), bulk_load(k.shared<uint32_t>(8), out, 24u, b);
                }));
}

// --- tensor copies ------------------------------------------------------------------------------------------------
// Loads a box of 8 x 4 words at (x, y) of a tensor of 32 x 8.
Outcome tensor_box(int32_t x, int32_t y, uint32_t box = 8, size_t rank = 2, bool as_argument = true) {
  struct Args {
    DevicePtr<uint32_t> out;
    TensorMap map;
  };
  Builder<Args> k("tensor_box", 32);
  auto tile = k.shared<uint32_t>(64, 1024);
  auto done = mbarrier(k);
  U64 map = as_argument ? k.arg(&Args::map) : k.arg(&Args::out).address();
  k.when(k.thread() == 0u, [&] {
    done.init(1u);
    done.arrive_expect_bytes(box * 4 * 4);
    if (rank == 2)
      tensor_load(tile, map, Vec<int32_t, 2>{k.constant(x), k.constant(y)}, done);
    else
      tensor_load(tile, map, Vec<int32_t, 1>{k.constant(x)}, done);
  });
  k.barrier();
  done.wait(k, 0u);
  store(k.arg(&Args::out) + k.thread(), load(tile + k.thread()));
  Kernel kernel = k.finish();
  Memory m;
  std::vector<uint32_t> data(256);
  for (uint32_t i = 0; i < 256; ++i) data[i] = i + 1000;
  auto in = m.put(data), out = m.alloc<uint32_t>(32);
  TensorMapSpec spec{
      .type = Type::u32, .rank = 2, .address = in.address, .size = {32, 8}, .stride = {0, 128}, .box = {box, 4}};
  Outcome r;
  try {
    interpret(kernel, {}, Args{out, interpreter_map(spec)}, m);
  } catch (const Report& report) {
    r.report = report;
  }
  r.out = m.get(out, 32);
  return r;
}
TEST(ReportTensor, CoordinatesAndMaps) {
  EXPECT_CLEAN(tensor_box(4, 2));
  EXPECT_EQ(tensor_box(4, 2).out[9], 1000u + 3 * 32 + 5);
  EXPECT_EQ(tensor_box(28, 6).out[3], 1000u + 6 * 32 + 31);
  EXPECT_EQ(tensor_box(28, 6).out[4], 0u);   // right of the tensor
  EXPECT_EQ(tensor_box(28, 6).out[16], 0u);  // below it
  EXPECT_EQ(tensor_box(-4, -1).out[12], 1000u);
  EXPECT_REPORT(Kind::misaligned, tensor_box(3, 2));  // hardware stops at rows that begin between multiples of 16 bytes
  EXPECT_REPORT(Kind::bad_operand, tensor_box(4, 2, 6));
  EXPECT_REPORT(Kind::bad_operand, tensor_box(4, 2, 8, 1));
  EXPECT_REPORT(Kind::bad_operand, tensor_box(4, 2, 8, 2, false));
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

// --- clusters -----------------------------------------------------------------------------------------------------
Outcome exchange(bool before, bool after, uint32_t rank = 1) {
  return run_words(
      [&](WordBuilder& k, Out out) {
        auto s = k.shared<uint32_t>(32);
        U32 me = k.cluster_rank();
        store(s + k.thread(), me * 1000u + k.thread());
        if (before) k.cluster_barrier();
        store(out + (me * 32u + k.thread()), load(in_block(s, me ^ rank) + k.thread()));
        if (after) k.cluster_barrier();
      },
      {.launch = {.threads = 32, .cluster = 2}, .grid = {2}});
}
TEST(ReportCluster, MemoryOfAnotherBlock) {
  EXPECT_CLEAN(exchange(true, true));
  EXPECT_EQ(exchange(true, true).out[5], 1005u);
  EXPECT_EQ(exchange(true, true).out[37], 5u);
  Outcome early = exchange(false, true);
  ASSERT_TRUE(early.report);
  EXPECT_TRUE(early.kind() == Kind::race || early.kind() == Kind::uninitialised) << early.what();
  EXPECT_REPORT(Kind::bad_operand, exchange(true, true, 3));
}
TEST(ReportCluster, BlockThatEndedTookItsMemoryAlong) {
  auto run = [](bool stay) {
    return run_words(
        [&](WordBuilder& k, Out out) {
          auto s = k.shared<uint32_t>(32);
          store(s + k.thread(), 7u);
          k.cluster_barrier();
          k.when(k.cluster_rank() == 0u, [&] {
            k.loop(0u, 2000u, 1u, [&](U32 i) { store(out + 100u, i); });
            store(out + k.thread(), load(in_block(s, 1u) + k.thread()));
          });
          if (stay) k.cluster_barrier();
        },
        {.launch = {.threads = 32, .cluster = 2}, .grid = {2}});
  };
  EXPECT_CLEAN(run(true));
  EXPECT_REPORT(Kind::out_of_bounds, run(false));
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
  EXPECT_NE(o.report->file.find("report_test.cpp"), std::string::npos);
  for (const char* part : {"test_kernel", "report_test.cpp:", "block (2, 0, 0)", "thread 41", "4 bytes", "4096 bytes"})
    EXPECT_NE(o.what().find(part), std::string::npos) << part << " not in: " << o.what();
}

}  // namespace
}  // namespace heddle::ptx
