// Cases of route and mix, and their timing.
#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/mixture/mixture.h"
#include "proof/bench.h"
#include "proof/mixture/expert_choice.h"

namespace heddle::proof {
namespace {

using kernels::Mix;
using kernels::Route;

// steps: logits are multiples of 1 / steps, so that many are equal; 0: all differ. broken: every third is NaN, the last
// row all of them, and the row before -infinity; then only ids are compared.
Case route(Route spec, uint32_t rows, uint32_t experts, uint32_t used, uint32_t steps = 0, bool broken = false) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t stride = experts + 1;
    std::vector<float> logits = random.normals(size_t(rows) * stride, 4);
    for (size_t i = 0; i < logits.size(); ++i) {
      if (steps) logits[i] = std::round(logits[i] * float(steps)) / float(steps);  // -0 and 0 among them
      if (i % stride == experts) logits[i] = 1000;                                 // not an expert
      if (!broken || i % stride == experts) continue;
      if (i % 3 == 0 || i / stride + 1 == rows) logits[i] = std::numeric_limits<float>::quiet_NaN();
      if (i / stride + 2 == rows) logits[i] = -std::numeric_limits<float>::infinity();
    }
    const Route::Args args{.ids = m.poisoned<uint32_t>(size_t(rows) * used),
                           .weights = m.poisoned<float>(size_t(rows) * used),
                           .logits = m.put(logits),
                           .rows = rows,
                           .experts = experts,
                           .used = used,
                           .logits_stride = stride};
    m.launch(spec, args);
    std::vector<uint32_t> ids;
    std::vector<double> want, sizes;
    // the exponential to 4e-7 twice, and up to 16 additions in a lane, 5 in the warp, and the division
    const double bound = 8e-7 + 22 * 0x1p-24;
    for (size_t r = 0; r < rows; ++r) {
      const float* row = logits.data() + r * stride;
      std::vector<uint32_t> order(experts);
      std::iota(order.begin(), order.end(), 0u);
      std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return std::isnan(row[a]) ? false : std::isnan(row[b]) || row[a] > row[b];
      });
      double sum = 0;
      for (uint32_t e = 0; e < (spec.sum_to_one ? used : experts); ++e)
        sum += std::exp(double(row[order[e]]) - row[order[0]]);
      for (uint32_t j = 0; j < used; ++j) {
        const double below = double(row[order[0]]) - row[order[j]];
        ids.push_back(order[j]);
        want.push_back(std::exp(-below) / sum);
        sizes.push_back(want.back() * (1 + below * 0x1p-24 / bound));  // the difference is rounded
      }
    }
    check.equal("ids", m.get(args.ids, ids.size()), ids);
    if (!broken) check.near("weights", m.get(args.weights, want.size()), want, sizes, bound);
  };
  return {"route",
          fmt::format("{} rows={} used={}/{} steps={} broken={}", field_text(spec), rows, used, experts, steps, broken),
          target_of(spec), run};
}

// The other choices, from `groups` groups of which two are used.
Case routed(Route spec, uint32_t rows, uint32_t experts, uint32_t used, uint32_t groups) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const std::vector<float> logits = random.normals(size_t(rows) * experts, 2), bias = random.normals(experts, 0.3f),
                             scales = random.normals(experts);
    const Route::Args args{.ids = m.poisoned<uint32_t>(size_t(rows) * used),
                           .weights = m.poisoned<float>(size_t(rows) * used),
                           .logits = m.put(logits),
                           .rows = rows,
                           .experts = experts,
                           .used = used,
                           .logits_stride = experts,
                           .choice_bias = m.put(bias),
                           .groups = groups,
                           .groups_used = 2,
                           .scale = 2.5f,
                           .near = 0.5f,
                           .scales = m.put(scales)};
    m.launch(spec, args);
    const std::vector<uint32_t> ids = m.get(args.ids, size_t(rows) * used);
    const std::vector<float> weights = m.get(args.weights, ids.size());
    for (uint32_t r = 0; r < rows; ++r) {
      const auto first = long(r) * experts, picked = long(r) * used;
      check_routed({.choice = kernels::choice_of(spec),
                    .used = used,
                    .groups = groups,
                    .groups_used = 2,
                    .scale = 2.5,
                    .near = 0.5,
                    .logits = {logits.begin() + first, logits.begin() + first + experts},
                    .errors = std::vector<double>(experts),
                    .bias = bias,
                    .scales = scales},
                   {ids.begin() + picked, ids.begin() + picked + used},
                   {weights.begin() + picked, weights.begin() + picked + used}, check);
    }
  };
  return {"route", fmt::format("{} rows={} used={}/{} groups={}", field_text(spec), rows, used, experts, groups),
          target_of(spec), run};
}

