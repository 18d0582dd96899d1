// What verify refuses about a kernel as a whole: sizes, definitions, uniformity, addresses, waits, targets. Every rule
// has a kernel that breaks it and a neighbour that does not; verify_types_test.cpp has the single instructions.
#include "ptx/verify.h"

#include <chrono>
#include <functional>
#include <random>

#include "tests/ptx/refused.h"

namespace heddle::ptx {
namespace {

using Empty = Builder<NoArgs>;
struct Pointers {
  DevicePtr<float> x, y;
  uint32_t rows, cols;
};

// --- the kernel ----------------------------------------------------------------------------------------------------
TEST(VerifyKernel, AnEmptyKernelIsFine) { EXPECT_TRUE(accepted(Empty("nothing", 32).finish())); }

TEST(VerifyKernel, NameIsAPtxIdentifier) {
  for (const char* good : {"rms_norm", "_k", "$x", "A9$_"}) EXPECT_TRUE(accepted(Empty(good, 32).finish())) << good;
  for (const char* bad : {"", "9lives", "rms norm", "rms-norm", "norm\xc3\xa9", "a.b", "_", "WARP_SZ", "a\n"})
    EXPECT_TRUE(refused(Empty(bad, 32).finish(), {"not a PTX identifier", "ASCII"})) << bad;
}

TEST(VerifyKernel, BlockIsWholeWarps) {
  for (uint32_t threads : {32u, 96u, 1024u}) EXPECT_TRUE(accepted(Empty("k", threads).finish()));
  for (uint32_t threads : {0u, 33u, 100u, 1056u})
    EXPECT_TRUE(refused(Empty("k", threads).finish(), {"multiple of 32 from 32 to 1024"}));
  Kernel k = Empty("k", {.threads = 16, .threads_y = 4}).finish();
  EXPECT_TRUE(accepted(k));
  k.threads_z = 2;
  EXPECT_TRUE(accepted(k));
  k.threads_z = 32;
  EXPECT_TRUE(refused(k, {"a block of 16 x 4 x 32 threads"}));
  k.threads_x = 1, k.threads_y = 1, k.threads_z = 128;
  EXPECT_TRUE(refused(k, {"128 threads along z; at most 64"}));
  k.threads_x = k.threads_y = 65536, k.threads_z = 1;  // the product wraps to 0 in 32 bits
  EXPECT_TRUE(refused(k, {"a block of 65536 x 65536 x 1"}));
}

TEST(VerifyKernel, LimitsOfLaunchAndMemory) {
  EXPECT_TRUE(accepted(Empty("k", {.threads = 256, .min_blocks = 8}).finish()));
  EXPECT_TRUE(refused(Empty("k", {.threads = 256, .min_blocks = 9}).finish(), {"9 blocks of 256 threads per SM"}));
  EXPECT_TRUE(accepted(Empty("k", {.threads = 32, .max_registers = 255}).finish()));
  EXPECT_TRUE(refused(Empty("k", {.threads = 32, .max_registers = 256}).finish(), {"256 registers"}));
  EXPECT_TRUE(accepted(Empty("k", {.threads = 32, .cluster = 8, .cluster_y = 2}).finish()));
  EXPECT_TRUE(
      refused(Empty("k", {.threads = 32, .cluster = 6, .cluster_y = 3}).finish(), {"a cluster of 6 x 3 x 1 blocks"}));
  EXPECT_TRUE(refused(Empty("k", {.threads = 32, .cluster = 0}).finish(), {"a cluster of 0 x 1 x 1"}));
  Kernel k = Empty("k", 32).finish();
  k.args_bytes = 4096;
  EXPECT_TRUE(accepted(k));
  k.args_bytes = 4097;
  EXPECT_TRUE(refused(k, {"4097 bytes of arguments; at most 4096"}));
  k.args_bytes = 0;
  k.constants.resize(65536);
  EXPECT_TRUE(accepted(k));
  k.constants.resize(65537);
  EXPECT_TRUE(refused(k, {"65537 bytes of constants"}));
  k.constants.clear();
  k.shared_align = 48;
  EXPECT_TRUE(refused(k, {"shared memory aligned to 48"}));
  k.shared_align = 16;
  k.args_align = 0;
  EXPECT_TRUE(refused(k, {"arguments aligned to 0"}));
}

TEST(VerifyKernel, RegistersHoldNoBytes) {
  Kernel k = Empty("k", 32).finish();
  k.regs = {Type::u32, Type::s8};
  EXPECT_TRUE(refused(k, {"register 1 is s8", "widened to 32 bits"}));
  k.regs = {Type::none};
  EXPECT_TRUE(refused(k, {"register 0"}));
}

// --- what the C++ types already prevent ----------------------------------------------------------------------------
template <class A, class B>
concept CanAdd = requires(A a, B b) {
  a + b;
};
static_assert(CanAdd<F32, F32> && CanAdd<Shared<float>, U32>);
static_assert(!CanAdd<F32, Shared<float>>, "an address in shared memory is no operand of add");
static_assert(!CanAdd<F32, U32>, "types do not mix");

TEST(VerifyMistakes, TheBuilderLetsPassWhatVerifyCatches) {
  {
    Empty k("exchange_in_a_warp", 32);
    warp_reduce(Atomic::exch, k.lane());
    EXPECT_TRUE(refused(k.finish(), {AT(__LINE__ - 1), "redux.u32: exch is not a reduction of a warp"}));
  }
  {
    Empty k("barrier_of_33", 64);
    k.barrier(1, 33);
    EXPECT_TRUE(refused(k.finish(), {AT(__LINE__ - 1), "barrier: 33 threads"}));
  }
  {
    Builder<Pointers> k("atomic_maximum_of_floats", 32);
    reduce(Atomic::max, k.arg(&Pointers::x), 1.0f);
    EXPECT_TRUE(refused(k.finish(), {AT(__LINE__ - 1), "no atomic max on f32"}));
  }
}

// --- definitions ---------------------------------------------------------------------------------------------------
TEST(VerifyScope, AValueOfABranchEndsWithIt) {
  Empty k("leak", 32);
  U32 inner;
  Pred p = k.lane() < 4u;
  k.when(p, [&] { inner = k.lane() + 1u; });
  inner + 1u;
  EXPECT_TRUE(refused(k.finish(), {AT(__LINE__ - 1), "add.u32", "reads register", "may not have been written"}));
}

TEST(VerifyScope, AVarSetInABranchIsDefined) {
  Empty k("var", 32);
  auto v = k.var(0u);
  k.when(k.lane() < 4u, [&] { v = k.lane(); });
  v.get() + 1u;
  EXPECT_TRUE(accepted(k.finish()));
}

TEST(VerifyScope, BothBranchesDefineOneDoesNot) {
  Empty k("branches", 32);
  auto v = k.var(0u);
  k.when_else(
      k.lane() < 4u, [&] { v = 1u; }, [&] { v = 2u; });
  v.get() + 1u;
  Kernel both = k.finish();
  both.body.erase(both.body.begin());  // the initial value: now only the branches write v
  EXPECT_TRUE(accepted(both));
  Kernel one = both;
  find(one, Op::when).otherwise.clear();
  EXPECT_TRUE(refused(one, {"may not have been written"}));
  find(both, Op::when).body.clear();
  EXPECT_TRUE(refused(both, {"may not have been written"}));
}

TEST(VerifyScope, LoopHeadsCountAfterTheLoopBodiesDoNot) {
  for (bool from_head : {true, false}) {
    Empty k("loop", 32);
    U32 head, body;
    auto i = k.var(0u);
    k.loop_while([&] { return (head = i.get()) < 4u; },
                 [&] {
                   body = head * 2u;
                   i += 1u;
                 });
    (from_head ? head : body) + 1u;
    if (from_head)
      EXPECT_TRUE(accepted(k.finish()));
    else
      EXPECT_TRUE(refused(k.finish(), {AT(__LINE__ - 4), "may not have been written"}));
  }
}

TEST(VerifyScope, AHeadRunsBeforeItsBody) {
  Empty k("head", 32);
  auto i = k.var(0u);
  U32 body = k.constant(0u);
  k.loop_while([&] { return i.get() < 4u; }, [&] { body = i.get() + 1u; });
  Kernel good = k.finish();
  EXPECT_TRUE(accepted(good));
  find(good, Op::set).src[1] = body.op;  // the head compares with what the body makes
  EXPECT_TRUE(refused(good, {"setp.lt.u32", "may not have been written"}));
}

TEST(VerifyScope, AnAccumulatorIsReadUnlessItIsOverwritten) {
  Empty k("acc", 128);
  GroupAcc<float, 8> acc(k);
  auto tile = k.shared<f16>(1024, 128);
  U64 d = matrix_descriptor(tile, 128, 256, Swizzle::none);
  wgmma<f16>(acc, d, d, false);
  wgmma_commit(k);
  wgmma_wait(k, 0);
  Kernel kernel = k.finish();
  kernel.body.erase(kernel.body.begin());  // one register of the accumulator is not initialised
  EXPECT_TRUE(accepted(kernel));
  find(kernel, Op::wgmma).src.back() = immediate(true);
  EXPECT_TRUE(refused(kernel, {"wgmma.mma_async", "may not have been written"}));
}

// --- uniformity ----------------------------------------------------------------------------------------------------
TEST(VerifyUniform, BarrierUnderACondition) {
  struct Row {
    const char* name;
    std::function<Pred(Builder<Pointers>&)> condition;
    bool block, warp;  // may a block barrier, may a shuffle stand under it?
  };
  const Row table[] = {
      {"argument", [](auto& k) { return k.arg(&Pointers::rows) > 4u; }, true, true},
      {"grid", [](auto& k) { return k.grid_x() > 4u; }, true, true},
      {"block", [](auto& k) { return k.block_id() < k.arg(&Pointers::rows); }, true, true},
      {"group", [](auto& k) { return k.group() == 0u; }, false, true},
      {"warp", [](auto& k) { return k.warp() == 0u; }, false, true},
      {"lane", [](auto& k) { return k.lane() == 0u; }, false, false},
      {"thread", [](auto& k) { return k.thread() < 64u; }, false, false},
      {"rows of warps", [](auto& k) { return k.block_id() * 8u + k.warp() < k.arg(&Pointers::rows); }, false, true},
      {"memory", [](auto& k) { return load(k.arg(&Pointers::x)) > 0.0f; }, false, false},
      {"read-only memory", [](auto& k) { return load(k.arg(&Pointers::x) + k.block_id(), {.nc = true}) > 0.0f; }, true,
       true},
      {"read-only memory per warp", [](auto& k) { return load(k.arg(&Pointers::x) + k.warp(), {.nc = true}) > 0.0f; },
       false, true},
      {"constants",
       [](auto& k) {
         return load(k.template constants<float>({1, 2}).offset(1)) > 0.0f;
       },
       true, true},
      {"promise", [](auto& k) { return k.assume_uniform(load(k.arg(&Pointers::x))) > 0.0f; }, true, true},
      {"promise per warp", [](auto& k) { return k.assume_uniform(k.lane(), Uniform::warp) > 0u; }, false, true},
      {"promise that worsens nothing", [](auto& k) { return k.assume_uniform(k.block_id(), Uniform::warp) > 0u; }, true,
       true},
      {"atomic", [](auto& k) { return atomic_add(k.arg(&Pointers::x), 1.0f) > 0.0f; }, false, false},
      {"vote", [](auto& k) { return vote_any(k.lane() == 3u); }, false, true},
      {"vote of the block's", [](auto& k) { return vote_any(k.block_id() == 3u); }, true, true},
      {"ballot", [](auto& k) { return ballot(k.lane() == 3u) == 8u; }, false, true},
      {"redux", [](auto& k) { return warp_reduce(Atomic::max, k.lane()) > 3u; }, false, true},
      {"match all", [](auto& k) { return match_all(k.lane()).all; }, false, true},
      {"match any", [](auto& k) { return match_any(k.lane()) > 3u; }, false, false},
      {"elect", [](auto& k) { return k.elect_one(); }, false, false},
      {"active mask", [](auto& k) { return k.active_mask() == 1u; }, false, false},
      {"barrier reduction", [](auto& k) { return k.barrier_any(k.lane() == 3u); }, true, true},
      {"barrier count", [](auto& k) { return k.barrier_count(k.lane() == 3u) > 3u; }, true, true},
      {"broadcast", [](auto& k) { return shuffle(k.lane(), 0u) > 3u; }, false, true},
      {"broadcast in segments", [](auto& k) { return shuffle(k.lane(), 0u, 16) > 3u; }, false, false},
      {"shuffle from a lane of each", [](auto& k) { return shuffle(k.lane() * 2u, k.lane()) > 3u; }, false, false},
      {"shuffle down", [](auto& k) { return shuffle_down(k.lane(), 1u) > 3u; }, false, false},
      {"shuffle of the block's", [](auto& k) { return shuffle_xor(k.block_id(), 1u) > 3u; }, true, true},
      {"range of a broadcast", [](auto& k) { return shuffle_checked(ShuffleMode::idx, k.lane(), 3u).in_range; }, true,
       true},
      {"range of the block's", [](auto& k) { return shuffle_checked(ShuffleMode::up, k.block_id(), 3u).in_range; },
       false, false},
      {"clock", [](auto& k) { return k.clock() > uint64_t(3); }, false, false},
      {"multiprocessor", [](auto& k) { return k.special(Special::smid) > 3u; }, true, true},
  };
  for (const Row& row : table) {
    for (bool in_block : {true, false}) {
      Builder<Pointers> k("conditional", 256);
      Pred p = row.condition(k);
      const uint32_t line = __LINE__ + 1;
      k.when(p, [&] { in_block ? k.barrier() : k.warp_sync(); });
      if (in_block ? row.block : row.warp)
        EXPECT_TRUE(accepted(k.finish())) << row.name;
      else
        EXPECT_TRUE(refused(k.finish(), {AT(line),
                                         in_block ? "bar.sync: must be reached by the whole block"
                                                  : "bar.warp.sync: must be reached by all lanes of a warp",
                                         fmt::format("the when at {}:{} may go differently", __FILE__, line)}))
            << row.name;
    }
  }
}

TEST(VerifyUniform, EveryWarpWideInstructionNeedsItsWarp) {
  using K = Builder<Pointers>;
  const std::function<void(K&)> warp_wide[] = {
      [](K& k) { k.warp_sync(); },
      [](K& k) { shuffle_xor(k.lane(), 1u); },
      [](K& k) { vote_all(k.lane() < 3u); },
      [](K& k) { match_any(k.lane()); },
      [](K& k) { warp_reduce(Atomic::add, k.lane()); },
      [](K& k) { k.elect_one(); },
      [](K& k) { k.barrier(1, 64); },
      [](K& k) { k.barrier_arrive(1, 64); },
      [](K& k) { load_matrices<1>(k.shared<f16>(64)); },
      [](K& k) { store_matrices<1>(k.shared<f16>(64), {k.lane()}); },
      [](K& k) {
        Acc<float, 16, 8> d(k);
        Tile<f16, 16, 8> a{{k.lane(), k.lane()}};
        Tile<f16, 8, 8> b{{k.lane()}};
        mma(d, a, b);
      },
  };
  for (const auto& emit : warp_wide) {
    K lanes("lanes", 256), warps("warps", 256);
    lanes.when(lanes.lane() < 3u, [&] { emit(lanes); });
    EXPECT_TRUE(refused(lanes.finish(), {__FILE__, "must be reached by all lanes of a warp", "from lane to lane"}));
    warps.when(warps.warp() < 3u, [&] { emit(warps); });
    EXPECT_TRUE(accepted(warps.finish()));
  }
}

TEST(VerifyUniform, BlockAndClusterWideInstructions) {
  const std::function<void(Empty&)> block_wide[] = {[](Empty& k) { k.barrier(); },
                                                    [](Empty& k) { k.barrier_any(k.lane() == 0u); }};
  for (const auto& emit : block_wide) {
    Empty warps("warps", 256), blocks("blocks", 256);
    warps.when(warps.warp() < 3u, [&] { emit(warps); });
    EXPECT_TRUE(refused(warps.finish(), {"must be reached by the whole block", "from warp to warp"}));
    blocks.when(blocks.block_id() < 3u, [&] { emit(blocks); });
    EXPECT_TRUE(accepted(blocks.finish()));
  }
  for (bool arrive : {true, false}) {
    auto emit = [&](Empty& k) { arrive ? k.cluster_arrive() : k.cluster_wait(); };
    Empty ranks("ranks", {.threads = 64, .cluster = 2}), clusters("clusters", {.threads = 64, .cluster = 2});
    ranks.when(ranks.cluster_rank() == 0u, [&] { emit(ranks); });
    EXPECT_TRUE(refused(ranks.finish(), {"must be reached by the whole cluster", "from block to block"}));
    clusters.when(clusters.special(Special::clusterid_x) == 0u, [&] { emit(clusters); });
    EXPECT_TRUE(accepted(clusters.finish()));
  }
}

TEST(VerifyUniform, GroupWideInstructions) {
  const std::function<void(Empty&)> group_wide[] = {[](Empty& k) { wgmma_fence(k); },
                                                    [](Empty& k) { wgmma_commit(k); },
                                                    [](Empty& k) { wgmma_wait(k, 0); },
                                                    [](Empty& k) { release_registers(k, 40); },
                                                    [](Empty& k) { take_registers(k, 232); },
                                                    [](Empty& k) {
                                                      GroupAcc<float, 8> acc(k);
                                                      U64 d = matrix_descriptor(k.shared<f16>(1024, 128), 128, 256,
                                                                                Swizzle::none);
                                                      wgmma<f16>(acc, d, d, true);
                                                      wgmma_commit(k);
                                                      wgmma_wait(k, 0);
                                                    }};
  for (const auto& emit : group_wide) {
    Empty warps("warps", 256), groups("groups", 256);
    warps.when(warps.warp() < 3u, [&] { emit(warps); });
    EXPECT_TRUE(refused(warps.finish(), {"must be reached by all four warps of a group", "from warp to warp"}));
    groups.when(groups.group() == 1u, [&] { emit(groups); });
    EXPECT_TRUE(accepted(groups.finish()));
  }
}

TEST(VerifyUniform, DescriptorsAreTheGroups) {
  for (bool per_group : {true, false}) {
    Empty k("descriptor", 256);
    GroupAcc<float, 8> acc(k);
    auto tiles = k.shared<f16>(8192, 128);
    U64 d = matrix_descriptor(tiles + (per_group ? k.group() : k.warp()) * 512u, 128, 256, Swizzle::none);
    const uint32_t line = __LINE__ + 1;
    wgmma<f16>(acc, d, d, true);
    wgmma_commit(k);
    wgmma_wait(k, 0);
    if (per_group)
      EXPECT_TRUE(accepted(k.finish()));
    else
      EXPECT_TRUE(refused(k.finish(),
                          {AT(line), "source 0 must be the same for all four warps of a group", "from warp to warp"}));
  }
  Empty k("scale", 128);
  GroupAcc<float, 8> acc(k);
  U64 d = matrix_descriptor(k.shared<f16>(1024, 128), 128, 256, Swizzle::none);
  wgmma<f16>(acc, d, d, k.lane() == 0u);
  wgmma_commit(k);
  wgmma_wait(k, 0);
  EXPECT_TRUE(refused(k.finish(), {"source 2 must be the same", "from lane to lane"}));
}

TEST(VerifyUniform, ABarrierInALoopWithATripCountPerWarp) {
  for (bool per_warp : {true, false}) {
    Builder<Pointers> k("rows", 128);
    U32 first = per_warp ? k.warp() : k.block_id();
    const uint32_t line = __LINE__ + 1;
    k.loop(first, k.arg(&Pointers::rows), 4u, [&](U32) { k.barrier(); });
    if (per_warp)
      EXPECT_TRUE(refused(k.finish(), {AT(line), "bar.sync", "the loop at", "from warp to warp"}));
    else
      EXPECT_TRUE(accepted(k.finish()));
  }
}

TEST(VerifyUniform, ALoopHeadRunsUnderItsOwnCondition) {
  for (bool uniform : {true, false}) {
    Empty k("head", 128);
    auto i = k.var(uniform ? k.block_id() : k.lane());
    k.loop_while(
        [&] {
          shuffle_xor(k.lane(), 1u);
          return i.get() < 4u;
        },
        [&] { i += 1u; });
    if (uniform)
      EXPECT_TRUE(accepted(k.finish()));
    else
      EXPECT_TRUE(refused(k.finish(), {"shfl.sync", "the loop at", "from lane to lane"}));
  }
}

TEST(VerifyUniform, AVarIsAsUniformAsTheConditionsItIsWrittenUnder) {
  Empty k("var", 128);
  auto v = k.var(0u);
  k.when(k.lane() == 3u, [&] { v = 1u; });  // the value is constant, who writes it is not
  k.when(v.get() == 1u, [&] { k.barrier(); });
  EXPECT_TRUE(refused(k.finish(), {AT(__LINE__ - 1), "bar.sync", "from lane to lane"}));

  Empty good("var", 128);
  auto w = good.var(0u);
  good.when(good.block_id() == 3u, [&] { w = 1u; });
  good.when(w.get() == 1u, [&] { good.barrier(); });
  EXPECT_TRUE(accepted(good.finish()));
}

TEST(VerifyUniform, AVarIsAsUniformAsTheTripCount) {
  for (bool uniform : {true, false}) {
    Empty k("trips", 128);
    auto n = k.var(0u);
    k.loop(uniform ? k.block_id() : k.warp(), 8u, 1u, [&](U32) { n += 1u; });
    k.when(n.get() > 3u, [&] { k.barrier(); });
    if (uniform)
      EXPECT_TRUE(accepted(k.finish()));
    else
      EXPECT_TRUE(refused(k.finish(), {AT(__LINE__ - 4), "bar.sync", "from warp to warp"}));
  }
}

// The level travels backwards through the loop: a is read before b is written, and becomes lane only in a later round.
TEST(VerifyUniform, LevelsGoAroundLoopsUntilTheySettle) {
  Empty k("around", 128);
  auto a = k.var(0u), b = k.var(0u), c = k.var(0u);
  k.loop(0u, 8u, 1u, [&](U32) {
    k.when(a.get() == 1u, [&] { k.barrier(); });
    a = b.get();
    b = c.get();
    c = k.lane();
  });
  EXPECT_TRUE(refused(k.finish(), {AT(__LINE__ - 5), "bar.sync", "from lane to lane"}));
}

TEST(VerifyUniform, AfterAPollEveryoneIsTogetherAgain) {
  Empty k("poll", 128);
  auto done = mbarrier(k);
  k.when(k.thread() == 0u, [&] { done.init(1u); });
  k.barrier();
  k.when(k.thread() == 0u, [&] { done.arrive(); });
  done.wait(k, 0u);
  k.barrier();
  warp_sum(k.lane());
  EXPECT_TRUE(accepted(k.finish()));

  Empty inside("poll_inside", 128);
  auto other = mbarrier(inside);
  inside.loop_while([&] { return !other.try_wait(0u); }, [&] { inside.barrier(); });
  EXPECT_TRUE(refused(inside.finish(), {AT(__LINE__ - 1), "bar.sync", "the loop at"}));
}

TEST(VerifyUniform, OneWarpIsTheWholeBlock) {
  for (uint32_t threads : {32u, 64u}) {
    Empty k("one_warp", threads);
    k.when(ballot(k.lane() < 4u) == 15u, [&] { k.barrier(); });
    if (threads == 32)
      EXPECT_TRUE(accepted(k.finish()));
    else
      EXPECT_TRUE(refused(k.finish(), {"bar.sync"}));
  }
}

TEST(VerifyUniform, WarpNumbersNeedWholeWarpsInARow) {
  for (uint32_t x : {16u, 32u}) {
    Empty k("rows", {.threads = x, .threads_y = 64 / x});
    k.when(k.warp() == 0u, [&] { k.warp_sync(); });
    if (x == 32)
      EXPECT_TRUE(accepted(k.finish()));
    else
      EXPECT_TRUE(refused(k.finish(), {"bar.warp.sync", "from lane to lane"}));  // tid.x / 32 of a row of 16
  }
}

// --- mistakes that were made, each in kernels that ran --------------------------------------------------------------
TEST(VerifyMistakes, WarpsWithoutARowLeaveBeforeTheBarrier) {
  for (bool leaves : {true, false}) {
    Builder<Pointers> k("chunked", 128);
    U32 row = k.block_id() * 4u + k.warp();
    auto tile = k.shared<float>(128);
    auto work = [&] {
      store(tile + k.thread(), load(k.arg(&Pointers::x) + row));
      if (leaves) k.barrier();
    };
    k.when(row < k.arg(&Pointers::rows), work);
    if (!leaves) k.barrier();
    if (leaves)
      EXPECT_TRUE(
          refused(k.finish(), {AT(__LINE__ - 5), "bar.sync: must be reached by the whole block", "from warp to warp"}));
    else
      EXPECT_TRUE(accepted(k.finish()));
  }
}

TEST(VerifyMistakes, ASumOverLanesThatAreNotThere) {
  for (bool guarded : {true, false}) {
    Builder<Pointers> k("sum", 128);
    U32 i = k.thread();
    auto x = k.arg(&Pointers::x);
    Pred there = i < k.arg(&Pointers::cols);
    const uint32_t line = __LINE__ + 2;
    if (guarded) {
      k.when(there, [&] { store(k.arg(&Pointers::y), warp_sum(load(x + i))); });
      EXPECT_TRUE(refused(
          k.finish(), {"shfl.sync", "must be reached by all lanes", fmt::format("the when at {}:{}", __FILE__, line)}));
    } else {
      auto v = k.var(0.0f);
      k.when(there, [&] { v = load(x + i); });
      F32 sum = warp_sum(v.get());
      k.when(k.lane() == 0u, [&] { store(k.arg(&Pointers::y), sum); });
      EXPECT_TRUE(accepted(k.finish()));
    }
  }
}

TEST(VerifyMistakes, EveryLaneOverwritesTheMaximum) {
  // shuffle-down leaves the maximum in lane 0 only: a branch of the whole warp on it is not the warp's.
  Builder<Pointers> k("maximum", 32);
  F32 m = load(k.arg(&Pointers::x) + k.lane());
  for (uint32_t by = 16; by; by /= 2) m = max(m, shuffle_down(m, by));
  k.when(m > 0.0f, [&] { k.warp_sync(); });
  EXPECT_TRUE(refused(k.finish(), {AT(__LINE__ - 1), "bar.warp.sync", "from lane to lane"}));
}

// --- addresses -----------------------------------------------------------------------------------------------------
TEST(VerifyAddress, OffsetsAreMultiplesOfTheAccess) {
  struct Row {
    int64_t bytes;
    bool one, four;  // one float, four at once
  };
  for (const Row& row : {Row{0, true, true},
                         {16, true, true},
                         {-32, true, true},
                         {4, true, false},
                         {8, true, false},
                         {2, false, false}}) {
    for (bool four : {false, true}) {
      Builder<Pointers> k("offset", 32);
      auto x = k.arg(&Pointers::x);
      x.bytes = row.bytes;
      const uint32_t line = __LINE__ + 1;
      four ? void(load_vec<4>(x)) : void(load(x));
      if (four ? row.four : row.one)
        EXPECT_TRUE(accepted(k.finish()));
      else
        EXPECT_TRUE(refused(k.finish(), {AT(line), "ld.global",
                                         fmt::format("base + {} is not a multiple of {}", row.bytes, four ? 16 : 4)}));
    }
  }
}

TEST(VerifyAddress, WhatAnIndexAddsIsKnownByItsStep) {
  Builder<Pointers> k("step", 32);
  auto x = k.arg(&Pointers::x) + k.lane();
  load_vec<4>(x.offset(1));  // lane may be 3, 7, ...
  EXPECT_TRUE(accepted(k.finish()));

  Builder<Pointers> odd("odd", 32);
  auto y = (odd.arg(&Pointers::x) + odd.lane()).as<uint8_t>() + 2u;
  load(y.as<float>());
  EXPECT_TRUE(refused(odd.finish(), {AT(__LINE__ - 1), "base + 2 + n * 4 is not a multiple of 4"}));

  Empty bytes("bytes", 32);
  auto tile = bytes.shared<uint8_t>(256);
  load((tile + (bytes.lane() << 3)).offset(4).as<float>());
  load((tile + (bytes.lane() & 0xfcu)).as<float>());
  load((tile + bytes.lane()).as<float>());  // nothing is known
  Kernel good = bytes.finish();
  EXPECT_TRUE(accepted(good));
  find(good, Op::load).offset = 6;
  EXPECT_TRUE(refused(good, {"ld.shared", "shared memory + 6 + n * 8 is not a multiple of 4"}));
}

TEST(VerifyAddress, SharedAddressesAreFollowed) {
  Empty k("shared", 32);
  k.shared<uint8_t>(8, 8);
  auto odd = k.shared<uint8_t>(24, 1);  // bytes 8 to 32
  store(odd.as<uint64_t>(), uint64_t(0));
  EXPECT_TRUE(accepted(k.finish()));

  Empty vec("vec", 32);
  vec.shared<uint8_t>(8, 8);
  load_vec<4>(vec.shared<uint8_t>(24, 1).as<float>());
  EXPECT_TRUE(refused(vec.finish(), {AT(__LINE__ - 1), "shared memory + 8 is not a multiple of 16"}));
}

TEST(VerifyAddress, KnownAddressesAreInside) {
  for (uint32_t i : {31u, 32u}) {
    Empty k("inside", 32);
    auto tile = k.shared<float>(32);
    const uint32_t line = __LINE__ + 1;
    store(tile + i, 1.0f);
    if (i < 32)
      EXPECT_TRUE(accepted(k.finish()));
    else
      EXPECT_TRUE(
          refused(k.finish(), {AT(line), "st.shared", "4 bytes at byte 128 of the shared memory, which have 128"}));
  }
  Empty before("before", 32);
  auto tile = before.shared<float>(32);
  store(Shared<float>{(tile.offset(-1)).address()}, 1.0f);
  EXPECT_TRUE(refused(before.finish(), {"4 bytes at byte -4 of the shared memory"}));

  for (uint32_t i : {3u, 4u}) {
    Empty k("constants", 32);
    auto table = k.constants<uint32_t>({1, 2, 3, 4});
    load(table + i);
    if (i < 4)
      EXPECT_TRUE(accepted(k.finish()));
    else
      EXPECT_TRUE(refused(k.finish(), {"ld.const", "4 bytes at byte 16 of the constants, which have 16"}));
  }

  Builder<Pointers> args("args", 32);
  args.arg(&Pointers::cols);
  Kernel k = args.finish();
  EXPECT_TRUE(accepted(k));
  find(k, Op::load).offset = sizeof(Pointers);
  EXPECT_TRUE(refused(k, {"ld.param", "4 bytes at byte 24 of the arguments, which have 24"}));
  find(k, Op::load).offset = 2;
  EXPECT_TRUE(refused(k, {"arguments + 2 is not a multiple of 4"}));
}

TEST(VerifyAddress, AtomicsMatricesCopiesAndBarriersAreAligned) {
  struct Row {
    const char* name;
    uint32_t good, bad;  // bytes from the start of shared memory
    uint32_t align;
    std::function<void(Builder<Pointers>&, Shared<uint8_t>)> emit;
  };
  const Row table[] = {
      {"atom", 4, 2, 4, [](auto&, auto s) { atomic_add(s.template as<uint32_t>(), 1u); }},
      {"ldmatrix", 16, 8, 16, [](auto&, auto s) { load_matrices<1>(s.template as<f16>()); }},
      {"stmatrix", 16, 8, 16, [](auto& k, auto s) { store_matrices<1>(s.template as<f16>(), {k.constant(0u)}); }},
      {"cp.async", 8, 4, 8,
       [](auto& k, auto s) { copy_async<8>(s, k.arg(&Pointers::x)), copy_commit(k), copy_wait(k, 0); }},
      {"cp.async.bulk", 16, 8, 16,
       [](auto& k, auto s) { bulk_store(k.arg(&Pointers::x), s, 32u), bulk_commit(k), bulk_wait(k, 0); }},
      {"mbarrier.init", 8, 4, 8, [](auto&, auto s) { Mbarrier{s.template as<uint64_t>()}.init(1u); }},
      {"mbarrier.try_wait", 8, 12, 8, [](auto&, auto s) { Mbarrier{s.template as<uint64_t>()}.try_wait(1u); }},
  };
  for (const Row& row : table)
    for (bool good : {true, false}) {
      Builder<Pointers> k("aligned", 32);
      auto memory = k.shared<uint8_t>(64);
      row.emit(k, memory + (good ? row.good : row.bad));
      if (good)
        EXPECT_TRUE(accepted(k.finish())) << row.name;
      else
        EXPECT_TRUE(refused(
            k.finish(),
            {__FILE__, row.name, fmt::format("shared memory + {} is not a multiple of {}", row.bad, row.align)}));
    }
  Builder<Pointers> k("outside", 32);
  bulk_store(k.arg(&Pointers::x), k.shared<uint8_t>(64), 80u), bulk_commit(k), bulk_wait(k, 0);
  EXPECT_TRUE(refused(k.finish(), {"cp.async.bulk", "80 bytes at byte 0 of the shared memory"}));
}

struct alignas(64) MapArgs {
  TensorMap map;
  DevicePtr<float> x;
};

TEST(VerifyAddress, TensorCopiesWantSharedMemoryAlignedTo128) {
  for (uint32_t align : {128u, 16u}) {
    Builder<MapArgs> k("tensor", 32);
    auto tile = k.shared<float>(256, align);
    auto done = mbarrier(k);
    S32 zero = k.constant(0);
    const uint32_t line = __LINE__ + 1;
    tensor_load(tile, k.arg(&MapArgs::map), Vec<int32_t, 1>{zero}, done);
    done.wait(k, 0u);
    if (align == 128)
      EXPECT_TRUE(accepted(k.finish()));
    else
      EXPECT_TRUE(
          refused(k.finish(), {AT(line), "needs shared memory aligned to 128 bytes, the kernel's is aligned to 16"}));
  }
}

TEST(VerifyAddress, ArgumentsAndConstantsKeepTheirSpace) {
  Builder<MapArgs> k("map", 32);
  load(Global<float>{k.arg(&MapArgs::map)});
  EXPECT_TRUE(refused(k.finish(), {AT(__LINE__ - 1), "the address of an argument is for tensor copies"}));
  Empty c("constant", 32);
  load(Global<float>{c.constants<float>({1, 2}).address()});
  EXPECT_TRUE(refused(c.finish(), {AT(__LINE__ - 1), "an address of the constants is used in another space"}));
}

// --- waits ---------------------------------------------------------------------------------------------------------
TEST(VerifyWaits, CopiesAreWaitedFor) {
  for (int waited : {0, 1, 2, 3}) {
    Builder<Pointers> k("copy", 32);
    auto tile = k.shared<float>(128);
    auto done = mbarrier(k);
    const uint32_t line = __LINE__ + 1;
    copy_async<16>(tile + k.lane() * 4u, k.arg(&Pointers::x) + k.lane() * 4u);
    if (waited == 1) copy_commit(k), copy_wait(k, 0);
    if (waited == 2) done.arrive_after_copies(), done.wait(k, 0u);
    if (waited == 3) copy_wait(k, 0);  // waits for groups, and there is none
    if (waited == 1 || waited == 2)
      EXPECT_TRUE(accepted(k.finish()));
    else
      EXPECT_TRUE(refused(k.finish(), {AT(line), "cp.async.cg", "nothing in the kernel waits for it"}));
  }
}

TEST(VerifyWaits, BulkCopiesAndMatrixProductsAreWaitedFor) {
  for (bool waited : {true, false}) {
    Builder<Pointers> load("load", 32), store("store", 32), product("product", 128);
    auto done = mbarrier(load);
    bulk_load(load.shared<float>(32), load.arg(&Pointers::x), 128u, done);
    if (waited) done.wait(load, 0u);

    bulk_store(store.arg(&Pointers::x), store.shared<float>(32), 128u);
    bulk_commit(store);
    if (waited) bulk_wait(store, 0);

    GroupAcc<float, 8> acc(product);
    U64 d = matrix_descriptor(product.shared<f16>(1024, 128), 128, 256, Swizzle::none);
    wgmma<f16>(acc, d, d, true);
    wgmma_commit(product);
    if (waited) wgmma_wait(product, 0);

    if (waited) {
      for (auto* k : {&load, &store, &product}) EXPECT_TRUE(accepted(k->finish()));
    } else {
      EXPECT_TRUE(refused(load.finish(), {__FILE__, "cp.async.bulk", "expected a wait on its mbarrier"}));
      EXPECT_TRUE(refused(store.finish(), {__FILE__, "cp.async.bulk", "expected bulk_commit and bulk_wait"}));
      EXPECT_TRUE(refused(product.finish(), {__FILE__, "wgmma.mma_async", "expected wgmma_commit and wgmma_wait"}));
    }
  }
}

// --- targets -------------------------------------------------------------------------------------------------------
TEST(VerifyTarget, InstructionsNeedTheirGpu) {
  Empty k("matrix", 128);
  const uint32_t line = __LINE__ + 1;
  wgmma_fence(k);
  const Kernel kernel = k.finish();
  EXPECT_TRUE(accepted(kernel, &target("sm_90a")));
  for (const char* name : {"sm_80", "sm_90", "sm_100a"})
    EXPECT_TRUE(refused(kernel, {AT(line), "wgmma.fence.sync.aligned: needs sm_90a", fmt::format("target is {}", name)},
                        &target(name)));

  Empty redux("redux", 32);
  redux.when(redux.block_id() == 0u, [&] { warp_reduce(Atomic::add, redux.lane()); });
  const Kernel inner = redux.finish();
  EXPECT_TRUE(accepted(inner, &target("sm_80")));
  EXPECT_TRUE(refused(inner, {AT(__LINE__ - 3), "redux.sync.add.u32: needs sm_80, target is sm_75"}, &target("sm_75")));
}

TEST(VerifyTarget, ClustersAndSharedMemory) {
  const Kernel cluster = Empty("cluster", {.threads = 32, .cluster = 2}).finish();
  EXPECT_TRUE(accepted(cluster, &target("sm_90")));
  EXPECT_TRUE(refused(cluster, {"a cluster of 2 blocks needs sm_90, target is sm_89"}, &target("sm_89")));
  Empty k("big", 32);
  k.shared<float>(25 * 1024);
  const Kernel big = k.finish();
  EXPECT_TRUE(accepted(big));
  EXPECT_TRUE(accepted(big, &target("sm_80")));
  EXPECT_TRUE(refused(big, {"102400 bytes of shared memory; a block has at most 101376 on sm_86"}, &target("sm_86")));
}

// --- any program ---------------------------------------------------------------------------------------------------
// A random kernel: pools of values of several types, every instruction applied to random members of its pools, loops
// and branches that are the block's, barriers and shuffles anywhere in them.
struct Random {
  explicit Random(uint32_t seed) : rng(seed), k("random", 128), x(k.arg(&Pointers::x)) {
    u = {k.lane(), k.block_id(), k.arg(&Pointers::rows), k.constant(7u)};
    f = {load(x), k.constant(1.5f)};
    p = {k.lane() < 3u};
    h = {k.constant(f16x2{0x3c003c00})};
    w = {widen(u[0])};
  }
  uint32_t upto(size_t n) { return uint32_t(rng() % n); }
  template <class T>
  T any(const std::vector<T>& pool) {
    return pool[upto(pool.size())];
  }
  void step(int depth) {
    switch (upto(24)) {
      case 0:
        u.push_back(any(u) + any(u));
        break;
      case 1:
        u.push_back(any(u) * 3u);
        break;
      case 2:
        u.push_back(any(u) / any(u));
        break;
      case 3:
        u.push_back((any(u) << any(u)) ^ any(u));
        break;
      case 4:
        u.push_back(bit_field(any(u), upto(32), upto(33)));
        break;
      case 5:
        u.push_back(select(any(p), any(u), any(u)));
        break;
      case 6:
        u.push_back(permute_bytes(any(u), any(u), 0x3210u));
        break;
      case 7:
        u.push_back(bitcast<uint32_t>(dp4a(any(u), any(u), 0)));
        break;
      case 8:
        f.push_back(fma(any(f), any(f), any(f)));
        break;
      case 9:
        f.push_back(any(f) / any(f));
        break;
      case 10:
        f.push_back(ex2_approx(any(f)) + sqrt(any(f)));
        break;
      case 11:
        f.push_back(to_f32(any(u)));
        break;
      case 12:
        h.push_back(to_f16x2(any(f), any(f)));
        break;
      case 13:
        h.push_back(fma(any(h), any(h), any(h)));
        break;
      case 14:
        u.push_back(bitcast<uint32_t>(any(h)));
        break;
      case 15:
        p.push_back(any(f) < any(f));
        break;
      case 16:
        p.push_back((any(u) == any(u)) | any(p));
        break;
      case 17:
        w.push_back(mad_wide(any(u), 5u, any(w)));
        break;
      case 18:
        f.push_back(shuffle_xor(any(f), 1u << upto(5)));
        break;
      case 19:
        u.push_back(ballot(any(p)));
        break;
      case 20:
        f.push_back(load(x + any(u), {.l1 = L1::no_allocate}));
        break;
      case 21:
        k.barrier();
        break;
      case 22:
        region(depth);
        break;
      default: {
        auto s = k.shared<float>(64);
        k.when(any(p), [&] { store(s + (k.lane() & 63u), any(f)); });
      }
    }
  }
  // What a region makes is forgotten after it.
  void region(int depth) {
    if (depth == 3) return;
    auto inner = [&] {
      const auto u0 = u;
      const auto f0 = f;
      const auto p0 = p;
      const auto h0 = h;
      const auto w0 = w;
      for (uint32_t n = upto(20); n; --n) step(depth + 1);
      u = u0, f = f0, p = p0, h = h0, w = w0;
    };
    auto sum = k.var(any(f));
    switch (upto(3)) {
      case 0:
        k.when(k.block_id() < any_uniform(), inner);
        break;
      case 1:
        k.when_else(k.block_id() < any_uniform(), inner, inner);
        break;
      default:
        k.loop(0u, any_uniform(), 1u, [&](U32) { inner(), sum += any(f); });
    }
    f.push_back(sum.get());
  }
  U32 any_uniform() { return upto(2) ? k.arg(&Pointers::cols) : k.block_id() + upto(9); }

