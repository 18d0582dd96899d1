// Cases of the penalties and biases.
#include <set>

#include "kernels/sample_penalties.h"
#include "proof/layer_cases.h"

namespace heddle::proof {
namespace {

using namespace kernels;

Case penalties(ApplyPenalties spec, uint32_t rows, uint32_t vocab, uint32_t listed) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const std::vector<float> logits = random.normals(size_t(rows) * vocab, 5);
    std::vector<double> want(logits.begin(), logits.end()), scale(logits.size(), 0);
    std::vector<PenaltyRow> params(rows);
    std::vector<TokenCount> tokens{{0, 1}};  // before the first list lies an entry of nobody
    std::vector<TokenBias> biases{{0, 1000.0f}};
    for (uint32_t r = 0; r < rows; ++r) {
      PenaltyRow& p = params[r];
      p.repetition = random.uniform(1, 2), p.presence = random.uniform(-1, 1), p.frequency = random.uniform(0, 0.5f);
      p.first_token = uint32_t(tokens.size()), p.first_bias = uint32_t(biases.size());
      std::set<uint32_t> used;  // some ids are beyond the vocabulary
      for (uint32_t i = 0; i < (r == 1 ? 0 : listed); ++i) used.insert(random.below(vocab + 3));
      double* row = want.data() + size_t(r) * vocab;
      double* sizes = scale.data() + size_t(r) * vocab;
      for (uint32_t id : used) {
        const uint32_t count = random.below(4);
        tokens.push_back({id, count}), ++p.tokens;
        if (id >= vocab || count == 0) continue;
        row[id] = row[id] > 0 ? row[id] / p.repetition : row[id] * p.repetition;
        const double less = double(count) * p.frequency + p.presence;
        sizes[id] += std::abs(row[id]) + std::abs(double(count) * p.frequency) + std::abs(p.presence);
        row[id] -= less;
      }
      for (uint32_t id : used) {
        if (random.below(2)) continue;
        const float bias = random.below(5) == 0 ? -INFINITY : random.uniform(-3, 3);
        biases.push_back({id, bias}), ++p.biases;
        if (id < vocab) row[id] += bias, sizes[id] += std::abs(row[id]);
      }
    }
    const ApplyPenalties::Args args{.logits = m.put(logits),
                                    .params = {m.put(params).address},
                                    .tokens = {m.put(tokens).address},
                                    .biases = {m.put(biases).address},
                                    .rows = rows,
                                    .vocab = vocab};
    m.launch(spec, args);
    std::vector<float> got = m.get(args.logits, logits.size());
    for (size_t i = 0; i < got.size(); ++i)
      if (std::isinf(want[i])) {
        check.that(double(got[i]) == want[i], fmt::format("logit {} is {}, not {}", i, got[i], want[i]));
        got[i] = 0, want[i] = 0, scale[i] = 0;
      }
    // a quotient or product, a fused product, a difference and a sum; untouched logits are exact
    check.near("logits", got, want, scale, 3 * 0x1p-24);
    check.that(params.size() == rows, "all rows");
  };
  return {"apply_penalties", fmt::format("{} rows={} vocab={} listed={}", field_text(spec), rows, vocab, listed),
          target_of(spec), run};
}

}  // namespace

void add_penalty_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(penalties({}, 3, 1000, 300));
  if (sweep == Sweep::quick) return;
  cases.push_back(penalties({.threads = 32}, 4, 5, 10));
  cases.push_back(penalties({.threads = 64, .chained = 1}, 2, 32001, 2000));
  cases.push_back(penalties({}, 3, 100, 0));
  cases.push_back(penalties({}, 0, 100, 5));
  if (sweep == Sweep::full) cases.push_back(penalties({}, 20, 262144, 8192));
}

}  // namespace heddle::proof
