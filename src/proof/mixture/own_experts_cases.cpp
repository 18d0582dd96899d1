// Cases of own_experts.
#include "kernels/mixture/own_experts.h"
#include "proof/case.h"

namespace heddle::proof {
namespace {

using kernels::OwnExperts;

Case own_experts(OwnExperts spec, uint32_t rows, uint32_t used, uint32_t experts, uint32_t first, uint32_t count) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    std::vector<uint32_t> ids(size_t(rows) * used), want_ids;
    for (uint32_t& id : ids) id = random.below(experts);
    const std::vector<float> weights = random.normals(ids.size());
    std::vector<float> want_weights = weights;
    for (uint32_t row = 0; row < rows; ++row) {
      const auto of_rank = [&](uint32_t j) { return ids[row * used + j] - first; };
      uint32_t other = spec.marks ? count : 0;
      for (uint32_t j = used; !spec.marks && j-- > 0;)
        if (of_rank(j) < count) other = of_rank(j);
      for (uint32_t j = 0; j < used; ++j) {
        const bool here = of_rank(j) < count;
        want_ids.push_back(here ? of_rank(j) : other);
        if (!here) want_weights[row * used + j] = 0;
      }
    }
    const OwnExperts::Args args{
        .ids = m.put(ids), .weights = m.put(weights), .rows = rows, .used = used, .first = first, .count = count};
    m.launch(spec, args);
    check.equal("ids", m.get(args.ids, ids.size()), want_ids);
    check.equal("weights", m.get(args.weights, ids.size()), want_weights);
  };
  return {"own_experts",
          fmt::format("{} rows={} used={} experts={} first={} count={}", field_text(spec), rows, used, experts, first,
                      count),
          target_of(spec), run};
}

}  // namespace

void add_own_experts_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(own_experts({}, 9, 8, 128, 64, 64));
  if (sweep == Sweep::quick) return;
  for (uint32_t used : {1u, 2u, 3u, 31u, 32u})
    for (uint32_t marks : {0u, 1u})
      cases.push_back(own_experts({.marks = marks, .chained = used % 2}, 5, used, 7, 2, 3));
  cases.push_back(own_experts({}, 1, 4, 16, 0, 16));
  cases.push_back(own_experts({}, 3, 4, 512, 511, 1));
  cases.push_back(own_experts({}, 0, 4, 16, 0, 8));
  if (sweep == Sweep::full) cases.push_back(own_experts({.chained = 1}, 4096, 8, 256, 128, 64));
}

}  // namespace heddle::proof
