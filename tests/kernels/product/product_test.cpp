// The product: what it refuses, and the shapes that are chosen for the phases of real models.
#include "kernels/product/product.h"

#include <gtest/gtest.h>

#include <set>

#include "ptx/builder.h"
#include "tests/kernels/refusal.h"
#include "tests/kernels/small_gpus.h"

namespace heddle::kernels {
namespace {

using quant::Format;

TEST(Product, RefusesWhatItCannotDo) {
  const Product spec{.slices = 4};
  const Product::Args good{.y = {256}, .x = {512}, .w = {1024}, .rows = 7, .cols = 4096, .blocks = 3, .scale = 1};
  EXPECT_EQ(spec.grid(good).x, 3u);
  auto with = [&](auto&& change, Product changed = {}) {
    Product::Args args = good;
    change(args);
    return refused([&] { changed.grid(args); });
  };
  EXPECT_EQ(with([](auto& a) { a.cols = 4097; }), "product: 4097 columns, but 4 slices of 1024 are 4096");
  EXPECT_EQ(with([](auto& a) { a.w.address = 8; }), "product: x and w must be 16-byte aligned, found 0x8");
  EXPECT_EQ(with([](auto& a) { a.blocks = 0; }), "product: a grid of 0 blocks");
  EXPECT_EQ(with([](auto& a) { a.rows = 6; }, {.out = Product::gate}),
            "product: 6 rows of gate and up, expected a multiple of 4");
  EXPECT_EQ(with([](auto& a) { a.head = 30; }, {.out = Product::qkv}),
            "product: heads of 30 and 0 with 0 turned, expected multiples of 4");
  EXPECT_EQ(with([](auto& a) { a.x_stride = 4100; }, {.columns = 2}),
            "product: vectors 4100 values apart, expected a multiple of 8");
  const Product experts{.slices = 4, .experts = 1}, sum{.slices = 8, .per_warp = 2, .experts = 1, .summed = 2};
  auto shared_by = [](uint32_t vectors, uint32_t share) {
    return [=](auto& a) {
      a.vectors = vectors;
      a.x_share = share;
    };
  };
  EXPECT_EQ(with(shared_by(6, 2), experts), "");
  EXPECT_EQ(with(shared_by(7, 2), experts),
            "product: 7 vectors, 2 for each row; 1 to 32 for each of 1 to 65535 rows expected");
  EXPECT_EQ(with(shared_by(0, 2), experts),
            "product: 0 vectors, 2 for each row; 1 to 32 for each of 1 to 65535 rows expected");
  EXPECT_EQ(with(shared_by(66, 33), experts),
            "product: 66 vectors, 33 for each row; 1 to 32 for each of 1 to 65535 rows expected");
  EXPECT_EQ(with(shared_by(6, 1), sum), "product: a sum of 2 experts, but a row has 1");
  EXPECT_NE(refused([] { Product{.weighted = 1}.build(); }).find("summed and weighted are for experts"),
            std::string::npos);
  EXPECT_NE(refused([] { Product{.experts = 1, .summed = 3}.build(); }).find("whole slices of each"),
            std::string::npos);
  EXPECT_NE(refused([] { Product{.out = Product::add, .experts = 1}.build(); }).find("added when summed"),
            std::string::npos);
  EXPECT_NE(refused([] { Product{.slices = 9, .per_warp = 2}.build(); }).find("slices must be a multiple of per_warp"),
            std::string::npos);
  EXPECT_NE(refused([] { Product{.slices = 16, .groups = 4}.build(); }).find("more than 31 computing warps"),
            std::string::npos);
  EXPECT_NE(refused([] { Product{.tile_cols = 256, .groups = 2}.build(); }).find("no such groups"), std::string::npos);
  EXPECT_NE(refused([] { Product{.format = uint32_t(Format::f16)}.build(); }).find("no integer products"),
            std::string::npos);
}

TEST(Product, RowsOfAHeadArePairedFourByFour) {
  for (bool halves : {false, true})
    for (uint32_t rotary : {0u, 4u, 32u, 64u}) {
      std::set<uint32_t> seen;
      for (uint32_t p = 0; p < 64; ++p) {
        const uint32_t row = qkv_row(p, rotary, halves);
        seen.insert(row);
        if (p >= rotary) {
          EXPECT_EQ(row, p);
        } else if (p % 4 < 2) {
          EXPECT_EQ(qkv_row(p + 2, rotary, halves), row + (halves ? rotary / 2 : 1));
        }
      }
      EXPECT_EQ(seen.size(), 64u);
    }
}

// Phases of models from 1B to 70B.
template <class F>
void each_choice(F f) {
  for (Format format : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16})
    for (const auto& [rows, cols] : {std::pair{2048u, 1536u},
                                     {17920u, 1536u},
                                     {1536u, 8960u},
                                     {3072u, 2048u},
                                     {16384u, 2048u},
                                     {2048u, 8192u},
                                     {6144u, 4096u},
                                     {28672u, 4096u},
                                     {4096u, 14336u},
                                     {128256u, 4096u},
                                     {57344u, 8192u},
                                     {8192u, 28672u}})
      for (uint32_t columns : {1u, 2u, 4u, 8u})
        for (bool large : {false, true}) {
          Product what{.format = uint32_t(format), .columns = columns, .exact = quant::is_float(format), .chained = 1};
          if (cols <= rows) what.norm = Product::rms;
          what.out = rows > 4 * cols ? Product::gate : rows < cols ? Product::add : Product::store;
          if (columns <= product_max_columns(what, cols)) f(product_choice(what, rows, cols, large), rows, cols);
        }
}

// The four products of a layer, which take turns at being large.
std::vector<Product> layer_of(Format format, bool mixed, uint32_t width, uint32_t qkv_rows, uint32_t inner) {
  const Product what{.format = uint32_t(format), .chained = 1};
  Product qkv = what, output = what, gate = what, down = what;
  qkv.mixed = mixed;
  qkv.norm = Product::rms;
  qkv.out = Product::qkv;
  qkv.halves = 1;
  output.out = Product::add;
  gate.norm = Product::rms;
  gate.out = Product::gate;
  gate.y_bf16 = 1;
  down.x = Product::x_bf16;
  down.out = Product::add;
  return {product_choice(qkv, qkv_rows, width, false).spec, product_choice(output, width, width, true).spec,
          product_choice(gate, 2 * inner, width, false).spec, product_choice(down, width, inner, true).spec};
}
uint32_t shared_bytes(const Product& spec) { return ptx::dynamic_shared_offset(spec.build()); }

TEST(Product, SaysHowManyVectorsFit) {
  for (uint32_t cols : {1024u, 1536u, 2048u, 4096u, 5120u, 8192u}) EXPECT_EQ(product_max_columns({}, cols), 8u) << cols;
  for (uint32_t cols = 32; cols <= 31744; cols += cols < 2000 ? 32 : 1024) {
    EXPECT_GE(product_max_columns({}, cols), 1u) << cols;
    EXPECT_GE(product_max_columns({.format = uint32_t(Format::f32), .exact = 1}, cols), 1u) << cols;
  }
}

TEST(Product, TheChoiceHasEnoughInFlight) {
  each_choice([](const ProductChoice& choice, uint32_t rows, uint32_t cols) {
    EXPECT_GE(choice.spec.filled_cols(), cols);
    // about 25 KB per SM must be under way to keep the memory busy
    const uint64_t tile = tile_bytes(choice.spec.weights()), warps = choice.spec.warps() - 1;
    EXPECT_GE(warps * choice.blocks_per_sm * choice.spec.depth * tile,
              std::min<uint64_t>(TileShape{choice.spec.weights(), rows, cols, choice.spec.tile_cols}.bytes() / 132,
                                 25 * 1024))
        << field_text(choice.spec);
  });
}

// Whatever follows a product finds room beside it; a second block of a large one does not.
TEST(Product, AlternatingProductsFitOneSm) {
  constexpr uint32_t sm = 228 * 1024, system = 1024;  // `system`: reserved per block
  for (Format format : {Format::q4_k, Format::q5_k, Format::q6_k, Format::q8_0})
    for (const auto& [width, qkv, inner] : {std::tuple{1536u, 2048u, 8960u},
                                            {2048u, 3072u, 8192u},
                                            {4096u, 6144u, 14336u},
                                            {5120u, 7168u, 13824u},
                                            {8192u, 10240u, 28672u}}) {
      if (format == Format::q6_k && width == 2048) continue;  // 109 and 118 KB: the next one waits there
      const bool mixed = format == Format::q4_k;
      const std::vector<Product> layer = layer_of(format, mixed, width, qkv, inner);
      for (size_t i = 0; i < layer.size(); ++i) {
        const Product &one = layer[i], &next = layer[(i + 1) % layer.size()];
        EXPECT_LE(shared_bytes(one) + shared_bytes(next) + 2 * system, sm) << field_text(one) << "\n"
                                                                           << field_text(next);
        EXPECT_EQ(one.resident, 2u) << field_text(one);
        EXPECT_EQ(2 * (shared_bytes(one) + system) > sm, i % 2 == 1) << field_text(one);
      }
    }
}

TEST(Product, AlternatingProductsFitTheRegistersOfAnSmSlow) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  const std::vector<Product> layer = layer_of(Format::q4_k, true, 4096, 6144, 14336);
  std::vector<uint32_t> registers;  // of a block; a warp allocates them in units of 256
  const std::vector<Assembled> assembled = expect_no_spills(layer, "sm_90a");
  for (size_t i = 0; i < layer.size(); ++i)
    registers.push_back((assembled[i].registers + 7) / 8 * 256 * layer[i].warps());
  for (size_t i = 0; i < layer.size(); ++i)
    EXPECT_LE(registers[i] + registers[(i + 1) % layer.size()], 65536u) << field_text(layer[i]);
}

