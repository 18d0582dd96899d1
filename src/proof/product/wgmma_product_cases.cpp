// Cases of wgmma_product.
#include <cmath>

#include "kernels/product/activations.h"
#include "proof/product/expert_tiles.h"

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

// Activations that f16 cannot hold, as x of another product: weights of 0, so that the sums are the biases.
Case special_activations_of_wgmma(uint32_t col_groups) {
  const WgmmaProduct spec{.format = uint32_t(Format::f32),
                          .tile_cols = 256,
                          .slices = col_groups,
                          .columns = 8,
                          .row_groups = 1,
                          .col_groups = col_groups,
                          .stages = 2,
                          .out = Product::act,
                          .bias = 1,
                          .y_apart = 32};
  auto run = [=](Machine& m, Random&, Check& check) {
    const uint32_t rows = 256, cols = spec.filled_cols(), group = 8;
    std::vector<float> bias;
    while (bias.size() < rows)
      for (float special : beyond_f16())
        for (float factor : {0.5f, 1.0f, Product::f16_act, 1e3f}) bias.push_back(special * factor);
    bias.resize(rows);
    const kernels::TileShape shape{Format::f32, rows, cols, spec.tile_cols};
    const auto y = m.poisoned<f16>(group * rows);
    m.launch(spec, Product::Args{.y = {y.address},
                                 .x = m.put(std::vector<uint8_t>(size_t(group) * cols * 2)),
                                 .w = m.put(std::vector<uint8_t>(shape.bytes())),
                                 .bias = m.put(bias),
                                 .rows = rows,
                                 .cols = cols,
                                 .y_stride = rows,
                                 .blocks = 2,
                                 .vectors = 1,
                                 .scale = 1,
                                 .scales = m.put(std::vector<float>{1}),
                                 .y_group = group});
    const std::vector<f16> all = m.get(y, group * rows);
    std::vector<float> got;
    std::vector<double> want, bound;
    for (uint32_t r = 0; r < rows; ++r) {
      const float is = to_f32(all[kernels::operand_place(0, r, spec.y_apart, group, rows)]);
      if (std::isnan(bias[r])) {
        check.that(std::isnan(is), fmt::format("y[{}] is {}, not NaN", r, is));
        continue;
      }
      if (bias[r] < -80) continue;  // 0, or NaN for -infinity, as in f32
      const double value = bias[r] / (1 + std::exp(-double(bias[r]))) / Product::f16_act;
      got.push_back(is);
      want.push_back(std::min(value, 65504.0));
      bound.push_back(std::abs(want.back()) * 0x1p-10 + 0x1p-24);
    }
    check.near("y", got, want, bound, 1.0);
  };
  return {"wgmma_product", "activations beyond f16 " + field_text(spec), "sm_90a", run};
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
  for (uint32_t col_groups : {1u, 2u}) cases.push_back(special_activations_of_wgmma(col_groups));
  for (Format format : kernels::known_formats)
    for (uint32_t early : {0u, 1u})
      add({35, 1024, 2}, 5, [&](WgmmaProduct& p) {
        p.format = uint32_t(format);
        p.early = early;
      });
  add({64, 1024, 2}, 0, [](WgmmaProduct&) {});
  for (uint32_t tile_cols : {256u, 512u, 1024u})
    for (uint32_t rows : {1u, 70u, 200u})
      add({rows, tile_cols * 5 / 2, 2}, rows == 70 ? 17 : 9, [&](WgmmaProduct& p) {
        p.tile_cols = tile_cols;
        p.columns = rows == 70 ? 16 : 8;
        p.row_groups = rows == 70 ? 2 : 1;
        p.out = Product::add;
        p.bias = rows == 70;
        p.format = uint32_t(tile_cols == 256 ? Format::q8_0 : Format::q4_k);
        p.stage_cols = rows == 1 ? 64 : tile_cols == 256 || rows == 70 ? 128 : 256;
        p.stages = rows == 200 ? 1 : 3;
        p.runs = rows == 70 ? 1 : 3;
        p.early = rows == 70 || tile_cols == 256;
        p.run = tile_cols == 256 ? rows == 70 ? 2 : 1 : tile_cols == 512 ? rows == 200 ? 2 : 1 : rows == 1 ? 4 : 2;
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
  for (uint32_t activation : {kernels::act_relu_squared, kernels::act_clamped_swiglu, kernels::act_xielu})
    add({68, 256, 2}, 17, [&](WgmmaProduct& p) {
      p.tile_cols = 256;
      p.columns = 16;
      p.out = activation == kernels::act_clamped_swiglu ? Product::gate : Product::act;
      p.bias = 1;
      p.activation = activation;
    });
  // y as x of another product, by warps alone and by blocks that share the columns
  for (uint32_t apart : {16u, 32u, 64u, 128u})
    for (uint32_t shares : {1u, 2u})
      add({apart == 64 ? 256u : 512u, 512, 3}, 19, [&](WgmmaProduct& p) {
        p.tile_cols = 256;
        p.columns = shares == 1 ? 16 : 8;
        p.row_groups = 2;
        p.shares = shares;
        p.out = apart == 64 ? Product::act : Product::gate;
        p.y_apart = apart;
        p.bias = apart == 32;
      });
  // y through a norm as x of another product, or of two; x of such a norm
  for (uint32_t apart : {16u, 32u, 64u, 128u})
    for (uint32_t shares : {1u, 2u})
      for (uint32_t col_groups : {1u, 2u}) {
        auto cut = [&](WgmmaProduct& p) {
          p.tile_cols = 256;
          p.columns = col_groups == 1 ? 16 : 8;
          p.row_groups = apart == 64 ? 1 : 2;
          p.col_groups = col_groups;
          p.shares = shares;
        };
        add({256, 1024, 3}, 19, [&](WgmmaProduct& p) {
          cut(p);
          p.out = Product::add;
          p.next_apart = apart;
          p.next_also = shares == 2 ? 16 : 0;
          p.bias = apart == 16;
        });
        add({apart == 64 ? 100u : 256u, 1024, 3, 0, apart == 32 ? 4u : 0u, apart == 32 ? 2u : 0u, 32, 32}, 19,
            [&](WgmmaProduct& p) {
              cut(p);
              p.out = apart == 64 ? Product::store : apart == 32 ? Product::qkv : Product::gate;
              p.late_norm = 1;
              p.bias = apart == 128;
            });
      }
  // columns shared by warp groups, and by blocks
  for (uint32_t col_groups : {1u, 2u, 3u, 4u})
    for (uint32_t shares : {1u, 2u, 4u})
      add({100, col_groups == 4 ? 12288u : 6144u, 2}, 11, [&](WgmmaProduct& p) {
        p.tile_cols = 512;
        p.col_groups = col_groups;
        p.row_groups = col_groups == 2 ? 2 : 1;
        p.shares = shares;
        p.stages = col_groups * (shares == 4 ? 1 : 2);
        p.runs = col_groups * (shares == 2 ? 2 : 1);
        p.early = shares == 1;
        p.run = col_groups < 3 && shares < 4 ? 2 : 1;
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
  WgmmaProduct biased = of_experts;
  biased.bias = 1;
  cases.push_back(expert_tiles(biased, 72, 512, {0, 9, 1, 18}));
  gated.bias = 1;
  gated.activation = kernels::act_clamped_swiglu;
  cases.push_back(expert_tiles(gated, 136, 256, {3, 0, 33}));
}

}  // namespace heddle::proof
