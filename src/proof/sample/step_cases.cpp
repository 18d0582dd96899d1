// Cases of what is done to logits before a token is picked, and with the tokens after: softcap_rows, step_advance.
#include "kernels/layer/softcap_rows.h"
#include "kernels/sample/sample.h"
#include "kernels/sample/step_advance.h"
#include "proof/layer/layer_cases.h"

namespace heddle::proof {
namespace {

using kernels::Sampled;
using kernels::SampleRow;
using kernels::SoftcapRows;
using kernels::StepAdvance;

Case softcap(SoftcapRows spec, uint32_t rows, uint32_t cols, float cap = 30, float scale = 1, float size = 20) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t stride = cols + 2;
    std::vector<float> y = random.normals(size_t(rows) * stride, size);
    for (size_t i = 0; i < y.size(); i += 5) y[i] *= 1e-4f;  // close to 0
    if (!y.empty()) y[0] = 1e37f;
    const std::vector<float> bias = random.normals(cols, size);
    const auto at = m.put(y);
    m.launch(spec, {.y = at,
                    .bias = spec.bias ? m.put(bias) : ptx::DevicePtr<float>{},
                    .rows = rows,
                    .cols = cols,
                    .stride = stride,
                    .scale = scale,
                    .cap = cap});
    std::vector<double> want(y.begin(), y.end()), sizes(y.size());  // the gaps stay
    for (size_t i = 0; i < y.size(); ++i) {
      if (i % stride >= cols) continue;
      const double b = spec.bias ? bias[i % stride] : 0.0, v = (y[i] + b) * scale;
      // what the sum of y and bias rounds to is passed on by the slope
      const double bent = spec.cap ? std::tanh(v / cap) : 0, sum = (std::abs(y[i]) + std::abs(b)) * scale;
      want[i] = spec.cap ? cap * bent : v;
      sizes[i] = std::abs(want[i]) + (spec.bias && std::abs(bent) < 1 ? sum * (1 - bent * bent) : 0);
    }
    // tanh to 5e-7, and five roundings
    check.near("y", m.get(at, y.size()), want, sizes, 5e-7 + 5 * 0x1p-24);
  };
  return {"softcap_rows",
          fmt::format("{} rows={} cols={} cap={} scale={} size={}", field_text(spec), rows, cols, cap, scale, size),
          target_of(spec), run};
}

template <class T>
std::vector<uint32_t> words(const std::vector<T>& x) {
  std::vector<uint32_t> w(x.size() * sizeof(T) / 4);
  if (!x.empty()) std::memcpy(w.data(), x.data(), w.size() * 4);
  return w;
}

// Several steps after one another; every fourth row is not in use, and in the second step nothing could be picked for
// the first row.
Case advance(StepAdvance spec, uint32_t rows, uint32_t ring, uint32_t steps, uint64_t first_step = 0) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    std::vector<uint32_t> tokens(rows), positions(rows), lengths(rows);
    std::vector<SampleRow> params(rows);
    std::vector<Sampled> history(size_t(ring) * rows, Sampled{7, 0.5f});
    for (uint32_t r = 0; r < rows; ++r) {
      tokens[r] = random.below(1000), lengths[r] = random.below(100000);
      positions[r] = r % 4 == 3 ? ~0u : lengths[r];
      params[r].temperature = random.uniform(0, 2), params[r].top_k = random.below(100);
      params[r].seed = random.bits(), params[r].step = r == 0 ? 0xffffffff : random.below(1000);  // a carry
    }
    StepAdvance::Args args{.tokens = m.put(tokens),
                           .positions = m.put(positions),
                           .lengths = m.put(lengths),
                           .params = m.put(words(params)),
                           .history = m.put(words(history)),
                           .step = m.put(std::vector<uint64_t>{first_step}),
                           .rows = rows,
                           .ring = ring};
    for (uint32_t step = 0; step < steps; ++step) {
      std::vector<Sampled> picked(rows);
      for (uint32_t r = 0; r < rows; ++r)
        picked[r] = {step == 1 && r == 0 ? kernels::no_token : random.below(200000), random.normal()};
      args.picked = m.put(words(picked));
      m.launch(spec, args);
      for (uint32_t r = 0; r < rows; ++r) {
        if (r % 4 == 3) continue;
        tokens[r] = picked[r].id == kernels::no_token ? 0 : picked[r].id;
        ++positions[r], ++lengths[r], ++params[r].step;
        history[(first_step + step) % ring * rows + r] = picked[r];
      }
    }
    check.equal("tokens", m.get(args.tokens, rows), tokens);
    check.equal("positions", m.get(args.positions, rows), positions);
    check.equal("lengths", m.get(args.lengths, rows), lengths);
    check.equal("params", m.get(args.params, words(params).size()), words(params));
    check.equal("history", m.get(args.history, words(history).size()), words(history));
    check.equal("step", m.get(args.step, 1), std::vector<uint64_t>{first_step + steps});
  };
  return {"step_advance",
          fmt::format("{} rows={} ring={} steps={}+{}", field_text(spec), rows, ring, first_step, steps),
          target_of(spec), run};
}

}  // namespace

void add_step_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(softcap({}, 2, 300));
  cases.push_back(advance({}, 5, 2, 3));
  if (sweep == Sweep::quick) return;
  for (uint32_t bias : {0u, 1u})
    for (uint32_t cap : {0u, 1u}) {
      cases.push_back(softcap({.threads = 32, .bias = bias, .cap = cap}, 5, 65, 30, 0.0625f));
      cases.push_back(softcap({.bias = bias, .cap = cap, .chained = 1}, 1, 1000, 1.5f, 3));
      cases.push_back(softcap({.bias = bias, .cap = cap}, 3, 1));
      cases.push_back(softcap({.bias = bias, .cap = cap}, 0, 64));
    }
  cases.push_back(advance({.chained = 1}, 300, 1, 2));
  cases.push_back(advance({}, 1, 3, 7, 0xffffffff));
  cases.push_back(advance({}, 0, 4, 2));
  if (sweep == Sweep::normal) return;
  cases.push_back(softcap({.bias = 1, .chained = 1}, 64, 128256));
  cases.push_back(advance({.chained = 1}, 4096, 16, 40));
}

}  // namespace heddle::proof
