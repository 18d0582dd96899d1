// The matrix units in the interpreter: every case by value, and every misuse of wgmma by its report.
#include <gtest/gtest.h>

#include "ptx/verify.h"
#include "tests/ptx/cases/run.h"

namespace heddle::ptx {
namespace {

using cases::Case;
using heddle::f16;

const std::vector<Case>& matrix_cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> v;
    cases::add_matrix(v);
    return v;
  }();
  return all;
}

struct MatrixCase : testing::TestWithParam<size_t> {};  // index of the case
std::string name_of_product(const testing::TestParamInfo<size_t>& info) {
  std::string s = matrix_cases()[info.param].name;
  for (char& c : s)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = c == '-' ? 'm' : '_';
  return s;
}
TEST_P(MatrixCase, AgreesWithTripleLoop) {
  const Case& c = matrix_cases()[GetParam()];
  const uint32_t items = 4;
  const Kernel kernel = c.build();
  ASSERT_NO_THROW(verify(kernel, target("sm_90a")));
  const std::vector<uint8_t> in = make_inputs(c, items, 1), want = reference(c, in, items);
  for (uint64_t seed : {0, 1}) {
    const cases::Difference d = compare(c, in, interpret_case(c, kernel, in, items, {.seed = seed}), want, items);
    EXPECT_EQ(d.mismatches, 0u) << d.first;
  }
}
INSTANTIATE_TEST_SUITE_P(Matrix, MatrixCase, testing::Range(size_t(0), matrix_cases().size()), name_of_product);

// --- reports --------------------------------------------------------------------------------------------------------

struct OutOnly {
  DevicePtr<float> out;
};
// One warp group, a zero B tile (64 x 16 f16, no swizzle) and A tile in shared memory, fenced and ready.
struct GroupKernel : Builder<OutOnly> {
  GroupKernel() : GroupKernel(128) {}
  explicit GroupKernel(uint32_t threads) : Builder<OutOnly>("group", threads) {
    tile = shared<uint8_t>(4096, 1024);
    for (uint32_t i = 0; i < 4096; i += 4 * threads) store((tile + thread() * 4u).as<uint32_t>().offset(i / 4), 0u);
    fence_async_shared(*this);
    barrier();
    a = matrix_descriptor(tile, 128, 256, Swizzle::none);
    b = matrix_descriptor(tile, 128, 256, Swizzle::none);
  }
  template <class Acc>
  void store_first(const Acc& acc) {
    store(arg(&OutOnly::out) + thread(), acc.get(0));
  }
  Shared<uint8_t> tile;
  U64 a, b;
};

// The report, or "fine".
std::string outcome(Builder<OutOnly>& k, Report::Kind* kind = nullptr) {
  const Kernel kernel = k.finish();
  Memory memory;
  OutOnly args{memory.alloc<float>(256)};
  try {
    interpret(kernel, {1}, args, memory);
    return "fine";
  } catch (const Report& r) {
    if (kind) *kind = r.kind;
    return r.what();
  }
}
void expect_report(Builder<OutOnly>& k, Report::Kind kind, const std::string& words) {
  Report::Kind got{};
  const std::string what = outcome(k, &got);
  EXPECT_NE(what.find(words), std::string::npos) << what;
  EXPECT_EQ(int(got), int(kind)) << what;
}
void expect_fine(Builder<OutOnly>& k) { EXPECT_EQ(outcome(k), "fine"); }

using Kind = Report::Kind;

