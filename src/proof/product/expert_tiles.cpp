#include "proof/product/expert_tiles.h"

#include <cmath>

#include "kernels/product/activations.h"

namespace heddle::proof {

namespace {

using kernels::MmaProduct;
using kernels::Product;
using quant::Format;

template <class Spec>
uint64_t place_in_slots(const Spec& s, uint32_t slot, uint32_t col) {
  return kernels::operand_place(slot, col, kernels::tile_apart(s.weights()), s.columns, s.slices * s.tile_cols);
}

template <class Spec>
Case case_of(Spec units, uint32_t rows, uint32_t cols, const std::vector<uint32_t>& rows_of_expert) {
  units.experts = 1;
  units.slices = (cols + units.tile_cols - 1) / units.tile_cols;
  std::string name = field_text(units) + fmt::format(" {} -> {} rows of experts", cols, rows);
  for (uint32_t n : rows_of_expert) name += fmt::format(" {}", n);
  auto run = [=](Machine& m, Random& random, Check& check) {
    const Format format = units.weights();
    const uint32_t ld = units.slices * units.tile_cols, outputs = units.out == Product::gate ? rows / 2 : rows;
    std::vector<ProductWeights> experts;
    std::vector<uint8_t> tiles_of_all;
    for (size_t e = 0; e < rows_of_expert.size(); ++e) {
      experts.push_back(product_weights(random, format, rows, cols, units.tile_cols));
      const std::vector<uint8_t> tiles = tiles_of(experts.back().shape, experts.back().file);
      tiles_of_all.insert(tiles_of_all.end(), tiles.begin(), tiles.end());
    }
    std::vector<kernels::ExpertTile> tiles;
    std::vector<uint32_t> slots;  // the expert of each slot, or none
    const uint32_t none = 0xffffffff;
    for (uint32_t e = 0; e < rows_of_expert.size(); ++e) {
      for (uint32_t done = 0; done < rows_of_expert[e]; done += units.columns) {
        const uint32_t here = std::min(units.columns, rows_of_expert[e] - done);
        tiles.push_back({e, uint32_t(slots.size()), here, 0});
        slots.insert(slots.end(), here, e);
      }
      while (slots.size() % units.columns) slots.push_back(none);
    }
    std::vector<f16> x(slots.size() * ld, to_f16(NAN));
    std::vector<std::vector<double>> values(slots.size());
    std::vector<float> scales(slots.size(), NAN);
    for (uint32_t v = 0; v < slots.size(); ++v) {
      if (slots[v] == none) continue;
      scales[v] = std::ldexp(1.0f, int(random.below(5)) - 2);
      for (uint32_t c = 0; c < ld; ++c) {
        const f16 half = to_f16(c < cols ? random.normal() : 0.0f);
        x[place_in_slots(units, v, c)] = half;
        values[v].push_back(double(to_f32(half)) * scales[v]);
      }
    }
    const std::vector<float> bias = random.normals(experts.size() * rows);
    Product::Args args{.y = m.poisoned<float>(slots.size() * outputs),
                       .x = {m.put(x).address},
                       .w = m.put(tiles_of_all),
                       .bias = m.put(bias),
                       .expert_bytes = experts[0].shape.bytes(),
                       .rows = rows,
                       .cols = cols,
                       .y_stride = outputs,
                       .blocks = 3,
                       .scale = 1,
                       .scales = m.put(scales),
                       .tiles = m.put(tiles),
                       .tile_count = m.put(std::vector<uint32_t>{uint32_t(tiles.size())})};
    m.launch(units, args);
    const std::vector<float> y = m.get(args.y, slots.size() * outputs);
    std::vector<float> got;
    std::vector<double> want, bound;
    for (uint32_t v = 0; v < slots.size(); ++v) {
      if (slots[v] == none) continue;
      const std::vector<double> exact(cols, 0);
      for (uint32_t o = 0; o < outputs; ++o) {
        const bool gated = units.out == Product::gate;
        const uint32_t row = gated ? o / 2 * 4 + o % 2 : o;
        auto sum_at = [&](uint32_t r) {
          ProductSum sum = product_sum(experts[slots[v]], r, values[v], exact);
          if (units.bias) sum.value += bias[size_t(slots[v]) * rows + r];
          return sum;
        };
        const ProductSum sum = sum_at(row);
        const double error = sum.scale * 0x1p-10 * 1.01 + std::abs(sum.value) * 0x1p-23;
        got.push_back(y[size_t(v) * outputs + o]);
        if (gated) {
          const ProductSum up = sum_at(row + 2);
          const Activated a = proof::gated(units.activation, sum.value, error, up.value,
                                           up.scale * 0x1p-10 * 1.01 + std::abs(up.value) * 0x1p-23);
          want.push_back(a.value);
          bound.push_back(a.error + std::abs(a.value) * 0x1p-20);
        } else {
          want.push_back(sum.value);
          bound.push_back(error);
        }
      }
    }
    check.near("y", got, want, bound, 1.0);
  };
  std::string kernel(Spec::name), target(Spec::lowest_target);
  if constexpr (requires { units.copies; })
    if (units.copies == kernels::copies_async) {
      kernel = "async_" + kernel;
      target = target_of(units);
    }
  return {kernel, name, target, run};
}

}  // namespace

Case expert_tiles(const MatrixSpec& units, uint32_t rows, uint32_t cols, const std::vector<uint32_t>& rows_of_expert,
                  const char* file) {
  Case c = std::visit([&](const auto& spec) { return case_of(spec, rows, cols, rows_of_expert); }, units);
  c.file = file;
  return c;
}

}  // namespace heddle::proof
