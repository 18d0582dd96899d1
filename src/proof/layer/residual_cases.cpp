// Cases of the residual add.
#include "kernels/layer/residual.h"
#include "proof/layer/layer_cases.h"

namespace heddle::proof {
namespace {

using kernels::ResidualAdd;

// shift: values that the second input lies behind an aligned address. in_place: y is a.
Case residual_add(ResidualAdd spec, uint32_t n, uint32_t shift, bool in_place) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const std::vector<float> a = random.normals(n), b = random.normals(size_t(n) + shift);
    auto a_in = m.put(a);
    const ResidualAdd::Args args{.y = in_place ? a_in : m.poisoned<float>(n),
                                 .a = a_in,
                                 .b = {m.put(b).address + shift * sizeof(float)},
                                 .n = n,
                                 .scale = 0.22f};
    m.launch(spec, args);
    std::vector<double> want, scale;
    for (uint32_t i = 0; i < n; ++i) {
      want.push_back(a[i] + (spec.scaled ? double(0.22f) : 1.0) * b[i + shift]);
      scale.push_back(std::abs(want.back()));
    }
    check.near("y", m.get(args.y, n), want, scale, 0x1p-24);  // one rounding
    check.that(want.size() == n, "all values");
  };
  return {"residual_add", fmt::format("{} n={} shift={} in_place={}", field_text(spec), n, shift, in_place),
          target_of(spec), run};
}

}  // namespace

void add_residual_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(residual_add({}, 2050, 0, false));
  cases.push_back(residual_add({.scaled = 1}, 1027, 1, true));
  if (sweep == Sweep::quick) return;
  for (uint32_t n : {0u, 1u, 3u, 127u, 128u, 129u, 256u})
    for (uint32_t shift : {0u, 1u})
      cases.push_back(residual_add({.threads = 32, .scaled = n & 1}, n, shift, shift == 1));
  cases.push_back(residual_add({.threads = 1024, .chained = 1}, 100000, 0, true));
  if (sweep == Sweep::full) cases.push_back(residual_add({}, 20000003, 0, false));
}

}  // namespace heddle::proof