// The experts of 128 with 768 inner values: the sum brings its weights while the other product still runs.
TEST(Product, TheProductsOfExpertsFitOneSmSlow) {
  constexpr uint32_t sm = 228 * 1024, system = 1024;
  for (Format format : {Format::q4_k, Format::q6_k}) {
    const Product in{.format = uint32_t(Format::q4_k),
                     .norm = Product::rms,
                     .out = Product::gate,
                     .y_bf16 = 1,
                     .experts = 1,
                     .weighted = 1,
                     .chained = 1};
    const Product down{
        .format = uint32_t(format), .x = Product::x_bf16, .out = Product::add, .experts = 1, .summed = 8, .chained = 1};
    const std::vector<Product> both{product_choice(in, 1536, 2048, true).spec,
                                    product_choice(down, 2048, 768, false).spec};
    EXPECT_GT(2 * (shared_bytes(both[0]) + system), sm) << field_text(both[0]);
    EXPECT_LE(shared_bytes(both[0]) + shared_bytes(both[1]) + 2 * system, sm) << field_text(both[1]);
    EXPECT_EQ(both[1].slices, 24u);
    // all tiles of a block at once: one row of tiles
    EXPECT_GE(both[1].slices / both[1].per_warp * both[1].depth, 24u) << field_text(both[1]);
    if (!ptxas_found()) continue;
    uint32_t registers = 0;
    const std::vector<Assembled> assembled = expect_no_spills(both, "sm_90a");
    for (size_t i = 0; i < both.size(); ++i) registers += (assembled[i].registers + 7) / 8 * 256 * both[i].warps();
    EXPECT_LE(registers, 65536u) << field_text(both[0]) << "\n" << field_text(both[1]);
  }
}

