// Cases of RoPE: against f64 angles computed from the frequencies, not from the kernel's table.
#include <numeric>

#include "base/rope_frequencies.h"
#include "kernels/attention/rope.h"
#include "proof/bench.h"

namespace heddle::proof {
namespace {

using kernels::Rope;

struct RopeShape {
  uint32_t tokens, q_heads, k_heads, head_dim, rotary_dim;
  uint32_t gap = 0;  // values between the rows
  bool in_place = false;
  int32_t last_position = 131071;
};

// What the result buffer becomes: the values between the rows stay as they were, what is not rotary is copied.
void turn(const std::vector<float>& x, const std::vector<float>& before, uint32_t heads, uint32_t stride,
          const std::vector<int32_t>& positions, const RopeFrequencies& frequencies, const RopeShape& s, uint32_t pairs,
          std::vector<double>& want, std::vector<double>& scale) {
  want.assign(x.begin(), x.end());
  scale.assign(x.size(), 0);
  for (size_t i = 0; i < x.size(); ++i)
    if (i % stride >= heads * s.head_dim) want[i] = before[i];
  const uint32_t half = s.rotary_dim / 2;
  for (size_t t = 0; t < s.tokens; ++t)
    for (uint32_t h = 0; h < heads; ++h)
      for (uint32_t i = 0; i < half; ++i) {
        const size_t head = t * stride + size_t(h) * s.head_dim;
        const size_t first = head + (pairs == Rope::interleaved ? 2 * i : i);
        const size_t second = pairs == Rope::interleaved ? first + 1 : first + half;
        // f64 loses 2^-53 of the angle, 2e-11 at 131071
        const double angle = positions[t] * frequencies.radians[i], m = frequencies.magnitude;
        want[first] = (x[first] * std::cos(angle) - x[second] * std::sin(angle)) * m;
        want[second] = (x[first] * std::sin(angle) + x[second] * std::cos(angle)) * m;
        scale[first] = scale[second] = (std::abs(x[first]) + std::abs(x[second])) * m;
      }
}

Case rope(Rope spec, RopeShape s, const std::string& scaling_name = "none", RopeScaling scaling = {}) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const RopeFrequencies frequencies =
        s.rotary_dim ? rope_frequencies(s.rotary_dim, 10000, scaling) : RopeFrequencies{};
    std::vector<int32_t> positions(s.tokens);
    for (auto& p : positions) p = int32_t(random.below(uint32_t(s.last_position) + 1));
    if (s.tokens > 0) positions[0] = s.last_position;
    if (s.tokens > 1) positions[1] = 0;
    if (s.tokens > 2) positions[2] = -5;  // a shift backwards

    const uint32_t q_stride = s.q_heads * s.head_dim + s.gap, k_stride = s.k_heads * s.head_dim + s.gap;
    const std::vector<float> q = random.normals(size_t(s.tokens) * q_stride),
                             k = random.normals(size_t(s.tokens) * k_stride);
    auto q_in = m.put(q), k_in = m.put(k);
    const std::vector<float> q_before = s.in_place ? q : random.normals(q.size()),
                             k_before = s.in_place ? k : random.normals(k.size());
    auto q_out = s.in_place ? q_in : m.put(q_before), k_out = s.in_place ? k_in : m.put(k_before);
    m.launch(spec, Rope::Args{.q_out = q_out,
                              .q = q_in,
                              .k_out = k_out,
                              .k = k_in,
                              .positions = m.put(positions),
                              .turns = m.put(frequencies.turns()),
                              .tokens = s.tokens,
                              .q_heads = s.q_heads,
                              .k_heads = s.k_heads,
                              .head_dim = s.head_dim,
                              .rotary_dim = s.rotary_dim,
                              .q_out_stride = q_stride,
                              .q_stride = q_stride,
                              .k_out_stride = k_stride,
                              .k_stride = k_stride,
                              .magnitude = float(frequencies.magnitude)});
    std::vector<double> want, scale;
    // sine and cosine to 1.5e-7, the magnitude, two products and a sum to 2^-24 each
    const double bound = 1.5e-7 + 3 * 0x1p-24;
    turn(q, q_before, s.q_heads, q_stride, positions, frequencies, s, spec.pairs, want, scale);
    check.near("q", m.get(q_out, q.size()), want, scale, bound);
    turn(k, k_before, s.k_heads, k_stride, positions, frequencies, s, spec.pairs, want, scale);
    check.near("k", m.get(k_out, k.size()), want, scale, bound);
    check.that(frequencies.radians.size() == s.rotary_dim / 2, "a frequency per pair");
  };
  return {"rope",
          fmt::format("{} tokens={} heads={}+{} dim={}/{} gap={} in_place={} last={} scaling={}", field_text(spec),
                      s.tokens, s.q_heads, s.k_heads, s.rotary_dim, s.head_dim, s.gap, s.in_place, s.last_position,
                      scaling_name),
          target_of(spec), run};
}

}  // namespace

