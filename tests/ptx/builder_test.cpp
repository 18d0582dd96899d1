// Mistakes that string-built kernels have shipped with. Each, written on purpose, does not compile, is refused by
// verify, is reported by the interpreter, or gives a wrong number there; beside it stands the version that passes.
#include <cmath>
#include <numeric>
#include <random>

#include "kernels/layer/norm.h"
#include "ptx/print.h"
#include "ptx/verify.h"
#include "tests/ptx/reporting.h"

namespace heddle::ptx {
namespace {

std::string refusal(const Kernel& k) {
  try {
    verify(k);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

struct FloatArgs {
  DevicePtr<float> out, in;
  uint32_t n;
};
using FloatBuilder = Builder<FloatArgs>;

// Runs one warp over `in`; the result has 32 values unless said otherwise.
std::vector<float> run(const Kernel& k, const std::vector<float>& in, uint32_t n, size_t outs = 32) {
  Memory m;
  auto pin = m.put(in);
  auto out = m.alloc<float>(outs);
  interpret(k, {}, FloatArgs{out, pin, n}, m);
  return m.get(out, outs);
}

// --- division -----------------------------------------------------------------------------------------------------
// ptxas would compute the quotient of any constant by a reciprocal.
TEST(Division, ByAConstantPowerOfTwoIsAShift) {
  struct Args {
    DevicePtr<uint32_t> out;
    DevicePtr<uint64_t> wide;
  };
  Builder<Args> k("divide", 32);
  U32 x = k.thread() * 0x01234567u;
  U64 y = widen(x) * 0x123456789ull;
  auto out = k.arg(&Args::out) + k.thread() * 4u;
  store(out, x / 8u);
  store(out.offset(1), x % 8u);
  store(out.offset(2), x / 1u);
  store(out.offset(3), x % 6u);
  store(k.arg(&Args::wide) + k.thread(), y / uint64_t(1ull << 40));
  const Kernel kernel = k.finish();
  const std::string text = print(kernel, target("sm_80"));
  EXPECT_EQ(text.find("div."), text.npos);
  EXPECT_EQ(text.find("rem."), text.rfind("rem."));  // by 6

  Memory m;
  const auto quotients = m.alloc<uint32_t>(4 * 32);
  const auto wide = m.alloc<uint64_t>(32);
  interpret(kernel, {}, Args{quotients, wide}, m);
  const auto got = m.get(quotients, 4 * 32);
  const auto got_wide = m.get(wide, 32);
  for (uint32_t t = 0; t < 32; ++t) {
    const uint32_t v = t * 0x01234567u;
    EXPECT_EQ(std::vector(got.begin() + t * 4, got.begin() + t * 4 + 4), (std::vector{v / 8, v % 8, v, v % 6}));
    EXPECT_EQ(got_wide[t], uint64_t(v) * 0x123456789ull >> 40);
  }
}

// --- online softmax -----------------------------------------------------------------------------------------------
// The running maximum's register is copied and then overwritten: the rescale factor is always 1.
enum class Old { before, after };
Kernel online_softmax_sum(Old when) {
  FloatBuilder k("online_softmax_sum", 32);
  auto x = k.arg(&FloatArgs::in);
  auto top = k.var(-INFINITY), sum = k.var(0.0f);
  k.loop(0u, k.arg(&FloatArgs::n), 1u, [&](U32 i) {
    F32 v = load(x + i), old = top.get();
    top = max(old, v);
    if (when == Old::after) old = top.get();  // what copying the register amounts to
    F32 factor = ex2_approx(old - top.get());
    sum = fma(sum.get(), factor, ex2_approx(v - top.get()));
  });
  store(k.arg(&FloatArgs::out) + k.thread(), sum.get());
  return k.finish();
}
TEST(Mistakes, RescaleFactorOfTheRunningMaximum) {
  std::vector<float> x{1, 5, 2, 9, -3, 9.5f};
  double want = 0;
  for (float v : x) want += std::exp2(v - 9.5);
  // A snapshot does not change when its Var does, so this order of statements is right.
  EXPECT_NEAR(run(online_softmax_sum(Old::before), x, 6)[7], want, 1e-5);
  EXPECT_GT(std::abs(run(online_softmax_sum(Old::after), x, 6)[7] - want), 0.5);
}

// --- the sum that only lane 0 holds -------------------------------------------------------------------------------
Kernel lane_sum(bool down) {
  FloatBuilder k("lane_sum", 32);
  F32 v = load(k.arg(&FloatArgs::in) + k.thread());
  if (down)
    for (uint32_t n = 16; n; n /= 2) v = v + shuffle_down(v, n);
  else
    v = warp_sum(v);
  store(k.arg(&FloatArgs::out) + k.thread(), k.assume_uniform(v, Uniform::warp));
  return k.finish();
}
TEST(Mistakes, ShuffleDownSumUsedInEveryLane) {
  std::vector<float> x(32);
  std::iota(x.begin(), x.end(), 1.0f);
  EXPECT_EQ(run(lane_sum(false), x, 32)[31], 528.0f);
  try {
    run(lane_sum(true), x, 32);
    FAIL() << "nothing reported";
  } catch (const Report& r) {
    EXPECT_EQ(r.kind, Kind::not_uniform) << r.what();
  }
}

// --- warps that leave before the barrier --------------------------------------------------------------------------
Kernel tile_with_guard(bool leave) {
  WordBuilder k("tile_with_guard", 128);
  auto tile = k.shared<uint32_t>(128);
  auto out = k.arg(&WordArgs::out);
  Pred has_row = k.warp() < 3u;
  auto body = [&] {
    store(tile + k.thread(), k.thread());
    k.barrier();
    k.when(has_row, [&] { store(out + k.thread(), load(tile + (k.thread() ^ 32u))); });
  };
  leave ? k.when(has_row, body) : body();
  return k.finish();
}
TEST(Mistakes, WarpsWithoutARowLeaveBeforeTheBarrier) {
  EXPECT_EQ(refusal(tile_with_guard(false)), "");
  EXPECT_NE(refusal(tile_with_guard(true)).find("bar.sync: must be reached by the whole block"), std::string::npos)
      << refusal(tile_with_guard(true));
  Memory m;
  auto out = m.alloc<uint32_t>(128);
  EXPECT_NO_THROW(interpret(tile_with_guard(false), {}, WordArgs{out}, m));
  EXPECT_THROW(interpret(tile_with_guard(true), {}, WordArgs{out}, m), Report);  // and it would hang
}

// --- a cooperative load with the wrong stride ---------------------------------------------------------------------
Outcome cooperative_load(uint32_t step) {
  return run_words(
      [&](WordBuilder& k, Global<uint32_t> out) {
        auto tile = k.shared<uint32_t>(512);
        k.loop(k.thread(), 512u, step, [&](U32 i) { store(tile + i, load(out + i)); });
        k.barrier();
        k.loop(k.thread(), 512u, 128u, [&](U32 i) { store(out + i, load(tile + (i ^ 1u)) + 1u); });
      },
      {.launch = {.threads = 128}});
}
TEST(Mistakes, CooperativeLoadStepsByMoreThanTheBlock) {
  EXPECT_CLEAN(cooperative_load(128));
  EXPECT_REPORT(Kind::uninitialised, cooperative_load(256));
}

// --- shared memory as an operand of arithmetic --------------------------------------------------------------------
template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
TEST(Mistakes, SharedMemoryIsNoOperand) {
  static_assert(Addable<F32, F32> && Addable<Shared<float>, U32>);
  static_assert(!Addable<F32, Shared<float>>, "a value must be loaded before it is added");
  static_assert(!Addable<Shared<float>, F32>, "an address moves by whole elements");
  static_assert(!Addable<F32, U32>, "types are converted by name");
  static_assert(!Addable<Val<float>, Val<double>>);
}
template <class V, class X>
concept AddAssignable = requires(V v, X x) {
  v += x;
};
TEST(Mistakes, AValueDoesNotChange) { static_assert(AddAssignable<Var<float>&, F32> && !AddAssignable<F32&, F32>); }

// --- non-ASCII text -----------------------------------------------------------------------------------------------
TEST(Mistakes, TextIsAscii) {
  Kernel k = kernels::RmsNorm{}.build();
  for (auto& t : targets())
    for (unsigned char c : print(k, t)) ASSERT_TRUE(c < 128 && (c >= 32 || c == '\n' || c == '\t')) << t.name;
  k.name = "rms_n\xc3\xb6rm";
  EXPECT_NE(refusal(k), "");
}

// --- every thread overwrites the reduced maximum ------------------------------------------------------------------
Outcome broadcast_max(bool every_thread) {
  return run_words([&](WordBuilder& k, Global<uint32_t> out) {
    auto top = k.shared<uint32_t>(1);
    U32 v = block_max(k, k.thread());
    auto put = [&] { store(top, v); };
    every_thread ? put() : k.when(k.thread() == 0u, put);
    k.barrier();
    store(out + k.thread(), load(top));
  });
}
TEST(Mistakes, EveryThreadOverwritesTheReducedMaximum) {
  EXPECT_CLEAN(broadcast_max(false));
  EXPECT_EQ(broadcast_max(false).out[3], 63u);
  EXPECT_REPORT(Kind::race, broadcast_max(true));
}

// --- length 0 -----------------------------------------------------------------------------------------------------
Kernel mean(bool guarded) {
  FloatBuilder k("mean", 32);
  auto x = k.arg(&FloatArgs::in);
  auto sum = k.var(0.0f), weight = k.var(0.0f);
  k.loop(k.lane(), k.arg(&FloatArgs::n), 32u, [&](U32 i) {
    sum += load(x + i);
    weight += 1.0f;
  });
  F32 w = warp_sum(weight.get()), s = warp_sum(sum.get());
  store(k.arg(&FloatArgs::out) + k.thread(), guarded ? select(w > 0.0f, s / w, 0.0f) : s / w);
  return k.finish();
}
TEST(Mistakes, AFinishedSequenceDividesByAZeroSum) {
  std::vector<float> x(40, 2.5f);
  for (bool guarded : {false, true}) EXPECT_EQ(run(mean(guarded), x, 40)[0], 2.5f);
  EXPECT_TRUE(std::isnan(run(mean(false), x, 0)[0]));
  EXPECT_EQ(run(mean(true), x, 0)[0], 0.0f);
}

// --- 32-bit offsets -----------------------------------------------------------------------------------------------
TEST(Mistakes, OffsetsThatWrapAt32Bits) {
  // Row 2^20 of 2^13 words: 2^33 words into the buffer. The pointer is set back so that the right row is in memory.
  auto at_row = [](bool wide) {
    struct Args {
      DevicePtr<uint32_t> rows, out;
      uint32_t row, stride;
    };
    Builder<Args> k("row_offset", 32);
    U32 row = k.arg(&Args::row), stride = k.arg(&Args::stride);
    auto rows = k.arg(&Args::rows);
    auto p = wide ? rows + mul_wide(row, stride) : rows + row * stride;
    store(k.arg(&Args::out) + k.thread(), load(p + k.thread()));
    Kernel kernel = k.finish();
    Memory m;
    std::vector<uint32_t> data(32);
    std::iota(data.begin(), data.end(), 7u);
    auto row_data = m.put(data), out = m.alloc<uint32_t>(32);
    interpret(kernel, {}, Args{{row_data.address - (uint64_t(1) << 33) * 4}, out, 1u << 20, 1u << 13}, m);
    return m.get(out, 32)[31];
  };
  EXPECT_EQ(at_row(true), 38u);
  EXPECT_THROW(at_row(false), Report);
}

// --- sizes baked into the text ------------------------------------------------------------------------------------
TEST(Mistakes, SizesAreArgumentsNotText) {
  // One kernel serves every size; nothing in the text names one.
  Kernel k = kernels::RmsNorm{.threads = 64}.build();
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  for (uint32_t cols : {1u, 31u, 64u, 1000u}) {
    Memory m;
    std::vector<float> x(cols), w(cols);
    for (auto& v : x) v = normal(rng);
    for (auto& v : w) v = normal(rng);
    auto y = m.alloc<float>(cols);
    kernels::RmsNorm::Args args{y, m.put(x), m.put(w), 1, cols, 1e-5f};
    interpret(k, kernels::RmsNorm{.threads = 64}.grid(args), args, m);
    double squares = 0;
    for (float v : x) squares += double(v) * v;
    auto got = m.get(y, cols);
    for (uint32_t i = 0; i < cols; ++i) EXPECT_NEAR(got[i], x[i] / std::sqrt(squares / cols + 1e-5) * w[i], 1e-4);
  }
}

// --- a fixed .version ---------------------------------------------------------------------------------------------
TEST(Mistakes, VersionFollowsTargetAndInstructions) {
  auto first_line = [](const Kernel& k, const char* t) {
    return print(k, target(t)).substr(0, print(k, target(t)).find('\n'));
  };
  Kernel plain = kernels::RmsNorm{}.build();
  EXPECT_NE(print(plain, target("sm_75")).find(".version 6.3"), std::string::npos) << first_line(plain, "sm_75");
  EXPECT_NE(print(plain, target("sm_90")).find(".version 7.8"), std::string::npos);
  EXPECT_NE(print(plain, target("sm_120")).find(".version 8.7"), std::string::npos);
  WordBuilder k("newer", 32);
  store(k.arg(&WordArgs::out), bitcast<uint32_t>(to_f16x2(to_e4m3x2(k.constant(1.0f), k.constant(2.0f)))));
  Kernel newer = k.finish();
  EXPECT_NE(print(newer, target("sm_89")).find(".version 8.1"), std::string::npos);
  EXPECT_THROW(verify(newer, target("sm_86")), Error);
}

// --- int8 activations with an outlier -----------------------------------------------------------------------------
// Rounds x to int8 with one scale per `block` values and back.
Kernel through_int8(uint32_t block) {
  FloatBuilder k("through_int8", 32);
  auto x = k.arg(&FloatArgs::in), y = k.arg(&FloatArgs::out);
  k.loop(k.lane(), k.arg(&FloatArgs::n), 32u, [&](U32 i) {
    auto top = k.var(0.0f);
    U32 first = i / block * block;
    k.loop(0u, block, 1u, [&](U32 j) { top = max(top.get(), abs(load(x + (first + j)))); });
    F32 scale = top.get() / 127.0f;
    F32 q = round_to_whole(load(x + i) / scale, Round::rni);
    store(y + i, q * scale);
  });
  return k.finish();
}
TEST(Mistakes, OneOutlierSpoilsARowOfInt8) {
  std::mt19937 rng(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(1024);
  for (auto& v : x) v = normal(rng);
  x[300] = 26 * 8;                    // far above the row's rms, as in trained models
  auto error = [&](uint32_t block) {  // of all but the outlier, relative to their size
    auto y = run(through_int8(block), x, 1024, 1024);
    double e = 0, s = 0;
    for (size_t i = 0; i < x.size(); ++i)
      if (i != 300) {
        e += std::pow(double(y[i]) - x[i], 2);
        s += double(x[i]) * x[i];
      }
    return std::sqrt(e / s);
  };
  EXPECT_GT(error(1024), 0.15);
  EXPECT_LT(error(16), 0.08);
}

// --- RoPE ---------------------------------------------------------------------------------------------------------
// Turns pairs by position * theta. Interleaved pairs are (2i, 2i + 1), half-split ones (i, i + n/2).
enum class Sine { approximate, reduced };
Kernel rope(bool interleaved, Sine how) {
  FloatBuilder k("rope", 32);
  auto x = k.arg(&FloatArgs::in), y = k.arg(&FloatArgs::out);
  U32 i = k.lane();
  F32 position = to_f32(k.arg(&FloatArgs::n)),
      theta = ex2_approx(to_f32(i) * (-13.28771238f / 32.0f));  // 10000^(-i/32)
  F32 angle = position * theta;
  if (how == Sine::reduced) {  // angle - whole turns, in two pieces of 2 pi
    F32 turns = round_to_whole(angle * 0.15915494f, Round::rni);
    angle = fma(turns, -6.2831855f, angle);
    angle = fma(turns, 1.7484555e-7f, angle);
  }
  F32 s = sin_approx(angle), c = cos_approx(angle);
  auto a = interleaved ? x + i * 2u : x + i, b = interleaved ? a.offset(1) : a.offset(32);
  auto ya = interleaved ? y + i * 2u : y + i, yb = interleaved ? ya.offset(1) : ya.offset(32);
  F32 va = load(a), vb = load(b);
  store(ya, va * c - vb * s);
  store(yb, va * s + vb * c);
  return k.finish();
}
double rope_error(bool interleaved, Sine how, uint32_t position) {
  std::mt19937 rng(9);
  std::normal_distribution<float> normal;
  std::vector<float> x(64);
  for (auto& v : x) v = normal(rng);
  auto y = run(rope(interleaved, how), x, position, 64);
  double worst = 0;
  for (uint32_t i = 0; i < 32; ++i) {  // the reference: interleaved
    // The angle is taken as the kernel takes it, in f32: what is judged here is its sine.
    double angle = double(float(position) * float(std::exp2(double(float(i) * (-13.28771238f / 32.0f)))));
    double c = std::cos(angle), s = std::sin(angle);
    worst = std::max({worst, std::abs(y[2 * i] - (x[2 * i] * c - x[2 * i + 1] * s)),
                      std::abs(y[2 * i + 1] - (x[2 * i] * s + x[2 * i + 1] * c))});
  }
  return worst;
}
TEST(Mistakes, RopePairsInTheOtherOrder) {
  EXPECT_LT(rope_error(true, Sine::approximate, 5), 1e-4);
  EXPECT_GT(rope_error(false, Sine::approximate, 5), 0.1);
}
TEST(Mistakes, ApproximateSineAtLargePositions) {
  EXPECT_GT(rope_error(true, Sine::approximate, 131071), 1e-3);
  EXPECT_LT(rope_error(true, Sine::reduced, 131071), 1e-4);
}

}  // namespace
}  // namespace heddle::ptx
