// Cases of wgmma_product.
#include "kernels/product/activations.h"
#include "proof/product/product_problem.h"

namespace heddle::proof {

namespace {

using kernels::Product;
using kernels::WgmmaProduct;
using quant::Format;

Case wgmma_product(WgmmaProduct units, const ProductShape& s, uint32_t vectors, Format second = Format::q6_k) {
  units.slices = (s.cols + units.tile_cols - 1) / units.tile_cols;
  Product spec = product_like(units, vectors);
  spec.second = uint32_t(second);
  spec.mixed = s.second_rows > 0;
  return {"wgmma_product", field_text(units) + " " + shape_text(s, vectors, second), "sm_90a",
          [=](Machine& m, Random& random, Check& check) { run_product(spec, s, m, random, check, units); }};
}

Case special_sums_of_wgmma() {
  const WgmmaProduct spec{.format = uint32_t(Format::f32),
                          .tile_cols = 256,
                          .slices = 1,
                          .columns = 8,
                          .row_groups = 1,
                          .out = Product::qkv,
                          .bias = 1};
  return {"wgmma_product", "NaN and infinities " + field_text(spec), "sm_90a",
          [=](Machine& m, Random&, Check& check) { run_special_sums({.tile_cols = spec.tile_cols}, m, check, spec); }};
}

// Experts: tiles of different experts, one without rows among them, written by the vectors' slots.
Case expert_tiles(WgmmaProduct units, uint32_t rows, uint32_t cols, const std::vector<uint32_t>& rows_of_expert) {
  units.experts = 1;
  units.slices = (cols + units.tile_cols - 1) / units.tile_cols;
  std::string name = field_text(units) + fmt::format(" {} -> {} rows of experts", cols, rows);
  for (uint32_t n : rows_of_expert) name += fmt::format(" {}", n);
  auto run = [=](Machine& m, Random& random, Check& check) {
    const Format format = units.weights();
    const uint32_t ld = units.filled_cols(), outputs = units.out == Product::gate ? rows / 2 : rows;
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
        x[kernels::operand_place(v, c, kernels::tile_apart(format), units.columns, ld)] = half;
        values[v].push_back(double(to_f32(half)) * scales[v]);
      }
    }
    Product::Args args{.y = m.poisoned<float>(slots.size() * outputs),
                       .x = {m.put(x).address},
                       .w = m.put(tiles_of_all),
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
        const ProductSum sum = product_sum(experts[slots[v]], row, values[v], exact);
        const double error = sum.scale * 0x1p-10 * 1.01;
        got.push_back(y[size_t(v) * outputs + o]);
        if (gated) {
          const ProductSum up = product_sum(experts[slots[v]], row + 2, values[v], exact);
          const double a = sum.value / (1 + std::exp(-sum.value)), up_error = up.scale * 0x1p-10 * 1.01;
          want.push_back(a * up.value);
          bound.push_back(error * 1.2 * (std::abs(up.value) + up_error) + up_error * std::abs(a) +
                          std::abs(a * up.value) * 0x1p-20 + 1e-6 * std::abs(sum.value * up.value));
        } else {
          want.push_back(sum.value);
          bound.push_back(error);
        }
      }
    }
    check.near("y", got, want, bound, 1.0);
  };
  return {"wgmma_product", name, "sm_90a", run};
}

}  // namespace

void add_wgmma_product_cases(Sweep sweep, std::vector<Case>& cases) {
  const WgmmaProduct plain{.columns = 8, .row_groups = 1, .stages = 2, .chained = 1};
  auto add = [&](const ProductShape& s, uint32_t vectors, auto&& change) {
    WgmmaProduct p = plain;
    change(p);
    cases.push_back(wgmma_product(p, s, vectors));
  };
  add({40, 1024, 2}, 3, [](WgmmaProduct&) {});
  if (sweep == Sweep::quick) return;
  cases.push_back(special_sums_of_wgmma());
  for (Format format : kernels::known_formats)
    add({35, 1024, 2}, 5, [&](WgmmaProduct& p) {
      p.format = uint32_t(format);
      p.steps = 2;
    });
  add({64, 1024, 2}, 0, [](WgmmaProduct&) {});
  for (uint32_t tile_cols : {256u, 512u, 1024u})
    for (uint32_t rows : {1u, 70u, 200u})
      add({rows, tile_cols * 5 / 2, 2}, rows == 70 ? 17 : 9, [&](WgmmaProduct& p) {
        p.tile_cols = tile_cols;
        p.columns = rows == 70 ? 16 : 8;
        p.row_groups = rows == 70 ? 2 : 1;
        p.steps = tile_cols / 256;
        p.out = Product::add;
        p.bias = rows == 70;
        p.stages = 3;
        p.format = uint32_t(tile_cols == 256 ? Format::q8_0 : Format::q4_k);
        p.ahead = rows == 1 ? 1 : 2;
      });
  for (uint32_t columns : {32u, 64u, 128u, 256u})
    add({68, 256, 2}, columns + 1, [&](WgmmaProduct& p) {
      p.tile_cols = 256;
      p.columns = columns;
      p.out = columns == 64 ? Product::act : Product::gate;
      p.y_bf16 = columns == 128;
      p.bias = columns == 32;
      p.activation = columns == 64 ? kernels::act_gelu_tanh : kernels::act_silu;
    });
  // columns shared by warp groups, and by blocks
  for (uint32_t col_groups : {1u, 2u, 3u, 4u})
    for (uint32_t shares : {1u, 2u, 4u})
      add({100, 6144, 2}, 11, [&](WgmmaProduct& p) {
        p.tile_cols = 512;
        p.col_groups = col_groups;
        p.row_groups = col_groups == 2 ? 2 : 1;
        p.shares = shares;
        p.stages = 12 / col_groups == 4 ? 3 : 4;
        p.out = shares == 2 ? Product::add : Product::store;
        p.chained = shares != 2;
      });
  for (uint32_t halves : {0u, 1u})
    for (uint32_t rotary : {0u, 16u, 32u})
      for (uint32_t cache : {0u, 1u})
        add({32 * 8, 512, 3, rotary == 16 ? 64u : 0u, 4, 2, 32, rotary}, 13, [&](WgmmaProduct& p) {
          p.tile_cols = 256;
          p.out = Product::qkv;
          p.cache = cache;
          p.halves = halves;
          p.bias = rotary == 16;
          p.row_groups = 2;
          p.columns = 16;
        });
  const WgmmaProduct of_experts{.format = uint32_t(Format::q4_k), .tile_cols = 256, .columns = 16, .row_groups = 1};
  cases.push_back(expert_tiles(of_experts, 72, 512, {3, 0, 17, 1}));
  WgmmaProduct gated = of_experts;
  gated.out = Product::gate;
  gated.columns = 8;
  gated.chained = 1;
  cases.push_back(expert_tiles(gated, 136, 256, {8, 9, 0}));
}

}  // namespace heddle::proof
