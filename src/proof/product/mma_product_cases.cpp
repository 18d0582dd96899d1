// Cases of mma_product.
#include "kernels/product/activations.h"
#include "kernels/product/mma_product.h"
#include "proof/product/expert_tiles.h"

namespace heddle::proof {

namespace {

using kernels::MmaProduct;
using kernels::Product;
using quant::Format;

Case mma_product(MmaProduct mma, const ProductShape& s, uint32_t vectors, Format second = Format::q6_k) {
  mma.slices = (s.cols + mma.tile_cols - 1) / mma.tile_cols;
  Product spec = product_like(mma, vectors);
  spec.second = uint32_t(second);
  spec.mixed = s.second_rows > 0;
  const std::string name = field_text(mma) + " " + shape_text(s, vectors, second);
  return {mma.copies == kernels::copies_async ? "async_mma_product" : "mma_product", name, target_of(mma),
          [=](Machine& m, Random& random, Check& check) { run_product(spec, s, m, random, check, mma); }};
}

Case special_sums() {
  const MmaProduct spec{
      .format = uint32_t(Format::f32), .tile_cols = 256, .slices = 1, .band = 16, .out = Product::qkv, .bias = 1};
  return {"mma_product", "NaN and infinities " + field_text(spec), "sm_90",
          [=](Machine& m, Random&, Check& check) { run_special_sums({.tile_cols = spec.tile_cols}, m, check, spec); }};
}

// Weights that f16 cannot hold, one in each row; x is 1 there and 0 elsewhere.
Case special_weights(Format format) {
  const MmaProduct spec{.format = uint32_t(format), .tile_cols = 256, .slices = 1, .band = 16};
  auto run = [=](Machine& m, Random&, Check& check) {
    const std::vector<float>& specials = beyond_f16();
    const uint32_t rows = uint32_t(specials.size()), cols = spec.tile_cols, at = 3;
    const size_t value_bytes = quant::block_bytes(format);
    std::vector<uint8_t> file(rows * cols * value_bytes);
    std::vector<float> want;
    for (uint32_t r = 0; r < rows; ++r) {
      const bf16 narrow = to_bf16(specials[r]);
      const void* from = format == Format::f32 ? static_cast<const void*>(&specials[r]) : &narrow;
      std::memcpy(&file[(r * cols + at) * value_bytes], from, value_bytes);
      want.push_back(to_f32(within_f16({format == Format::f32 ? specials[r] : to_f32(narrow)})[0]));
    }
    std::vector<f16> x(size_t(spec.columns) * cols, f16{0});
    x[kernels::operand_place(0, at, kernels::tile_apart(format), spec.columns, cols)] = to_f16(1.0f);
    const Product::Args args{.y = m.poisoned<float>(rows),
                             .x = {m.put(x).address},
                             .w = m.put(tiles_of({format, rows, cols, spec.tile_cols}, file)),
                             .rows = rows,
                             .cols = cols,
                             .y_stride = rows,
                             .blocks = 1,
                             .vectors = 1,
                             .scale = 1,
                             .scales = m.put(std::vector<float>{1})};
    m.launch(spec, args);
    const std::vector<float> y = m.get(args.y, rows);
    for (uint32_t r = 0; r < rows; ++r)
      check.that(std::isnan(want[r]) ? std::isnan(y[r]) : y[r] == want[r],
                 fmt::format("y[{}] is {}, not {}", r, y[r], want[r]));
  };
  return {"mma_product", "weights of NaN and infinity " + field_text(spec), "sm_90", run};
}

// Without bulk copies, with the weights in the ring and direct.
void add_async_mma_cases(Sweep sweep, std::vector<Case>& cases) {
  const MmaProduct plain{.band = 16, .stages = 2, .copies = kernels::copies_async};
  auto add = [&](const ProductShape& s, uint32_t vectors, auto&& change) {
    MmaProduct p = plain;
    change(p);
    cases.push_back(mma_product(p, s, vectors));
  };
  add({40, 1024, 2}, 3, [](MmaProduct&) {});
  if (sweep == Sweep::quick) return;
  for (uint32_t direct : {0u, 1u}) {
    for (Format format : {Format::q4_k, Format::q6_k, Format::q5_0, Format::iq3_s, Format::f16, Format::f32})
      add({33, 1024, 1}, 5, [&](MmaProduct& p) {
        p.format = uint32_t(format);
        p.band = 16;
        p.direct = direct;
      });
    for (uint32_t tile_cols : {256u, 512u, 1024u})
      for (uint32_t rows : {1u, 150u})
        add({rows, tile_cols * 5 / 2, 2}, rows == 150 ? 9 : 8, [&](MmaProduct& p) {
          p.tile_cols = tile_cols;
          p.band = rows == 150 ? 64 : 48;
          p.stages = tile_cols == 512 ? 4 : 2;
          p.format = uint32_t(tile_cols == 256 ? Format::q8_0 : Format::q4_k);
          p.out = Product::add;
          p.bias = 1;
          p.direct = direct;
        });
    add({204, 1024, 2}, 33, [&](MmaProduct& p) {
      p.teams = 2;
      p.band = 32;
      p.columns = 16;
      p.out = Product::gate;
      p.y_bf16 = direct;
      p.direct = direct;
    });
    MmaProduct of_experts = plain;
    of_experts.tile_cols = 256;
    of_experts.experts = 1;
    of_experts.direct = direct;
    cases.push_back(expert_tiles(of_experts, 72, 512, {3, 0, 17, 1}));
  }
  add({32 * 8, 512, 3, 64, 4, 2, 32, 16}, 5, [&](MmaProduct& p) {
    p.tile_cols = 256;
    p.out = Product::qkv;
    p.halves = 1;
  });
  add({64, 2048, 132}, 8, [](MmaProduct&) {});  // most blocks have nothing to do
  if (sweep == Sweep::normal) return;
  for (uint32_t kilobytes : {64u, 99u, 163u})
    for (Format format : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16, Format::iq2_xxs})
      for (uint32_t vectors : {8u, 70u}) {
        const kernels::GpuLimits gpu{kilobytes << 10, (kilobytes + 1) << 10, 1024, false};
        auto chosen = [&](MmaProduct what, const ProductShape& s) {
          what.copies = kernels::copies_async;
          what.format = uint32_t(format);
          const MmaProduct spec = kernels::mma_product_choice(what, s.rows, s.cols, vectors, s.blocks, gpu);
          add_once(cases, mma_product(spec, s, vectors));
        };
        chosen({.out = Product::gate}, {2868, 4096, 132});
        chosen({.out = Product::add}, {410, 14336, 132});
      }
}

}  // namespace