// gate_stride: 0 is one gate for all rows, and an open one. by_slot: twice as many slots as results, in any order.
Case mix(Mix spec, uint32_t rows, uint32_t cols, uint32_t used, float scale = 1, uint32_t gate_stride = 3) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const std::vector<float> before = random.normals(size_t(rows) * cols), shared = random.normals(before.size());
    const uint32_t results = rows * used, slots = spec.by_slot ? 2 * results : results;
    const std::vector<float> y = random.normals(size_t(slots) * cols), weights = random.normals(results);
    std::vector<uint32_t> slot_of(results);
    for (uint32_t i = 0; i < results; ++i) slot_of[i] = spec.by_slot ? 2 * (results - 1 - i) + random.below(2) : i;
    for (uint32_t i = 0; spec.skips && i < results; i += 1 + random.below(3)) slot_of[i] = ~0u;
    std::vector<float> gates = random.normals(size_t(rows) * gate_stride, 5);
    if (gate_stride == 0) gates = {std::numeric_limits<float>::infinity()};
    Mix::Args args{.out = spec.add ? m.put(before) : m.poisoned<float>(before.size()),
                   .y = m.put(y),
                   .weights = m.put(weights),
                   .rows = rows,
                   .cols = cols,
                   .used = used,
                   .gate_stride = gate_stride,
                   .scale = scale};
    if (spec.by_slot) args.slots = m.put(slot_of);
    if (spec.shared) {
      args.shared = m.put(shared);
      args.shared_gate = m.put(gates);
    }
    m.launch(spec, args);
    std::vector<double> want, sizes;
    for (size_t i = 0; i < before.size(); ++i) {
      const size_t r = i / cols, c = i % cols;
      double sum = 0, size = 0;
      auto add = [&](double part) {
        sum += part;
        size += std::abs(part);
      };
      for (size_t j = 0; j < used; ++j)
        if (slot_of[r * used + j] != ~0u)
          add((spec.weighted ? double(weights[r * used + j]) : 1.0) * y[size_t(slot_of[r * used + j]) * cols + c]);
      if (spec.shared) add(shared[i] / (1 + std::exp(-double(gates[r * gate_stride]))));
      want.push_back(sum * scale + (spec.add ? before[i] : 0));
      sizes.push_back(size * scale + (spec.add ? std::abs(before[i]) : 0));
    }
    // a rounding per slot, the scale and the sum; the sigmoid to 7e-7
    check.near("out", m.get(args.out, want.size()), want, sizes, (used + 3) * 0x1p-24 + (spec.shared ? 7e-7 : 0));
  };
  return {"mix",
          fmt::format("{} rows={} cols={} used={} scale={} gate_stride={}", field_text(spec), rows, cols, used, scale,
                      gate_stride),
          target_of(spec), run};
}

}  // namespace

