// What replaces an instruction gives the same value, and what has no replacement is refused by name.
#include "ptx/expand.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ptx/builder.h"
#include "ptx/interpret.h"
#include "ptx/matrix.h"
#include "ptx/print.h"
#include "ptx/verify.h"
#include "ptx/warp.h"

namespace heddle::ptx {
namespace {

const Target& oldest() { return target("sm_75"); }

struct Args {
  DevicePtr<float> x;
  DevicePtr<uint32_t> y;
};

// What the kernel leaves in y, of 32 lanes with `each` words, as it is built and in the instructions of sm_75.
std::pair<std::vector<uint32_t>, std::vector<uint32_t>> both(const Kernel& kernel, const std::vector<float>& x,
                                                             uint32_t each) {
  auto run = [&](const Kernel& one) {
    Memory memory;
    const DevicePtr<float> in = memory.alloc<float>(x.size());
    const DevicePtr<uint32_t> out = memory.alloc<uint32_t>(32 * each);
    std::memcpy(reinterpret_cast<void*>(in.address), x.data(), x.size() * 4);
    interpret(one, {}, Args{in, out}, memory);
    std::vector<uint32_t> y(32 * each);
    std::memcpy(y.data(), reinterpret_cast<const void*>(out.address), y.size() * 4);
    return y;
  };
  EXPECT_ANY_THROW(verify(kernel, oldest()));
  const Kernel replaced = expanded(kernel, oldest());
  EXPECT_NO_THROW(verify(replaced, oldest()));
  return {run(kernel), run(replaced)};
}

std::vector<float> odd_values() {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x{0.0f,        -0.0f,       1.0f,    -1.5f,  65504.0f, 65520.0f,  -70000.0f,       infinity,
                       -infinity,   nan,         -nan,    1e-8f,  3e-41f,   0.333333f, 1e30f,           3.4e38f,
                       1.00390625f, 1.01171875f, 2.5e-7f, -6e-8f, 123.456f, -9876.54f, 0x1.fffffep127f, 0x1.8p-126f};
  while (x.size() < 64) x.push_back(float(x.size()) * -0.7130001f);
  return x;
}

TEST(Expanded, ConversionsGiveTheSameBits) {
  Builder<Args> k("convert", 32);
  F32 a = load(k.arg(&Args::x) + k.thread()), b = load(k.arg(&Args::x) + (k.thread() + 32u));
  auto y = k.arg(&Args::y) + k.thread() * 3u;
  store(y, bitcast<uint32_t>(to_f16x2(a, b)));
  store(y.offset(1), to<uint32_t>(bitcast<uint16_t>(to_bf16(a))));
  store(y.offset(2), to<uint32_t>(bitcast<uint16_t>(to_bf16(b))));
  const auto [built, replaced] = both(k.finish(), odd_values(), 3);
  EXPECT_EQ(built, replaced);
}

TEST(Expanded, MinAndMaxKeepNan) {
  Builder<Args> k("clamp", 32);
  F32 a = load(k.arg(&Args::x) + k.thread());
  auto y = k.arg(&Args::y) + k.thread() * 2u;
  store(y, bitcast<uint32_t>(min_nan(a, 65504.0f)));
  store(y.offset(1), bitcast<uint32_t>(max_nan(a, load(k.arg(&Args::x) + (k.thread() + 32u)))));
  const auto [built, replaced] = both(k.finish(), odd_values(), 2);
  EXPECT_EQ(built, replaced);
}

TEST(Expanded, ReductionsOfAWarpGiveTheSame) {
  Builder<Args> k("reduce", 32);
  U32 bits = bitcast<uint32_t>(load(k.arg(&Args::x) + k.thread())) >> (k.thread() & 7u);
  auto y = k.arg(&Args::y) + k.thread() * 7u;
  uint32_t at = 0;
  for (Atomic how : {Atomic::add, Atomic::min, Atomic::max, Atomic::bit_and, Atomic::bit_or, Atomic::bit_xor})
    store(y.offset(at++), warp_reduce(how, bits));
  store(y.offset(at), bitcast<uint32_t>(warp_reduce(Atomic::min, bitcast<int32_t>(bits))));
  const auto [built, replaced] = both(k.finish(), odd_values(), 7);
  EXPECT_EQ(built, replaced);
}

TEST(Expanded, ProductsOfTheMatrixUnitsAddTheSameTerms) {
  Builder<Args> k("multiply", 32);
  std::array<U32, 6> words;
  for (uint32_t i = 0; i < 6; ++i) {
    F32 v = load(k.arg(&Args::x) + (k.thread() + i));
    words[i] = bitcast<uint32_t>(to_f16x2(v, v * -0.5f));
  }
  Acc<float, 16, 8> sum(k);
  for (uint32_t i = 0; i < 4; ++i) sum.set(i, to_f32(k.thread() + i));
  mma(sum, Tile<heddle::f16, 16, 16>{{words[0], words[1], words[2], words[3]}},
      Tile<heddle::f16, 16, 8>{{words[4], words[5]}});
  for (uint32_t i = 0; i < 4; ++i) store((k.arg(&Args::y) + k.thread() * 4u).offset(i), bitcast<uint32_t>(sum.get(i)));
  std::vector<float> x;
  for (int i = 0; i < 64; ++i) x.push_back(float(i * 37 % 19) - 9);  // all sums are whole
  const auto [built, replaced] = both(k.finish(), x, 4);
  EXPECT_EQ(built, replaced);
}

Kernel copying(uint32_t valid_of_odd) {
  Builder<Args> k("copy", 32);
  auto room = k.shared<float>(32 * 8);
  auto mine = room + k.thread() * 8u;
  copy_async<16>(mine, k.arg(&Args::x) + (k.thread() & 7u) * 4u);
  copy_async<16>(mine.offset(4), k.arg(&Args::x) + (k.thread() & 7u) * 4u,
                 select((k.thread() & 1u) == 0u, k.constant(16u), valid_of_odd));
  copy_commit(k);
  copy_wait(k, 0);
  for (uint32_t i = 0; i < 8; ++i)
    store((k.arg(&Args::y) + k.thread() * 8u).offset(i), bitcast<uint32_t>(load(mine.offset(i))));
  return k.finish();
}

TEST(Expanded, CopiesBringTheSameBytes) {
  const auto [built, replaced] = both(copying(0), odd_values(), 8);
  EXPECT_EQ(built, replaced);
}

TEST(Expanded, CopiesOfAPartTrap) {
  Memory memory;
  const Args args{memory.alloc<float>(64), memory.alloc<uint32_t>(256)};
  EXPECT_ANY_THROW(interpret(expanded(copying(8), oldest()), {}, args, memory));
}

TEST(Expanded, NewerTargetsAndOtherInstructionsAreLeftAlone) {
  const Kernel kernel = copying(0);
  EXPECT_EQ(print(expanded(kernel, target("sm_80")), target("sm_80")), print(kernel, target("sm_80")));
  Builder<Args> k("cluster", {.threads = 32, .cluster = 2});
  k.cluster_barrier();
  std::string message;
  try {
    verify(expanded(k.finish(), oldest()), oldest());
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_EQ(message, "kernel cluster: a cluster of 2 blocks needs sm_90, target is sm_75");
}

}  // namespace
}  // namespace heddle::ptx
