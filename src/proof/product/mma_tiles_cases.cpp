// Cases of mma_tiles.
#include "proof/product/expert_tiles.h"

namespace heddle::proof {

namespace {

using kernels::MmaTiles;
using kernels::Product;
using quant::Format;

Case mma_tiles(MmaTiles units, const ProductShape& s, uint32_t vectors, Format second = Format::q6_k) {
  units.slices = (s.cols + units.tile_cols - 1) / units.tile_cols;
  Product spec = product_like(units, vectors);
  spec.second = uint32_t(second);
  spec.mixed = s.second_rows > 0;
  return {"mma_tiles", field_text(units) + " " + shape_text(s, vectors, second), target_of(units),
          [=](Machine& m, Random& random, Check& check) { run_product(spec, s, m, random, check, units); }};
}

Case special_sums_of_tiles() {
  const MmaTiles spec{.format = uint32_t(Format::f32),
                      .tile_cols = 256,
                      .slices = 1,
                      .columns = 16,
                      .row_tiles = 1,
                      .row_warps = 1,
                      .out = Product::qkv,
                      .bias = 1};
  return {"mma_tiles", "NaN and infinities " + field_text(spec), target_of(spec),
          [=](Machine& m, Random&, Check& check) { run_special_sums({.tile_cols = spec.tile_cols}, m, check, spec); }};
}

}  // namespace

void add_mma_tiles_cases(Sweep sweep, std::vector<Case>& cases) {
  const MmaTiles plain{.columns = 16, .row_warps = 2};
  auto add = [&](const ProductShape& s, uint32_t vectors, auto&& change) {
    MmaTiles p = plain;
    change(p);
    cases.push_back(mma_tiles(p, s, vectors));
  };
  add({40, 1024, 2}, 3, [](MmaTiles&) {});
  add({70, 512, 2}, 17, [](MmaTiles& p) {  // without cp.async
    p.tile_cols = 256;
    p.async = 0;
    p.stages = 2;
  });
  if (sweep == Sweep::quick) return;
  cases.push_back(special_sums_of_tiles());
  for (Format format : kernels::known_formats)
    for (uint32_t row_tiles : {1u, 2u})
      add({35, 1024, 2}, 5, [&](MmaTiles& p) {
        p.format = uint32_t(format);
        p.row_tiles = row_tiles;
        p.row_warps = 1;
        p.stages = 1 + row_tiles;
      });
  add({64, 1024, 2}, 0, [](MmaTiles&) {});
  for (uint32_t tile_cols : {256u, 512u, 1024u})
    for (uint32_t rows : {1u, 70u, 200u})
      for (uint32_t async : {0u, 1u})
        add({rows, tile_cols * 5 / 2, 2}, rows == 70 ? 33 : 9, [&](MmaTiles& p) {
          p.tile_cols = tile_cols;
          p.columns = rows == 70 ? 32 : 16;
          p.row_tiles = rows == 200 ? 1 : 2;
          p.row_warps = rows == 70 ? 1 : 2;
          p.out = Product::add;
          p.bias = rows == 70;
          p.format = uint32_t(tile_cols == 256 ? Format::q8_0 : Format::q4_k);
          p.stage_cols = rows == 1 ? 128 : 64;
          p.async = async;
          p.stages = !async || rows == 1 ? 2 : rows == 70 ? 4 : 8;
          p.chained = async && rows == 200;
        });
  for (uint32_t columns : {32u, 64u, 128u})
    add({68, 256, 2}, columns + 1, [&](MmaTiles& p) {
      p.tile_cols = 256;
      p.columns = columns;
      p.out = columns == 64 ? Product::act : Product::gate;
      p.y_bf16 = columns == 128;
      p.bias = columns == 32;
      p.activation = columns == 64 ? kernels::act_gelu_tanh : kernels::act_silu;
    });
  for (uint32_t activation : {kernels::act_relu_squared, kernels::act_clamped_swiglu, kernels::act_xielu})
    add({68, 256, 2}, 17, [&](MmaTiles& p) {
      p.tile_cols = 256;
      p.columns = 16;
      p.out = activation == kernels::act_clamped_swiglu ? Product::gate : Product::act;
      p.bias = 1;
      p.activation = activation;
    });
  // y as x of another product, with columns shared and not
  for (uint32_t apart : {16u, 32u, 64u, 128u})
    for (uint32_t col_warps : {1u, 2u})
      add({apart == 64 ? 256u : 512u, 512, 3}, 19, [&](MmaTiles& p) {
        p.tile_cols = 256;
        p.col_warps = col_warps;
        p.stage_cols = 128;
        p.out = apart == 64 ? Product::act : Product::gate;
        p.y_apart = apart;
        p.bias = apart == 32;
      });
  // y through a norm as x of another product, or of two; x of such a norm
  for (uint32_t apart : {16u, 32u, 64u, 128u})
    for (uint32_t col_warps : {1u, 2u}) {
      auto cut = [&](MmaTiles& p) {
        p.tile_cols = 256;
        p.col_warps = col_warps;
        p.stage_cols = 128;
        p.columns = apart == 64 ? 32 : 16;
      };
      add({256, 512, 3}, 19, [&](MmaTiles& p) {
        cut(p);
        p.out = Product::add;
        p.next_apart = apart;
        p.next_also = col_warps == 2 ? 16 : 0;
        p.bias = apart == 16;
      });
      if (apart > 32) continue;
      add({apart == 16 ? 100u : 256u, 512, 3}, 19, [&](MmaTiles& p) {
        cut(p);
        p.out = apart == 16 ? Product::store : Product::gate;
        p.late_norm = 1;
      });
    }
  // columns shared by warps, more of them than the steps of a strip and fewer
  for (uint32_t col_warps : {2u, 4u, 8u})
    for (Format format : {Format::q4_k, Format::q6_k, Format::q8_0})
      for (uint32_t async : {0u, 1u})
        add({100, 4096, 2}, 21, [&](MmaTiles& p) {
          p.format = uint32_t(format);
          p.tile_cols = 512;
          p.row_warps = col_warps == 8 ? 1 : 2;
          p.row_tiles = col_warps == 4 ? 1 : 2;
          p.col_warps = col_warps;
          p.stage_cols = 128;
          p.async = async;
          p.stages = async ? 3 : 2;
          p.out = col_warps == 2 ? Product::add : Product::store;
        });
  for (uint32_t halves : {0u, 1u})
    for (uint32_t rotary : {0u, 16u, 32u})
      for (uint32_t cache : {0u, 1u})
        add({32 * 8, 512, 3, rotary == 16 ? 64u : 0u, 4, 2, 32, rotary}, 13, [&](MmaTiles& p) {
          p.tile_cols = 256;
          p.out = Product::qkv;
          p.cache = cache;
          p.halves = halves;
          p.bias = rotary == 16;
        });
  const MmaTiles of_experts{.tile_cols = 256, .columns = 16, .row_warps = 2};
  cases.push_back(expert_tiles(of_experts, 72, 512, {3, 0, 17, 1}));
  MmaTiles gated = of_experts;
  gated.out = Product::gate;
  gated.row_tiles = 1;
  gated.async = 0;
  gated.stages = 2;
  cases.push_back(expert_tiles(gated, 136, 256, {16, 33, 0}));
  MmaTiles biased = of_experts;
  biased.bias = 1;
  cases.push_back(expert_tiles(biased, 72, 512, {0, 9, 1, 18}));
  gated.bias = 1;
  gated.activation = kernels::act_clamped_swiglu;
  cases.push_back(expert_tiles(gated, 136, 256, {3, 0, 33}));
  if (sweep == Sweep::normal) return;
  // shapes that are chosen: for one matrix on a few SMs, and on many
  for (Format format : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16})
    for (uint32_t vectors : {30u, 150u})
      for (uint32_t sms : {2u, 132u})
        for (uint32_t async : {0u, 1u}) {
          const std::vector<MmaTiles> specs = kernels::mma_tiles_candidates(
              {.format = uint32_t(format), .async = async}, 520, 2048, vectors, sms, (async ? 99 : 64) * 1024);
          for (size_t i = 0; i < std::min(specs.size(), size_t(3)); ++i)
            cases.push_back(mma_tiles(specs[i], {520, 2048, 9}, vectors));
        }
}

}  // namespace heddle::proof
