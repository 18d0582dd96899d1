// What verify refuses about a kernel as a whole: sizes, definitions, waits, targets. Every rule has a kernel that
// breaks it and a neighbour that does not; verify_types_test.cpp, verify_uniform_test.cpp and verify_address_test.cpp
// have the rules about single instructions, conditions and addresses.
#include "ptx/verify.h"

#include "tests/ptx/refused.h"

namespace heddle::ptx {
namespace {

using Empty = Builder<NoArgs>;

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
  k.threads_x = 1;
  k.threads_y = 1;
  k.threads_z = 128;
  EXPECT_TRUE(refused(k, {"128 threads along z; at most 64"}));
  k.threads_x = k.threads_y = 65536;
  k.threads_z = 1;  // the product wraps to 0 in 32 bits
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
    EXPECT_TRUE(refused(k.finish(), {at(__LINE__ - 1), "redux.u32: exch is not a reduction of a warp"}));
  }
  {
    Empty k("barrier_of_33", 64);
    k.barrier(1, 33);
    EXPECT_TRUE(refused(k.finish(), {at(__LINE__ - 1), "barrier: 33 threads"}));
  }
  {
    Builder<Pointers> k("atomic_maximum_of_floats", 32);
    reduce(Atomic::max, k.arg(&Pointers::x), 1.0f);
    EXPECT_TRUE(refused(k.finish(), {at(__LINE__ - 1), "no atomic max on f32"}));
  }
}

// --- definitions ---------------------------------------------------------------------------------------------------
TEST(VerifyScope, AValueOfABranchEndsWithIt) {
  Empty k("leak", 32);
  U32 inner;
  Pred p = k.lane() < 4u;
  k.when(p, [&] { inner = k.lane() + 1u; });
  inner + 1u;
  EXPECT_TRUE(refused(k.finish(), {at(__LINE__ - 1), "add.u32", "reads register", "may not have been written"}));
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
      EXPECT_TRUE(refused(k.finish(), {at(__LINE__ - 4), "may not have been written"}));
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

// --- waits ---------------------------------------------------------------------------------------------------------
TEST(VerifyWaits, CopiesAreWaitedFor) {
  for (int waited : {0, 1, 2, 3}) {
    Builder<Pointers> k("copy", 32);
    auto tile = k.shared<float>(128);
    auto done = mbarrier(k);
    const uint32_t line = __LINE__ + 1;
    copy_async<16>(tile + k.lane() * 4u, k.arg(&Pointers::x) + k.lane() * 4u);
    if (waited == 1) {
      copy_commit(k);
      copy_wait(k, 0);
    }
    if (waited == 2) {
      done.arrive_after_copies();
      done.wait(k, 0u);
    }
    if (waited == 3) copy_wait(k, 0);  // waits for groups, and there is none
    if (waited == 1 || waited == 2)
      EXPECT_TRUE(accepted(k.finish()));
    else
      EXPECT_TRUE(refused(k.finish(), {at(line), "cp.async.cg", "nothing in the kernel waits for it"}));
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
    EXPECT_TRUE(refused(kernel, {at(line), "wgmma.fence.sync.aligned: needs sm_90a", fmt::format("target is {}", name)},
                        &target(name)));

  Empty redux("redux", 32);
  redux.when(redux.block_id() == 0u, [&] { warp_reduce(Atomic::add, redux.lane()); });
  const Kernel inner = redux.finish();
  EXPECT_TRUE(accepted(inner, &target("sm_80")));
  EXPECT_TRUE(refused(inner, {at(__LINE__ - 3), "redux.sync.add.u32: needs sm_80, target is sm_75"}, &target("sm_75")));
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

}  // namespace
}  // namespace heddle::ptx