void add_mixture_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(route({}, 5, 60, 4));
  cases.push_back(mix({.shared = 1}, 3, 100, 4));
  cases.push_back(routed({.largest = 64, .score = kernels::score_sigmoid, .choice_bias = 1}, 3, 60, 4, 1));
  if (sweep == Sweep::quick) return;
  for (uint32_t sum_to_one : {0u, 1u}) {
    for (uint32_t largest : {32u, 64u, 128u, 256u, 512u}) {
      cases.push_back(route({.largest = largest, .sum_to_one = sum_to_one}, 3, largest, 8));
      cases.push_back(route({.largest = largest, .sum_to_one = sum_to_one, .chained = 1}, 3, largest - 5, 6, 2));
    }
    cases.push_back(route({.sum_to_one = sum_to_one}, 9, 512, 32, 1));
    cases.push_back(route({.sum_to_one = sum_to_one}, 6, 1, 1));
    cases.push_back(route({.largest = 32, .sum_to_one = sum_to_one}, 4, 32, 32));
    cases.push_back(route({.largest = 32, .sum_to_one = sum_to_one}, 4, 8, 8, 1));
    cases.push_back(route({.largest = 128, .sum_to_one = sum_to_one}, 6, 100, 32, 1, true));
    cases.push_back(route({.sum_to_one = sum_to_one}, 0, 64, 4));
  }
  for (const Route& choice : routing_choices(Route{})) {
    cases.push_back(routed(choice, 6, 160, 6, 8));
    Route of_few = choice;
    of_few.largest = 32;
    cases.push_back(routed(of_few, 5, 30, 3, 3));
  }
  for (const Route& choice : routing_choices(Route{.chained = 1})) cases.push_back(routed(choice, 3, 512, 22, 32));
  for (uint32_t add : {0u, 1u})
    for (uint32_t shared : {0u, 1u}) {
      cases.push_back(mix({.threads = 32, .add = add, .shared = shared}, 5, 65, 3, 0.5f));
      cases.push_back(mix({.vec = 4, .add = add, .shared = shared, .by_slot = 1, .weighted = 0}, 3, 68, 3));
      cases.push_back(mix({.vec = 4, .add = add, .shared = shared, .by_slot = 1, .skips = 1}, 4, 132, 5));
      cases.push_back(mix({.add = add, .shared = shared, .chained = 1}, 2, 300, 32));
      cases.push_back(mix({.add = add, .shared = shared}, 3, 1, 1));
      cases.push_back(mix({.add = add, .shared = shared}, 0, 64, 2));
      cases.push_back(mix({.add = add, .shared = shared}, 4, 40, 2, 1, 0));
      for (uint32_t by_slot : {0u, 1u}) {
        cases.push_back(mix({.threads = 32, .vec = 4, .add = add, .shared = shared, .by_slot = by_slot}, 3, 300, 8));
        cases.push_back(mix({.threads = 32, .vec = 2, .add = add, .shared = shared, .by_slot = by_slot}, 5, 66, 3));
      }
      cases.push_back(mix({.add = add, .shared = shared, .by_slot = 1}, 0, 64, 2));
    }
  cases.push_back(mix({.vec = 4, .shared = 1}, 3, 40, 0, 0.5f));  // the shared expert alone
  if (sweep == Sweep::normal) return;
  cases.push_back(route({.largest = 128, .sum_to_one = 1, .chained = 1}, 5000, 128, 8));
  cases.push_back(mix({.shared = 1, .chained = 1}, 2000, 2048, 8));
  cases.push_back(mix({.vec = 4, .shared = 1, .by_slot = 1, .chained = 1}, 2000, 2048, 8));
}

void add_mixture_benches(std::vector<Bench>& all) {
  for (uint32_t vec : {1u, 4u})
    for (uint32_t rows : {64u, 512u, 2048u}) {
      const uint32_t cols = 2048, used = 8;
      const Mix spec{.vec = vec, .by_slot = 1, .chained = 1};
      const size_t count = size_t(rows) * used * cols;
      all.push_back(float_bench(
          "mix", fmt::format("{} rows of {}, {} experts, vec {}", rows, cols, used, vec), spec, count,
          double(count) * 4, 2.0 * double(count),
          [=](Machine& m, Random& random) {
            std::vector<uint32_t> slots(rows * used);
            std::iota(slots.begin(), slots.end(), 0u);
            for (size_t i = slots.size(); i > 1; --i) std::swap(slots[i - 1], slots[random.below(uint32_t(i))]);
            return Mix::Args{.out = m.poisoned<float>(size_t(rows) * cols),
                             .weights = m.put(random.normals(slots.size())),
                             .slots = m.put(slots),
                             .rows = rows,
                             .cols = cols,
                             .used = used};
          },
          [](Mix::Args& args, ptx::DevicePtr<float> y) { args.y = y; }));
    }
  for (uint32_t rows : {1u, 64u, 2048u}) {
    const Route spec{.largest = 128, .sum_to_one = 1, .chained = 1};
    all.push_back(float_bench(
        "route", fmt::format("{} rows, 8 of 128 experts", rows), spec, size_t(rows) * 128, rows * 512.0, 0,
        [=](Machine& m, Random&) {
          return Route::Args{.ids = m.poisoned<uint32_t>(size_t(rows) * 8),
                             .weights = m.poisoned<float>(size_t(rows) * 8),
                             .rows = rows,
                             .experts = 128,
                             .used = 8,
                             .logits_stride = 128};
        },
        [](Route::Args& args, ptx::DevicePtr<float> logits) { args.logits = logits; }));
  }
}

}  // namespace heddle::proof