// On GPUs with less shared memory the products of a model of 8 billion weights fit, in any block format.
TEST(Product, TheChoiceFitsSmallerGpusSlow) {
  for (const SmallGpu& gpu : small_gpus()) {
    std::vector<Product> chosen;
    for (Format format : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16, Format::iq2_xxs})
      for (const auto& [rows, cols] : {std::pair{6144u, 4096u}, {28672u, 4096u}, {4096u, 14336u}, {128256u, 2048u}})
        for (uint32_t columns : {1u, 2u}) {
          Product what{.format = uint32_t(format),
                       .copies = copies_on(gpu.limits),
                       .columns = columns,
                       .exact = quant::is_float(format),
                       .out = rows > 4 * cols ? Product::gate : Product::add};
          what.mixed = format == Format::q4_k && rows == 6144;
          const uint32_t fitting = product_max_columns(what, cols, gpu.limits);
          EXPECT_TRUE(fitting >= 2 || format == Format::f16) << gpu.target << " " << field_text(what);
          if (fitting < columns) continue;
          const Product spec = product_choice(what, rows, cols, false, gpu.limits).spec;
          EXPECT_LE(shared_bytes(spec), gpu.limits.shared_per_block) << gpu.target << " " << field_text(spec);
          EXPECT_LE(spec.warps() * 32 * spec.resident, gpu.limits.threads_per_sm);
          EXPECT_TRUE(spec.warps() >= 8 || format != Format::q4_k) << gpu.target << " " << field_text(spec);
          chosen.push_back(spec);
        }
    if (ptxas_found()) expect_no_spills(chosen, gpu.target);
  }
}

