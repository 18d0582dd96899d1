// Cases of recurrence and gated_norm against f64, and the timing of the former.
#include <algorithm>
#include <numeric>

#include "proof/bench.h"
#include "proof/state/recurrent_heads.h"

namespace heddle::proof {
namespace {

using kernels::GatedNorm;
using kernels::Recurrence;

double silu(double x) { return x / (1 + std::exp(-x)); }

Case recurrence(Recurrence spec, HeadShape shape, std::vector<uint32_t> lengths) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const RecurrentHeads heads(random, spec.key, spec.rule, shape, lengths);
    const Recurrence::Args args = heads.put(m);
    m.launch(spec, args);
    heads.compare(m, check, args, (4 * heads.longest() + spec.key + 64) * 0x1p-24);
  };
  return {"recurrence", fmt::format("{} {} rows={}", field_text(spec), shape.text(), lengths_text(lengths)),
          target_of(spec), run};
}

Case gated_norm(GatedNorm spec, uint32_t rows, uint32_t groups, uint32_t size) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t values = groups * size, stride = values + 2, gate_stride = values + 1;
    const std::vector<float> x = random.normals(size_t(rows) * stride),
                             gate = random.normals(size_t(rows) * gate_stride, 2), weight = random.normals(values);
    const GatedNorm::Args args{.y = m.poisoned<float>(size_t(rows) * stride),
                               .x = m.put(x),
                               .gate = m.put(gate),
                               .weight = m.put(weight),
                               .rows = rows,
                               .groups = groups,
                               .size = size,
                               .stride = stride,
                               .gate_stride = gate_stride,
                               .epsilon = 1e-5f};
    m.launch(spec, args);
    const std::vector<float> got = m.get(args.y, size_t(rows) * stride);
    std::vector<float> inside;
    std::vector<double> want;
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t g = 0; g < groups; ++g) {
        const auto at = [&](uint32_t i) { return size_t(r) * stride + g * size + i; };
        const auto gate_of = [&](uint32_t i) { return silu(gate[size_t(r) * gate_stride + g * size + i]); };
        const auto given = [&](uint32_t i) { return x[at(i)] * (spec.gate_first ? gate_of(i) : 1.0); };
        double squares = 0;
        for (uint32_t i = 0; i < size; ++i) squares += given(i) * given(i);
        const double scale = spec.norm ? 1 / std::sqrt(squares / size + double(1e-5f)) : 1;
        for (uint32_t i = 0; i < size; ++i) {
          inside.push_back(got[at(i)]);
          want.push_back(given(i) * scale * (spec.norm ? weight[g * size + i] : 1.0) *
                         (spec.gate_first ? 1.0 : gate_of(i)));
        }
      }
    check.near_relative("y", inside, want, (size / double(spec.threads) + 40) * 0x1p-24);
    check.that(inside.size() == want.size(), "all values");
  };
  return {"gated_norm", fmt::format("{} rows={} groups={} size={}", field_text(spec), rows, groups, size),
          target_of(spec), run};
}

}  // namespace

void add_recurrence_cases(Sweep sweep, std::vector<Case>& cases) {
  constexpr uint32_t ssd = kernels::rule_ssd, delta = kernels::rule_delta;
  cases.push_back(recurrence({.key = 32}, {}, {5, 1}));
  cases.push_back(recurrence({.key = 16, .rule = ssd}, {}, {3, 2}));
  cases.push_back(gated_norm({}, 3, 4, 128));
  if (sweep == Sweep::quick) return;
  for (const uint32_t key : {1u, 13u, 48u})
    for (const uint32_t rule : {ssd, delta}) {
      cases.push_back(
          recurrence({.key = key, .rule = rule, .tile = 4}, {.heads = 3, .key_heads = 1, .value = 7}, {9, 1, 4}));
      cases.push_back(
          recurrence({.key = key, .rule = rule}, {.heads = 4, .key_heads = 2, .value = 40, .tiled = 1}, {1, 17}));
    }
  cases.push_back(
      recurrence({.key = 128, .tile = 1, .chained = 1}, {.heads = 2, .key_heads = 1, .value = 33}, {1, 1, 1}));
  for (const uint32_t first : {0u, 1u}) {
    cases.push_back(gated_norm({.gate_first = first, .threads = 64}, 2, 3, 100));
    cases.push_back(gated_norm({.norm = 0, .gate_first = first, .chained = 1}, 2, 1, 77));
  }
  cases.push_back(gated_norm({}, 0, 1, 8));
  if (sweep == Sweep::normal) return;
  for (const uint32_t rule : {ssd, delta}) {
    cases.push_back(recurrence({.key = 128, .rule = rule}, {.heads = 32, .key_heads = 16, .value = 128}, {300, 1, 77}));
    cases.push_back(recurrence({.key = 256, .rule = rule}, {.heads = 8, .key_heads = 8, .value = 64}, {65, 2}));
  }
  cases.push_back(gated_norm({.gate_first = 1}, 50, 1, 8192));
}

// A step of some sequences, and a prompt.
void add_recurrence_benches(std::vector<Bench>& all) {
  for (const auto& [sequences, rows] : {std::pair(1u, 1u), {32u, 1u}, {1u, 2048u}}) {
    const BenchedHeads heads{sequences, rows};
    Bench bench{.kernel = "recurrence",
                .shape = heads.text(),
                .lowest_target = "sm_90",
                .bytes = heads.bytes(),
                .flops = double(heads.all_rows()) * heads.values() * heads.size * 8};
    bench.prepare = [=](Machine& m, Random& random) -> Bench::Round {
      const Recurrence spec{
          .key = heads.size, .rule = kernels::rule_delta, .tile = heads.rows == 1 ? 1u : 16u, .chained = 1};
      Recurrence::Args args = heads.put(m, random);
      std::vector<ptx::DevicePtr<float>> states = heads.put_states(m, copies(heads.bytes()));
      return [=](Machine& machine, uint32_t round) mutable {
        args.state = states[round % states.size()];
        machine.launch(spec, args);
      };
    };
    all.push_back(std::move(bench));
  }
}

}  // namespace heddle::proof