  std::mt19937 rng;
  Builder<Pointers> k;
  Global<float> x;
  std::vector<U32> u;
  std::vector<F32> f;
  std::vector<Pred> p;
  std::vector<F16x2> h;
  std::vector<U64> w;
};

TEST(VerifyProperty, RandomKernelsOfTheBuilderVerify) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Random r(seed);
    for (int i = 0; i < 200; ++i) r.step(0);
    ASSERT_TRUE(accepted(r.k.finish(), &target("sm_80"))) << "seed " << seed;
  }
}

TEST(VerifyProperty, RandomKernelsWithABarrierForSomeLanesDoNot) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Random r(seed);
    for (int i = 0; i < 100; ++i) r.step(0);
    const uint32_t line = __LINE__ + 1;
    r.k.when(r.any(r.p) | (r.k.lane() == 0u), [&] { r.k.barrier(); });
    for (int i = 0; i < 100; ++i) r.step(0);
    ASSERT_TRUE(refused(r.k.finish(), {AT(line), "bar.sync"})) << "seed " << seed;
  }
}

TEST(VerifyProperty, LargeKernelsTakeMilliseconds) {
  Random r(1);
  while (r.k.kernel.regs.size() < 20000) r.step(0);
  const Kernel k = r.k.finish();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(accepted(k, &target("sm_80")));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", std::to_string(took.count() * 1000));
  EXPECT_LT(took.count(), 1.0);  // a hundred times what it takes: a sanitizer, a busy machine
}

}  // namespace
}  // namespace heddle::ptx
