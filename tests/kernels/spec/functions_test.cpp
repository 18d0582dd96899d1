// The functions of f32 against f64 over dense arguments, within what their comments promise.
#include "kernels/spec/functions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "ptx/builder.h"
#include "ptx/interpret.h"
#include "ptx/verify.h"

namespace heddle::kernels {
namespace {

template <class In>
struct Args {
  ptx::DevicePtr<float> y;
  ptx::DevicePtr<In> x;
  uint32_t n;
};

// f of each value, interpreted.
template <class In, class F>
std::vector<float> values_of(const std::vector<In>& x, F f) {
  using A = Args<In>;
  ptx::Builder<A> k("apply", 32);
  k.loop(k.thread(), k.arg(&A::n), 32u, [&](ptx::U32 i) { store(k.arg(&A::y) + i, f(load(k.arg(&A::x) + i))); });
  const ptx::Kernel kernel = k.finish();
  ptx::verify(kernel);
  ptx::Memory memory;
  const A args{.y = memory.alloc<float>(x.size()), .x = memory.put(x), .n = uint32_t(x.size())};
  ptx::interpret(kernel, {}, args, memory);
  return memory.get(args.y, x.size());
}

std::vector<float> between(float low, float high, int steps) {
  std::vector<float> x;
  for (int i = 0; i <= steps; ++i) x.push_back(low + (high - low) * float(i) / float(steps));
  return x;
}

double worst_relative(const std::vector<float>& x, const std::vector<float>& got, auto&& want) {
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (const double w = want(double(x[i])); w != 0) worst = std::max(worst, std::abs(got[i] - w) / std::abs(w));
  return worst;
}

TEST(Functions, Exp) {
  const auto x = between(-87, 88, 100000);
  EXPECT_LT(worst_relative(x, values_of(x, [](ptx::F32 v) { return exp(v); }), [](double v) { return std::exp(v); }),
            4e-7);
  const float infinity = INFINITY;
  EXPECT_EQ(values_of(std::vector{0.0f, -0.0f, -infinity, -1e30f, -105.0f, infinity, 1e30f, 89.0f},
                      [](ptx::F32 v) { return exp(v); }),
            (std::vector{1.0f, 1.0f, 0.0f, 0.0f, 0.0f, infinity, infinity, infinity}));
}

TEST(Functions, Sigmoid) {
  const auto x = between(-87, 120, 100000);
  EXPECT_LT(worst_relative(x, values_of(x, [](ptx::F32 v) { return sigmoid(v); }),
                           [](double v) { return 1 / (1 + std::exp(-v)); }),
            7e-7);
}

TEST(Functions, Tanh) {
  for (auto& x : {between(-12, 12, 100000), between(-0.7f, 0.7f, 100000), between(-1e-4f, 1e-4f, 1000)})
    EXPECT_LT(
        worst_relative(x, values_of(x, [](ptx::F32 v) { return tanh(v); }), [](double v) { return std::tanh(v); }),
        5e-7);
  EXPECT_EQ(values_of(std::vector{100.0f, -1e30f, INFINITY, -INFINITY, 0.0f}, [](ptx::F32 v) { return tanh(v); }),
            (std::vector{1.0f, -1.0f, 1.0f, -1.0f, 0.0f}));
}

TEST(Functions, NormalBelow) {
  const auto x = between(-12, 9, 100000);
  EXPECT_LT(worst_relative(x, values_of(x, [](ptx::F32 v) { return normal_below(v); }),
                           [](double v) { return std::erfc(-v * std::sqrt(0.5)) / 2; }),
            2e-6);
  EXPECT_EQ(values_of(std::vector{-30.0f, 30.0f}, [](ptx::F32 v) { return normal_below(v); }),
            (std::vector{0.0f, 1.0f}));
}

TEST(Functions, SineAndCosineOfTurns) {
  std::vector<uint64_t> turns{0,         1, ~0ull, 1ull << 61, 1ull << 62, 1ull << 63, 3ull << 62, (1ull << 61) - 1,
                              7ull << 61};
  for (uint64_t i = 0; i < 200000; ++i) turns.push_back(i * 0x9e3779b97f4a7c15);
  const auto sin = values_of(turns, [](ptx::U64 v) { return sin_cos_of_turns(v).sin; });
  const auto cos = values_of(turns, [](ptx::U64 v) { return sin_cos_of_turns(v).cos; });
  double worst = 0;
  for (size_t i = 0; i < turns.size(); ++i) {
    const double angle = double(turns[i]) * 0x1p-63 * std::numbers::pi;
    worst = std::max({worst, std::abs(sin[i] - std::sin(angle)), std::abs(cos[i] - std::cos(angle))});
  }
  EXPECT_LT(worst, 1.5e-7);
  EXPECT_EQ(sin[4], 1.0f);
  EXPECT_EQ(cos[5], -1.0f);
}

}  // namespace
}  // namespace heddle::kernels