TEST(Wgmma, AGroupThatIsFencedCommittedAndWaitedForIsFine) {
  GroupKernel k;
  GroupAcc<float, 64> acc(k);
  wgmma_fence(k);
  wgmma<f16>(acc, k.a, k.b, false);
  wgmma<f16>(acc, k.a, k.b, true);  // the same accumulator, the same shape: nothing needed between
  wgmma_commit(k);
  wgmma_wait(k, 0);
  k.store_first(acc);
  expect_fine(k);
}
TEST(Wgmma, AccumulatorReadBeforeTheWaitIsReported) {
  GroupKernel k;
  GroupAcc<float, 64> acc(k);
  wgmma_fence(k);
  wgmma<f16>(acc, k.a, k.b, false);
  wgmma_commit(k);
  k.store_first(acc);
  wgmma_wait(k, 0);
  expect_report(k, Kind::not_waited, "reads an accumulator of the wgmma");
}
TEST(Wgmma, AccumulatorWrittenBeforeTheWaitIsReported) {
  GroupKernel k;
  GroupAcc<float, 64> acc(k);
  wgmma_fence(k);
  wgmma<f16>(acc, k.a, k.b, false);
  wgmma_commit(k);
  acc.set(5, 1.0f);
  wgmma_wait(k, 0);
  expect_report(k, Kind::not_waited, "writes an accumulator of the wgmma");
}
TEST(Wgmma, AWaitThatLeavesTheGroupUnderWayDoesNotCoverIt) {
  for (uint32_t remaining : {0u, 1u}) {
    GroupKernel k;
    GroupAcc<float, 64> acc(k), other(k);
    wgmma_fence(k);
    wgmma<f16>(acc, k.a, k.b, false);
    wgmma_commit(k);
    wgmma<f16>(other, k.a, k.b, false);
    wgmma_commit(k);
    wgmma_wait(k, 1);
    k.store_first(acc);  // of the older group
    wgmma_wait(k, remaining);
    k.store_first(other);
    if (remaining)
      expect_report(k, Kind::not_waited, "reads an accumulator of the wgmma");
    else
      expect_fine(k);
  }
}
TEST(Wgmma, WaitWithoutCommitIsReported) {
  GroupKernel k;
  GroupAcc<float, 64> acc(k);
  wgmma_fence(k);
  wgmma<f16>(acc, k.a, k.b, false);
  wgmma_wait(k, 0);
  k.store_first(acc);
  expect_report(k, Kind::not_waited, "no wgmma_commit");
}
TEST(Wgmma, FirstProductWithoutFenceIsReported) {
  GroupKernel k;
  GroupAcc<float, 64> acc(k);
  wgmma<f16>(acc, k.a, k.b, false);
  wgmma_commit(k);
  wgmma_wait(k, 0);
  expect_report(k, Kind::not_waited, "the first wgmma needs a wgmma_fence");
}
TEST(Wgmma, AccumulatorTouchedSinceTheFenceIsReported) {
  for (const char* touched : {"written", "read", "neither"}) {
    GroupKernel k;
    GroupAcc<float, 64> acc(k);
    wgmma_fence(k);
    wgmma<f16>(acc, k.a, k.b, false);
    wgmma_commit(k);
    wgmma_wait(k, 0);
    if (*touched == 'w') acc.set(0, 2.0f);
    if (*touched == 'r') k.store_first(acc);
    wgmma<f16>(acc, k.a, k.b, true);
    wgmma_commit(k);
    wgmma_wait(k, 0);
    if (*touched == 'n')
      expect_fine(k);
    else
      expect_report(k, Kind::not_waited, std::string(touched) + " since the last wgmma_fence");
  }
}
TEST(Wgmma, AFenceAfterTheTouchMakesItFine) {
  GroupKernel k;
  GroupAcc<float, 64> acc(k);
  wgmma_fence(k);
  wgmma<f16>(acc, k.a, k.b, false);
  wgmma_commit(k);
  wgmma_wait(k, 0);
  k.store_first(acc);
  acc.set(0, 2.0f);
  wgmma_fence(k);
  wgmma<f16>(acc, k.a, k.b, true);
  wgmma_commit(k);
  wgmma_wait(k, 0);
  expect_fine(k);
}
TEST(Wgmma, ARegisterMustBeFencedAfterItsWrite) {
  for (bool fenced : {false, true}) {
    GroupKernel k;
    GroupAcc<float, 64> acc(k);
    if (!fenced) wgmma_fence(k);
    std::array<U32, 4> a{k.constant(1u), k.constant(2u), k.constant(3u), k.constant(4u)};
    wgmma_fence(k);
    std::array<U32, 4> late = a;
    if (!fenced) late[2] = k.constant(5u);
    wgmma<f16>(acc, late, k.b, false);
    wgmma_commit(k);
    wgmma_wait(k, 0);
    if (fenced)
      expect_fine(k);
    else
      expect_report(k, Kind::not_waited, "takes A from a register that was written");
  }
}
TEST(Wgmma, ARegisterMayBeReadButNotWrittenBeforeTheWait) {
  for (bool written : {false, true}) {
    GroupKernel k;
    GroupAcc<float, 64> acc(k);
    std::array<U32, 4> a{k.constant(0u), k.constant(0u), k.constant(0u), k.constant(0u)};
    Var<uint32_t> changing(k, Arg<uint32_t>(a[0]));
    a[0] = U32{&k, changing.reg};
    wgmma_fence(k);
    wgmma<f16>(acc, a, k.b, false);
    wgmma_commit(k);
    store(k.arg(&OutOnly::out).as<uint32_t>() + k.thread(), changing.get());
    if (written) changing = 7u;
    wgmma_wait(k, 0);
    changing = 8u;
    if (written)
      expect_report(k, Kind::not_waited, "may still read");
    else
      expect_fine(k);
  }
}
TEST(Wgmma, AccumulatorSharedBetweenShapesIsReported) {
  // the registers of one accumulator seen as a narrower one
  for (bool waited : {false, true})
    for (bool fenced : {false, true}) {
      GroupKernel k;
      GroupAcc<float, 64> wide(k);
      GroupAcc<float, 32> narrow(k);
      for (uint32_t i = 0; i < narrow.regs; ++i) narrow.var[i].reg = wide.var[i].reg;
      wgmma_fence(k);
      wgmma<f16>(wide, k.a, k.b, false);
      wgmma_commit(k);
      if (waited) wgmma_wait(k, 0);
      if (fenced) wgmma_fence(k);
      wgmma<f16>(narrow, k.a, k.b, true);
      wgmma_commit(k);
      wgmma_wait(k, 0);
      if (waited && fenced)
        expect_fine(k);
      else
        expect_report(k, Kind::not_waited, waited ? "no wgmma_fence is between" : "no wgmma_wait yet");
    }
}
TEST(Wgmma, AccumulatorOfOneInAOfAnotherIsReported) {
  for (bool waited : {false, true}) {
    GroupKernel k;
    GroupAcc<f16, 16> first(k);
    GroupAcc<float, 64> second(k);
    wgmma_fence(k);
    wgmma<f16>(first, k.a, k.b, false);
    wgmma_commit(k);
    if (waited) {
      wgmma_wait(k, 0);
      wgmma_fence(k);
    }
    std::array<U32, 4> a;
    for (uint32_t i = 0; i < 4; ++i) a[i] = U32{&k, first.var[i].reg};
    wgmma<f16>(second, a, k.b, false);
    wgmma_commit(k);
    wgmma_wait(k, 0);
    if (waited)
      expect_fine(k);
    else
      expect_report(k, Kind::not_waited, "takes A from an accumulator");
  }
}
TEST(Wgmma, SharedMemoryWrittenBeforeTheWaitIsReported) {
  for (bool waited : {false, true}) {
    GroupKernel k;
    GroupAcc<float, 64> acc(k);
    wgmma_fence(k);
    wgmma<f16>(acc, k.a, k.b, false);
    wgmma_commit(k);
    if (waited) wgmma_wait(k, 0);
    k.barrier();
    k.when(k.thread() == 0u, [&] { store(k.tile.as<uint32_t>(), 1u); });
    wgmma_wait(k, 0);
    if (waited)
      expect_fine(k);
    else
      expect_report(k, Kind::not_waited, "source of a store or product");
  }
}
TEST(Wgmma, DescriptorAndPredicateMustBeTheSameInAllLanes) {
  for (int which : {0, 1, 2}) {
    GroupKernel k;
    GroupAcc<float, 64> acc(k);
    U64 odd = widen(k.lane() / 31u);
    U64 b = which == 1 ? k.b + odd : k.b;
    Pred add = which == 2 ? k.lane() == 3u : k.lane() < 32u;
    wgmma_fence(k);
    wgmma<f16>(acc, k.a, b, add);
    wgmma_commit(k);
    wgmma_wait(k, 0);
    if (which)
      expect_report(k, Kind::not_uniform, which == 1 ? "matrix descriptor" : "predicate");
    else
      expect_fine(k);
  }
}
TEST(Wgmma, BaseOffsetIsRefused) {
  GroupKernel k;
  GroupAcc<float, 64> acc(k);
  wgmma_fence(k);
  wgmma<f16>(acc, k.a, k.b | (uint64_t(1) << 49), false);
  expect_report(k, Kind::bad_operand, "base offset 1");
}
TEST(Wgmma, DescriptorOutsideSharedMemoryIsReported) {
  GroupKernel k;
  GroupAcc<float, 64> acc(k);
  wgmma_fence(k);
  wgmma<f16>(acc, k.a, matrix_descriptor(k.tile.offset(2048), 128, 512, Swizzle::none), false);
  expect_report(k, Kind::out_of_bounds, "shared offset");
}