void add_rope_cases(Sweep sweep, std::vector<Case>& cases) {
  using Kind = RopeScaling::Kind;
  for (uint32_t pairs : {Rope::interleaved, Rope::half_split})
    cases.push_back(
        rope({.pairs = pairs}, {.tokens = 3, .q_heads = 4, .k_heads = 2, .head_dim = 64, .rotary_dim = 64}));
  if (sweep == Sweep::quick) return;
  for (uint32_t pairs : {Rope::interleaved, Rope::half_split}) {
    cases.push_back(rope({.threads = 32, .pairs = pairs},
                         {.tokens = 5, .q_heads = 3, .k_heads = 1, .head_dim = 80, .rotary_dim = 32, .gap = 7}));
    cases.push_back(rope(
        {.threads = 256, .pairs = pairs, .chained = 1},
        {.tokens = 9, .q_heads = 8, .k_heads = 8, .head_dim = 128, .rotary_dim = 128, .gap = 128, .in_place = true}));
    cases.push_back(rope({.pairs = pairs}, {.tokens = 4, .q_heads = 0, .k_heads = 1, .head_dim = 2, .rotary_dim = 2}));
    cases.push_back(rope({.pairs = pairs}, {.tokens = 2, .q_heads = 3, .k_heads = 0, .head_dim = 6, .rotary_dim = 0}));
    cases.push_back(
        rope({.pairs = pairs}, {.tokens = 0, .q_heads = 4, .k_heads = 4, .head_dim = 64, .rotary_dim = 64}));
  }
  const RopeShape far{
      .tokens = 200, .q_heads = 1, .k_heads = 1, .head_dim = 256, .rotary_dim = 256, .last_position = 1 << 20};
  cases.push_back(rope({}, far));
  const RopeShape scaled{.tokens = 8, .q_heads = 2, .k_heads = 1, .head_dim = 128, .rotary_dim = 96};
  cases.push_back(rope({}, scaled, "linear", {.kind = Kind::linear, .factor = 8}));
  cases.push_back(rope({}, scaled, "ntk", {.kind = Kind::ntk, .factor = 4}));
  cases.push_back(rope({}, scaled, "yarn", {.kind = Kind::yarn, .factor = 32, .original_length = 4096}));
  cases.push_back(rope({}, scaled, "llama3", {.kind = Kind::llama3, .factor = 8, .original_length = 8192}));
  RopeScaling table{.kind = Kind::factors};
  for (uint32_t i = 0; i < 48; ++i) table.factors.push_back(1 + i * 0.7);
  cases.push_back(rope({}, scaled, "factors", table));
  if (sweep == Sweep::normal) return;
  cases.push_back(rope({}, {.tokens = 1000, .q_heads = 32, .k_heads = 8, .head_dim = 128, .rotary_dim = 128}));
}

void add_rope_benches(std::vector<Bench>& all) {
  constexpr uint32_t q_heads = 32, k_heads = 8, dim = 128, stride = (q_heads + k_heads) * dim;
  for (uint32_t tokens : {1u, 512u}) {
    const double n = double(tokens) * stride;
    all.push_back(float_bench(
        "rope", fmt::format("{} tokens, 32 + 8 heads of 128", tokens), Rope{.chained = 1}, size_t(n), n * 8, n * 3,
        [=](Machine& m, Random&) {
          std::vector<int32_t> positions(tokens);
          std::iota(positions.begin(), positions.end(), 0);
          const auto out = m.poisoned<float>(size_t(n));
          return Rope::Args{.q_out = out,
                            .q = {},
                            .k_out = {out.address + q_heads * dim * sizeof(float)},
                            .k = {},
                            .positions = m.put(positions),
                            .turns = m.put(rope_frequencies(dim, 10000).turns()),
                            .tokens = tokens,
                            .q_heads = q_heads,
                            .k_heads = k_heads,
                            .head_dim = dim,
                            .rotary_dim = dim,
                            .q_out_stride = stride,
                            .q_stride = stride,
                            .k_out_stride = stride,
                            .k_stride = stride};
        },
        [](Rope::Args& a, ptx::DevicePtr<float> x) {
          a.q = x;
          a.k.address = x.address + q_heads * dim * sizeof(float);
        }));
  }
}

}  // namespace heddle::proof
