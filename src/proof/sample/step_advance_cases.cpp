// Cases of step_advance.
#include "kernels/sample/sample.h"
#include "kernels/sample/step_advance.h"
#include "proof/case.h"

namespace heddle::proof {

namespace {

using kernels::Sampled;
using kernels::SampleRow;
using kernels::StepAdvance;

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
      tokens[r] = random.below(1000);
      lengths[r] = random.below(100000);
      positions[r] = r % 4 == 3 ? ~0u : lengths[r];
      params[r].temperature = random.uniform(0, 2);
      params[r].top_k = random.below(100);
      params[r].seed = random.bits();
      params[r].step = r == 0 ? 0xffffffff : random.below(1000);  // a carry
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
        ++positions[r];
        ++lengths[r];
        ++params[r].step;
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

void add_step_advance_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(advance({}, 5, 2, 3));
  if (sweep == Sweep::quick) return;
  cases.push_back(advance({.chained = 1}, 300, 1, 2));
  cases.push_back(advance({}, 1, 3, 7, 0xffffffff));
  cases.push_back(advance({}, 0, 4, 2));
  if (sweep == Sweep::normal) return;
  cases.push_back(advance({.chained = 1}, 4096, 16, 40));
}

}  // namespace heddle::proof