// Each of these needs the whole warp.
TEST(Matrix, StepsUnderAMaskAreReported) {
  for (int which = 0; which < 8; ++which) {
    GroupKernel k;
    GroupAcc<float, 64> acc(k);
    Acc<float, 16, 8> sum(k);
    U32 zero = k.constant(0u);
    k.when(k.lane() < 16u, [&] {
      switch (which) {
        case 0:
          load_matrices<1>(k.tile);
          break;
        case 1:
          store_matrices<1>(k.tile, {zero});
          break;
        case 2:
          mma(sum, Tile<f16, 16, 8>{{zero, zero}}, Tile<f16, 8, 8>{{zero}});
          break;
        case 3:
          wgmma<f16>(acc, k.a, k.b, false);
          break;
        case 4:
          wgmma_fence(k);
          break;
        case 5:
          wgmma_commit(k);
          break;
        case 6:
          wgmma_wait(k, 0);
          break;
        case 7:
          release_registers(k, 40);
          break;
      }
    });
    expect_report(k, Kind::barrier_divergence, "needs all 32 lanes");
  }
}
TEST(Matrix, RegisterCountsAreChecked) {
  for (uint32_t count : {16u, 24u, 25u, 232u, 256u, 264u}) {
    GroupKernel k;
    take_registers(k, count);
    if (count % 8 == 0 && count >= 24 && count <= 256)
      expect_fine(k);
    else
      expect_report(k, Kind::bad_operand, "multiple of 8 from 24 to 256");
  }
}
TEST(Matrix, RowsOfLdmatrixAndStmatrixAreAligned) {
  for (uint32_t shift : {0u, 8u}) {
    GroupKernel k(32);
    load_matrices<1>(k.tile + (k.lane() % 8u * 16u + shift));
    if (shift)
      expect_report(k, Kind::misaligned, "not a multiple of 16");
    else
      expect_fine(k);
    GroupKernel s(32);
    store_matrices<1>(s.tile + (s.lane() % 8u * 16u + shift), {s.constant(0u)});
    if (shift)
      expect_report(s, Kind::misaligned, "not a multiple of 16");
    else
      expect_fine(s);
  }
}
TEST(Matrix, LanesThatNameNoRowMayHaveAnyAddress) {
  for (uint32_t matrices : {1u, 2u}) {
    GroupKernel k(32);
    U32 row = select(k.lane() < 8u, k.lane() * 16u, 1u << 20);
    if (matrices == 1)
      load_matrices<1>(k.tile + row);
    else
      load_matrices<2>(k.tile + row);
    if (matrices == 1)
      expect_fine(k);
    else
      expect_report(k, Kind::out_of_bounds, "shared offset");
  }
}

}  // namespace
}  // namespace heddle::ptx
