// What the interpreter reports of memory: bounds, alignment, reads before writes, races. Each report fires on the
// mistake and not on the correct program next to it.
#include "tests/ptx/reporting.h"

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
          copy_commit(k);
          copy_wait(k, 0);
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
void put_in_shared(WordBuilder& k, Between b) {
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
Outcome value_of_neighbour(uint32_t by, Between b) {
  return run_words([&](WordBuilder& k, Out out) {
    auto s = k.shared<uint32_t>(64);
    store(s + k.thread(), 0u);
    k.barrier();
    store(s + k.thread(), k.thread() * 3u);
    put_in_shared(k, b);
    store(out + k.thread(), load(s + (k.thread() ^ by)));
  });
}
TEST(ReportRace, ReadAfterWriteOfAnotherWarp) {
  EXPECT_REPORT(Kind::race, value_of_neighbour(32, Between::nothing));
  EXPECT_REPORT(Kind::race, value_of_neighbour(32, Between::warp_sync));
  EXPECT_CLEAN(value_of_neighbour(32, Between::barrier));
  EXPECT_CLEAN(value_of_neighbour(32, Between::named));
  EXPECT_EQ(value_of_neighbour(32, Between::barrier).out[5], 37u * 3);
}
TEST(ReportRace, ReadAfterWriteInTheSameWarp) {
  EXPECT_REPORT(Kind::race, value_of_neighbour(1, Between::nothing));
  EXPECT_REPORT(Kind::race,
                value_of_neighbour(1, Between::shuffle));  // a shuffle moves registers, it does not order memory
  EXPECT_CLEAN(value_of_neighbour(1, Between::warp_sync));
  EXPECT_CLEAN(value_of_neighbour(0, Between::nothing));  // its own word
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
TEST(ReportCluster, MemoryOfABlockThatHasEnded) {
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

}  // namespace
}  // namespace heddle::ptx
