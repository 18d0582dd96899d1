// Cases of the layer kernels.
#include "kernels/norm.h"
#include "proof/case.h"

namespace heddle::proof {
namespace {

using kernels::RmsNorm;

Case rms_norm(RmsNorm spec, uint32_t rows, uint32_t cols) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const std::vector<float> x = random.normals(size_t(rows) * cols), w = random.normals(cols);
    const RmsNorm::Args args{
        .y = m.poisoned<float>(x.size()), .x = m.put(x), .w = m.put(w), .rows = rows, .cols = cols, .eps = 1e-5f};
    m.launch(spec, args);
    std::vector<double> want;
    for (uint32_t r = 0; r < rows; ++r) {
      double squares = 0;
      for (uint32_t c = 0; c < cols; ++c) squares += double(x[r * cols + c]) * x[r * cols + c];
      const double scale = 1 / std::sqrt(squares / cols + double(1e-5f));
      for (uint32_t c = 0; c < cols; ++c) want.push_back(x[r * cols + c] * scale * w[c]);
    }
    check.near_relative("y", m.get(args.y, x.size()), want, 1e-5);
  };
  return {"rms_norm", fmt::format("{} rows={} cols={}", field_text(spec), rows, cols), "sm_75", run};
}

}  // namespace

void add_layer_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(rms_norm({.threads = 256, .vec = 4}, 3, 4096));
  if (sweep == Sweep::quick) return;
  for (uint32_t cols : {1u, 63u, 129u, 4097u}) cases.push_back(rms_norm({.threads = 128}, 5, cols));
}

}  // namespace heddle::proof