TEST(Product, TheChoiceAssemblesWithoutSpillsSlow) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::vector<Product> choices;
  auto choose = [&](Product what, uint32_t rows, uint32_t cols) {
    what.chained = 1;
    choices.push_back(product_choice(what, rows, cols).spec);
  };
  const auto q4_k = uint32_t(Format::q4_k), q6_k = uint32_t(Format::q6_k), f16 = uint32_t(Format::f16);
  choose({.format = q4_k, .columns = 8, .norm = Product::rms, .out = Product::gate}, 28672, 4096);
  choose({.format = q4_k, .columns = 8, .out = Product::add}, 8192, 8192);
  choose({.format = q4_k, .mixed = 1, .columns = 2, .norm = Product::rms, .out = Product::qkv}, 6144, 4096);
  choose({.format = q4_k, .mixed = 1, .norm = Product::rms, .out = Product::qkv, .bias = 1, .halves = 1}, 2048, 1536);
  choose({.format = q4_k, .norm = Product::rms, .out = Product::gate, .experts = 1}, 28672, 4096);
  choose({.format = q4_k, .norm = Product::rms, .out = Product::gate, .y_bf16 = 1, .experts = 1, .weighted = 1}, 1536,
         2048);
  for (uint32_t format : {q4_k, q6_k})
    choose({.format = format, .x = Product::x_bf16, .out = Product::add, .experts = 1, .summed = 8}, 2048, 768);
  // as gpt-oss has them
  const auto mxfp4 = uint32_t(Format::mxfp4);
  choose({.format = mxfp4,
          .norm = Product::rms,
          .out = Product::gate,
          .activation = act_clamped_swiglu,
          .y_bf16 = 1,
          .bias = 1,
          .experts = 1,
          .weighted = Product::weighted_result},
         5760, 2880);
  choose({.format = mxfp4,
          .x = Product::x_bf16,
          .out = Product::add,
          .bias = 1,
          .experts = 1,
          .summed = 4,
          .weighted = Product::weighted_result},
         2880, 2880);
  choose({.format = q4_k, .norm = Product::rms, .out = Product::act, .activation = act_xielu}, 21504, 4096);
  choose({.format = q6_k, .norm = Product::rms}, 128256, 4096);
  choose({.format = q6_k, .columns = 8, .norm = Product::rms}, 128256, 4096);
  choose({.format = q6_k, .x = Product::x_bf16, .out = Product::add}, 4096, 14336);
  choose({.format = f16, .norm = Product::rms, .exact = 1, .out = Product::qkv}, 6144, 4096);
  choose({.format = f16, .columns = 2, .exact = 1, .out = Product::add}, 4096, 14336);
  expect_no_spills(choices, "sm_90a");
}

}  // namespace
}  // namespace heddle::kernels
