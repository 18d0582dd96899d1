// What the interpreter reports of copies that nothing waits for, of mbarriers and of tensor maps.
#include "tests/ptx/reporting.h"

namespace heddle::ptx {
namespace {

using Out = Global<uint32_t>;

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
      copy_commit(k);
      copy_wait(k, 0);
    });
  };
  EXPECT_CLEAN(run(true));
  EXPECT_REPORT(Kind::race, run(false));
}

// One thread brings 256 bytes by bulk copy; `readers` of the 64 threads wait for the barrier.
Outcome bulk_copied(uint32_t waiters, bool ordered_init = true) {
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
  EXPECT_CLEAN(bulk_copied(64));
  EXPECT_REPORT(Kind::not_waited, bulk_copied(0));
  EXPECT_REPORT(Kind::not_waited, bulk_copied(63));  // one thread forgot
  EXPECT_EQ(bulk_copied(63).report->thread, 63u);
}
TEST(ReportRace, MbarrierUsedBeforeItsInitIsVisible) {
  Outcome o = bulk_copied(64, false);
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
  // The producer runs ahead: the consumer misses phases or reads words while they are overwritten.
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
  EXPECT_CLEAN(one([](WordBuilder&, Mbarrier& b, Out) {
    b.init(1u);
    b.arrive();
    b.invalidate();
    b.init(2u);
    b.arrive();
  }));
  EXPECT_REPORT(Kind::bad_operand, one([](WordBuilder&, Mbarrier& b, Out) { b.arrive(); }));  // not initialised
  auto after_init = [&](uint32_t arrivals, auto f) {
    return one([&](WordBuilder& k, Mbarrier& b, Out out) {
      b.init(arrivals);
      f(k, b, out);
    });
  };
  EXPECT_REPORT(Kind::bad_operand, after_init(1, [](WordBuilder&, Mbarrier& b, Out) { b.init(1u); }));
  EXPECT_REPORT(Kind::bad_operand, after_init(0, [](WordBuilder&, Mbarrier&, Out) {}));
  EXPECT_REPORT(Kind::bad_operand, after_init(1, [](WordBuilder&, Mbarrier& b, Out) { b.arrive(2u); }));
  EXPECT_REPORT(Kind::bad_operand, after_init(1, [](WordBuilder& k, Mbarrier& b, Out) { b.wait(k, 2u); }));
  EXPECT_REPORT(Kind::bad_operand,
                after_init(1, [](WordBuilder&, Mbarrier& b, Out out) { store(out, load(b.at.as<uint32_t>())); }));
  EXPECT_REPORT(Kind::bad_operand, after_init(1, [](WordBuilder& k, Mbarrier& b, Out out) {
                  bulk_load(k.shared<uint32_t>(8), out, 24u, b);
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

}  // namespace
}  // namespace heddle::ptx
