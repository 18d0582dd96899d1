// Which threads must agree on a condition for an instruction to stand under it.
#include <functional>

#include "tests/ptx/refused.h"

namespace heddle::ptx {
namespace {

using Empty = Builder<NoArgs>;

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
        EXPECT_TRUE(refused(k.finish(), {at(line),
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
                          {at(line), "source 0 must be the same for all four warps of a group", "from warp to warp"}));
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
      EXPECT_TRUE(refused(k.finish(), {at(line), "bar.sync", "the loop at", "from warp to warp"}));
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
  k.when(k.lane() == 3u, [&] { v = 1u; });  // the value is constant, the set of lanes that write it is not
  k.when(v.get() == 1u, [&] { k.barrier(); });
  EXPECT_TRUE(refused(k.finish(), {at(__LINE__ - 1), "bar.sync", "from lane to lane"}));

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
      EXPECT_TRUE(refused(k.finish(), {at(__LINE__ - 4), "bar.sync", "from warp to warp"}));
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
  EXPECT_TRUE(refused(k.finish(), {at(__LINE__ - 5), "bar.sync", "from lane to lane"}));
}

TEST(VerifyUniform, AfterAPollTheThreadsAreTogetherAgain) {
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
  EXPECT_TRUE(refused(inside.finish(), {at(__LINE__ - 1), "bar.sync", "the loop at"}));
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
    const uint32_t line = __LINE__ + 3;
    auto work = [&] {
      store(tile + k.thread(), load(k.arg(&Pointers::x) + row));
      if (leaves) k.barrier();
    };
    k.when(row < k.arg(&Pointers::rows), work);
    if (!leaves) k.barrier();
    if (leaves)
      EXPECT_TRUE(refused(k.finish(), {at(line), "bar.sync: must be reached by the whole block", "from warp to warp"}));
    else
      EXPECT_TRUE(accepted(k.finish()));
  }
}

TEST(VerifyMistakes, ASumOverInactiveLanes) {
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
  EXPECT_TRUE(refused(k.finish(), {at(__LINE__ - 1), "bar.warp.sync", "from lane to lane"}));
}

}  // namespace
}  // namespace heddle::ptx