void add_mma_product_cases(Sweep sweep, std::vector<Case>& cases) {
  add_async_mma_cases(sweep, cases);
  const auto f = [](Format format) { return uint32_t(format); };
  const MmaProduct plain{.stages = 2, .chained = 1};
  auto add = [&](const ProductShape& s, uint32_t vectors, auto&& change) {
    MmaProduct p = plain;
    change(p);
    cases.push_back(mma_product(p, s, vectors));
  };
  add({40, 1024, 2}, 3, [](MmaProduct&) {});
  if (sweep == Sweep::quick) return;
  cases.push_back(special_sums());
  for (Format format : {Format::f32, Format::bf16}) cases.push_back(special_weights(format));
  for (Format format : kernels::known_formats)
    add({33, 1024, 1}, 5, [&](MmaProduct& p) {
      p.format = f(format);
      p.band = 16;
    });
  for (uint32_t tile_cols : {256u, 512u, 1024u})
    for (uint32_t rows : {1u, 35u, 150u})
      add({rows, tile_cols * 5 / 2, 2}, rows == 150 ? 9 : 8, [&](MmaProduct& p) {
        p.tile_cols = tile_cols;
        p.band = rows == 150 ? 64 : 48;
        p.out = Product::add;
        p.bias = rows == 35;
        p.format = f(tile_cols == 256 ? Format::q8_0 : Format::q4_k);
      });
  for (uint32_t columns : {8u, 16u, 32u})
    for (uint32_t vectors : {1u, columns, columns * 2 + 1})
      add({72, 512, 3}, vectors, [&](MmaProduct& p) {
        p.tile_cols = 512;
        p.columns = columns;
        p.stages = columns == 16 ? 1 : columns == 32 ? 2 : 3;
        p.chained = columns > 8;
        p.out = columns == 16 ? Product::gate : Product::act;
        p.y_bf16 = columns == 32;
        p.bias = 1;
        p.activation = columns == 8 ? kernels::act_gelu_tanh : kernels::act_silu;
        if (columns == 16) p.band = 16;
      });
  for (uint32_t halves : {0u, 1u})
    for (uint32_t rotary : {0u, 16u, 32u})
      for (uint32_t cache : {0u, 1u})
        add({32 * 8, 512, 3, rotary == 16 ? 64u : 0u, 4, 2, 32, rotary}, 5, [&](MmaProduct& p) {
          p.tile_cols = 256;
          p.out = Product::qkv;
          p.cache = cache;
          p.halves = halves;
          p.bias = rotary == 16;
        });
  add({64, 2048, 132}, 8, [](MmaProduct&) {});  // most blocks have nothing to do
  for (uint32_t columns : {8u, 32u})
    add({204, 1024, 2}, columns, [&](MmaProduct& p) {
      p.teams = 2;
      p.band = columns == 8 ? 64 : 32;
      p.columns = columns;
      p.out = Product::add;
    });
  // y as x of another product, and through a norm
  for (uint32_t apart : {16u, 32u, 64u, 128u})
    for (uint32_t columns : {8u, 16u}) {
      add({512, 512, 3}, 11, [&](MmaProduct& p) {
        p.tile_cols = 256;
        p.columns = columns;
        p.out = apart == 64 ? Product::act : Product::gate;
        p.y_apart = apart;
        p.late_norm = columns == 8;
      });
      add({256, 512, 5}, 19, [&](MmaProduct& p) {
        p.tile_cols = 256;
        p.columns = columns;
        p.out = Product::add;
        p.next_apart = apart;
        p.next_also = columns == 16 ? 16 : 0;
        p.bias = apart == 32;
      });
    }
  add({32 * 8, 512, 3, 64u, 4, 2, 32, 16}, 5, [&](MmaProduct& p) {
    p.tile_cols = 256;
    p.out = Product::qkv;
    p.late_norm = 1;
  });
  for (uint32_t band : {16u, 32u, 64u}) {
    MmaProduct of_experts{.tile_cols = 256, .columns = band == 32 ? 16u : 8u, .band = band, .experts = 1};
    cases.push_back(expert_tiles(of_experts, 72, 512, {3, 0, 17, 1}));
    of_experts.bias = 1;
    cases.push_back(expert_tiles(of_experts, 72, 512, {0, 9, 1, 5}));
    of_experts.out = Product::gate;
    of_experts.activation = kernels::act_clamped_swiglu;
    cases.push_back(expert_tiles(of_experts, 136, 256, {2, 9, 0}));
    of_experts.bias = 0;
    of_experts.activation = kernels::act_silu;
    of_experts.chained = 1;
    cases.push_back(expert_tiles(of_experts, 136, 768, {8, 9, 0}));
    of_experts.tile_cols = 1024;
    of_experts.format = uint32_t(Format::q6_k);
    cases.push_back(expert_tiles(of_experts, 64, 2048, {1}));
  }
  if (sweep == Sweep::normal) return;
  for (Format format : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16, Format::q5_k, Format::iq2_xxs})
    for (uint32_t vectors : {8u, 13u, 32u, 70u}) {
      auto chosen = [&](MmaProduct what, ProductShape s) {
        what.format = f(format);
        what.chained = 1;
        cases.push_back(mma_product(kernels::mma_product_choice(what, s.rows, s.cols, vectors, s.blocks), s, vectors));
      };
      chosen({.out = Product::gate}, {2868, 4096, 132});
      chosen({.out = Product::add}, {410, 14336, 132});
      chosen({.out = Product::qkv, .halves = 1}, {768, 4096, 132, 0, 4, 1, 128, 128});
      chosen({.bias = 1}, {896, 1536, 132});
    }
}

}  // namespace heddle::proof
