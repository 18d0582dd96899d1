// Cases of `product`, and its timing: what a decode step asks of it, phase by phase, in a chain.
#include <algorithm>

#include "kernels/product/product.h"
#include "proof/bench.h"
#include "proof/product/expert_product.h"
#include "proof/product/product_problem.h"

namespace heddle::proof {

namespace {

using kernels::Product;
using quant::Format;

std::string product_text(const Product& spec, const ProductShape& s) {
  std::string t = fmt::format("{} {} -> {} blocks={}", kernels::field_text(spec), s.cols, s.rows, s.blocks);
  if (s.heads) t += fmt::format(" heads={}/{} of {} rotary={}", s.heads, s.kv_heads, s.head, s.rotary);
  if (s.quants != Quants::random) t += s.quants == Quants::ones ? " ones" : " zeros";
  return t;
}

const char* name_of(const Product& spec) { return spec.copies == kernels::copies_async ? "async_product" : "product"; }

Case product(Product spec, const ProductShape& s) {
  spec.slices = (s.cols + spec.tile_cols - 1) / spec.tile_cols;
  return {name_of(spec), product_text(spec, s), target_of(spec),
          [=](Machine& m, Random& random, Check& check) { run_product(spec, s, m, random, check); }};
}

Case expert_product(Product spec, const ExpertShape& s) {
  spec.experts = 1;
  spec.slices = (s.cols + spec.tile_cols - 1) / spec.tile_cols * std::max(spec.summed, 1u);
  return {name_of(spec),
          fmt::format("{} {} -> {} inputs={} used={} blocks={} one={}", kernels::field_text(spec), s.cols, s.rows,
                      s.inputs, s.used, s.blocks, s.one_for_all),
          target_of(spec),
          [=](Machine& m, Random& random, Check& check) { run_expert_product(spec, s, m, random, check); }};
}

void add_expert_cases(const Product& plain, std::vector<Case>& cases) {
  auto with = [&](auto&& change) {
    Product p = plain;
    change(p);
    return p;
  };
  // a result for each: boundaries between experts inside of a unit and of a block's share
  cases.push_back(expert_product(with([](Product& p) { p.exact = 1; }), {40, 512, 3, 2}));
  cases.push_back(expert_product(with([](Product& p) { p.x = Product::x_bf16; }), {24, 1024, 3, 1}));
  for (uint32_t late : {0u, 1u})
    cases.push_back(expert_product(with([=](Product& p) {
                                     p.norm = Product::rms;
                                     p.out = Product::gate;
                                     p.y_bf16 = late;
                                     p.weighted = 1;
                                     p.late = late;
                                   }),
                                   {20, 2048, 2, 8, 3}));
  cases.push_back(expert_product(with([](Product& p) { p.weighted = 1; }), {21, 1024, 1, 5, 4, true}));
  cases.push_back(expert_product(with([](Product& p) {
                                   p.tile_cols = 256;
                                   p.groups = 1;
                                   p.weighted = 1;
                                   p.exact = 1;
                                   p.format = uint32_t(Format::f32);
                                 }),
                                 {17, 60, 2, 3, 3}));
  cases.push_back(expert_product(with([](Product& p) { p.out = Product::gate; }), {16, 1024, 1, 32, 7}));
  cases.push_back(expert_product(plain, {3, 1024, 2, 2, 132}));  // most blocks have nothing to do
  // biases, and weights before them
  for (uint32_t weighted : {Product::weighted_no, Product::weighted_result, Product::weighted_input}) {
    cases.push_back(expert_product(with([=](Product& p) {
                                     p.norm = Product::rms;
                                     p.out = Product::gate;
                                     p.activation = kernels::act_clamped_swiglu;
                                     p.bias = 1;
                                     p.y_bf16 = weighted == Product::weighted_result;
                                     p.weighted = weighted;
                                   }),
                                   {20, 1024, 2, 7, 3}));
    cases.push_back(expert_product(with([=](Product& p) {
                                     p.exact = 1;
                                     p.out = weighted == Product::weighted_input ? Product::act : Product::store;
                                     p.activation = kernels::act_relu_squared;
                                     p.bias = weighted != Product::weighted_no;
                                     p.weighted = weighted;
                                   }),
                                   {37, 512, 2, 3, 4}));
  }
  for (uint32_t weighted : {Product::weighted_no, Product::weighted_result})
    for (uint32_t out : {Product::store, Product::add})
      cases.push_back(expert_product(with([=](Product& p) {
                                       p.summed = 4;
                                       p.tile_cols = 256;
                                       p.groups = 1;
                                       p.out = out;
                                       p.bias = 1;
                                       p.weighted = weighted;
                                       p.x = Product::x_bf16;
                                     }),
                                     {37, 768, 2, 5, 3}));
  // sums
  for (uint32_t out : {Product::store, Product::add}) {
    cases.push_back(expert_product(with([=](Product& p) {
                                     p.summed = 8;
                                     p.tile_cols = 256;
                                     p.groups = 1;
                                     p.per_warp = 2;
                                     p.out = out;
                                     p.x = Product::x_bf16;
                                   }),
                                   {37, 768, 1, 8, 3}));
    cases.push_back(expert_product(with([=](Product& p) {
                                     p.summed = 3;
                                     p.exact = 1;
                                     p.tile_cols = 512;
                                     p.out = out;
                                     p.format = uint32_t(Format::q8_0);
                                   }),
                                   {50, 544, 3, 4}));  // the fourth is left out
  }
  for (uint32_t cols : {4u, 60u, 300u})
    cases.push_back(expert_product(with([](Product& p) {
                                     p.summed = 2;
                                     p.format = uint32_t(Format::f32);
                                     p.exact = 1;
                                     p.tile_cols = 256;
                                     p.groups = 1;
                                     p.out = Product::add;
                                   }),
                                   {33, cols, 2, 2}));
  cases.push_back(expert_product(with([](Product& p) {
                                   p.summed = 1;
                                   p.depth = 3;
                                   p.groups = 4;
                                 }),
                                 {35, 2048, 2, 1, 5, true}));
}

constexpr uint32_t number(Format format) { return uint32_t(format); }

// One phase of a decode step, in a chain where the GPU has them.
Bench phase(const std::string& label, Product what, Format format, uint32_t cols, uint32_t rows,
            const kernels::GpuLimits& gpu = {}) {
  what.format = uint32_t(format);
  what.exact = what.exact || quant::is_float(format);
  what.chained = gpu.clusters;
  what.copies = kernels::copies_on(gpu);
  const auto [spec, per_sm] = kernels::product_choice(what, rows, cols, what.out == Product::add, gpu);
  const uint64_t bytes = kernels::TileShape{format, rows, cols, spec.tile_cols}.bytes();
  auto prepare = [=, spec = spec, per_sm = per_sm](Machine& m, Random& random) -> Bench::Round {
    // the bits do not matter for the time, and packed bytes of the right size are packed weights
    const std::vector<uint8_t> one = random.bytes(bytes);
    std::vector<ptx::DevicePtr<uint8_t>> w;
    for (uint32_t i = 0; i < copies(double(bytes)); ++i) w.push_back(m.put(one));
    const uint32_t columns = spec.columns;
    const std::vector<float> norm(cols + 8, 1.0f);
    Product::Args args{.y = m.poisoned<float>(size_t(rows) * columns),
                       .x = m.put(std::vector<uint8_t>(size_t(cols) * 4 * columns)),
                       .norm = m.put(norm),
                       .shift = m.put(norm),
                       .rows = rows,
                       .cols = cols,
                       .x_stride = cols,
                       .y_stride = rows,
                       .blocks = m.processors() * per_sm,
                       .q_rows = rows / 6 * 4,
                       .k_rows = rows / 6,
                       .head = 128,
                       .value_head = 128,
                       .rotary = 128,
                       .kv_heads = rows / 6 / 128,
                       .page_size = 32,
                       .table_stride = 1,
                       .scale = 1,
                       .magnitude = 1};
    args.residual = args.y;
    args.turns = m.put(std::vector<uint64_t>(64));
    args.positions = m.put(std::vector<uint32_t>(columns));
    args.table = m.put(std::vector<int32_t>(columns));
    args.k = m.poisoned<uint8_t>(rows / 6 * 64 + 64);
    args.v = m.poisoned<uint8_t>(rows / 6 * 64 + 64);
    return [=](Machine& now, uint32_t r) mutable {
      args.w = w[r % w.size()];
      now.launch(spec, args);
    };
  };
  std::string shape = fmt::format("{} {} {} -> {}", label, quant::name(format), cols, rows);
  if (spec.columns > 1) shape += fmt::format(" x {} columns", spec.columns);
  return {name_of(spec), shape, target_of(spec), double(bytes), 2.0 * rows * cols * spec.columns, prepare};
}

Case special_product_sums() {
  const Product spec{.format = uint32_t(Format::f32),
                     .tile_cols = 256,
                     .slices = 1,
                     .groups = 1,
                     .second_groups = 1,
                     .resident = 1,
                     .exact = 1,
                     .out = Product::qkv,
                     .bias = 1};
  return {"product", "NaN and infinities " + field_text(spec), "sm_90",
          [=](Machine& m, Random&, Check& check) { run_special_sums(spec, m, check); }};
}

// Without bulk copies: tiles of every size, rings that wrap and do not, formats with warps of their own, experts.
void add_async_cases(Sweep sweep, std::vector<Case>& cases) {
  const Product plain{.groups = 2, .second_groups = 2, .resident = 1, .copies = kernels::copies_async};
  auto add = [&](const ProductShape& s, auto&& change) {
    Product p = plain;
    change(p);
    cases.push_back(product(p, s));
  };
  add({40, 2048, 2}, [](Product& p) { p.norm = Product::rms; });
  if (sweep == Sweep::quick) return;
  for (Format format : kernels::known_formats)
    add({21, 512, 2}, [=](Product& p) {
      p.format = number(format);
      p.exact = quant::is_float(format);
      p.tile_cols = 512;
    });
  for (uint32_t depth : {1u, 2u, 3u, 5u})
    add({130, 3072, 3}, [=](Product& p) {
      p.depth = depth;
      p.unit = depth == 3 ? 32 : 16;
      p.per_warp = depth == 5 ? 3 : 1;
      p.out = Product::add;
      p.bias = 1;
    });
  for (uint32_t second_groups : {1u, 2u})
    add({96, 1024, 3, 16, 4, 1, 16, 16}, [=](Product& p) {
      p.out = Product::qkv;
      p.norm = Product::rms;
      p.mixed = 1;
      p.second_groups = second_groups;
      p.halves = 1;
    });
  for (uint32_t columns : {2u, 5u})
    add({52, 2048, 3}, [=](Product& p) {
      p.columns = columns;
      p.out = Product::gate;
      p.y_bf16 = columns == 5;
      p.x = columns == 5 ? Product::x_bf16 : Product::x_f32;
    });
  add({33, 172, 2}, [](Product& p) {
    p.format = number(Format::f32);
    p.exact = 1;
    p.tile_cols = 256;
    p.groups = 1;
    p.norm = Product::layer;
  });
  add({64, 4096, 132}, [](Product&) {});  // most blocks have nothing to do
  Product experts = plain;
  experts.weighted = 1;
  cases.push_back(expert_product(experts, {21, 1024, 2, 5, 4, true}));
  experts.norm = Product::rms;
  experts.out = Product::gate;
  cases.push_back(expert_product(experts, {20, 2048, 2, 8, 3}));
  Product sum = plain;
  sum.summed = 2;
  sum.x = Product::x_bf16;
  cases.push_back(expert_product(sum, {40, 1024, 2, 3, 3}));
  if (sweep == Sweep::normal) return;
  // the shapes of GPUs with little shared memory
  for (uint32_t kilobytes : {64u, 99u, 163u})
    for (Format format : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16, Format::iq2_xxs}) {
      const kernels::GpuLimits gpu{kilobytes << 10, (kilobytes + 1) << 10, 1024, false, kilobytes > 64};
      auto chosen = [&](Product what, const ProductShape& s) {
        what.copies = kernels::copies_async;
        what.format = number(format);
        what.exact = quant::is_float(format);
        if (kernels::product_max_columns(what, s.cols, gpu))
          add_once(cases, product(kernels::product_choice(what, s.rows, s.cols, false, gpu).spec, s));
      };
      chosen({.norm = Product::rms, .out = Product::gate, .y_bf16 = 1}, {28672, 4096, 132});
      chosen({.x = Product::x_bf16, .out = Product::add}, {4096, 14336, 132});
      chosen({.norm = Product::rms, .out = Product::qkv, .halves = 1}, {6144, 4096, 132, 0, 32, 8, 128, 128});
    }
}

}  // namespace

void add_product_cases(Sweep sweep, std::vector<Case>& cases) {
  add_async_cases(sweep, cases);
  const Product plain{.groups = 2, .second_groups = 2, .resident = 1, .chained = 1};
  auto with = [&](auto&& change) {
    Product p = plain;
    change(p);
    return p;
  };
  cases.push_back(product(with([](Product& p) { p.norm = Product::rms; }), {40, 2048, 2}));
  cases.push_back(product(with([](Product& p) {
                            p.out = Product::qkv;
                            p.norm = Product::rms;
                            p.mixed = 1;
                            p.halves = 1;
                            p.bias = 1;
                          }),
                          {96, 1024, 2, 16, 4, 1, 16, 16}));
  if (sweep == Sweep::quick) return;
  for (Format second : {Format::q4_k, Format::q6_k, Format::q8_0})
    for (uint32_t blocks : {2u, 3u, 8u})
      cases.push_back(product(with([=](Product& p) {
                                p.mixed = 1;
                                p.second = number(second);
                                p.chained = blocks > 2;
                                p.groups = blocks > 2 ? 4 : 2;
                                p.second_groups = blocks > 3 ? 1 : 2;
                              }),
                              {52, 2048, blocks, 20}));
  for (Format format : kernels::known_formats) {
    const uint32_t f = number(format);
    if (!quant::is_float(format)) cases.push_back(product(with([=](Product& p) { p.format = f; }), {21, 1024, 2}));
    cases.push_back(product(with([=](Product& p) {
                              p.format = f;
                              p.exact = 1;
                              p.tile_cols = 512;
                            }),
                            {21, 512, 2}));
    if (quant::is_float(format)) continue;
    for (uint32_t exact : {0u, 1u})
      for (Quants quants : {Quants::ones, Quants::zeros})
        cases.push_back(product(with([=](Product& p) {
                                  p.format = f;
                                  p.exact = exact;
                                  p.tile_cols = 512;
                                }),
                                {.rows = 3, .cols = 512, .blocks = 1, .quants = quants}));
  }
  for (uint32_t tile_cols : {256u, 512u, 1024u})
    for (uint32_t rows : {1u, 17u, 130u}) {
      const uint32_t groups = tile_cols == 256 ? 1 : 2;
      cases.push_back(product(with([=](Product& p) {
                                p.tile_cols = tile_cols;
                                p.groups = groups;
                              }),
                              {rows, tile_cols * 3 - 256, 3}));
      cases.push_back(product(with([=](Product& p) {
                                p.tile_cols = tile_cols;
                                p.groups = groups;
                                p.norm = Product::layer;
                                p.depth = 3;
                                p.out = Product::add;
                                p.bias = 1;
                              }),
                              {rows, tile_cols * 2, 2}));
    }
  // widths that fill neither a tile nor a load
  for (uint32_t cols : {12u, 60u, 172u, 300u})
    for (uint32_t norm : {Product::no_norm, Product::rms, Product::layer})
      cases.push_back(product(with([=](Product& p) {
                                p.format = number(Format::f32);
                                p.exact = 1;
                                p.tile_cols = 256;
                                p.groups = 1;
                                p.norm = norm;
                              }),
                              {33, cols, 2}));
  for (uint32_t activation : {kernels::act_silu, kernels::act_gelu_erf, kernels::act_gelu_tanh,
                              kernels::act_relu_squared, kernels::act_clamped_swiglu, kernels::act_xielu})
    for (uint32_t out : {Product::act, Product::gate})
      cases.push_back(product(with([=](Product& p) {
                                p.out = out;
                                p.activation = activation;
                                p.y_bf16 = activation != kernels::act_silu;
                                p.norm = Product::rms;
                                p.bias = 1;
                              }),
                              {36, 1024, 3}));
  for (uint32_t columns = 2; columns <= 8; ++columns)
    cases.push_back(product(with([=](Product& p) {
                              p.columns = columns;
                              p.norm = columns % 2 ? Product::rms : Product::no_norm;
                              p.out = Product::add;
                              p.x = columns == 4 ? Product::x_bf16 : Product::x_f32;
                            }),
                            {50, 2048, 3}));
  for (uint32_t columns : {1u, 2u})
    cases.push_back(product(with([=](Product& p) {
                              p.columns = columns;
                              p.exact = 1;
                              p.x = Product::x_bf16;
                            }),
                            {50, 2048, 3}));
  for (uint32_t halves : {0u, 1u})
    for (uint32_t rotary : {0u, 8u, 16u, 32u}) {
      cases.push_back(product(with([=](Product& p) {
                                p.out = Product::qkv;
                                p.halves = halves;
                                p.columns = rotary == 8 ? 3 : 1;
                                p.norm = Product::rms;
                                p.bias = rotary == 16;
                              }),
                              {32 * 8, 512, 3, 0, 4, 2, 32, rotary}));
      if (rotary % 16 == 0)
        cases.push_back(product(with([=](Product& p) {
                                  p.out = Product::qkv;
                                  p.cache = 0;
                                  p.halves = halves;
                                  p.columns = rotary / 16 + 1;
                                }),
                                {32 * 8, 512, 3, 0, 4, 2, 32, rotary}));
    }
  cases.push_back(product(with([](Product& p) {
                            p.per_warp = 3;
                            p.groups = 4;
                          }),
                          {70, 6144, 2}));
  cases.push_back(product(with([](Product& p) {
                            p.per_warp = 7;
                            p.groups = 1;
                            p.x = Product::x_bf16;
                            p.out = Product::add;
                          }),
                          {35, 14336, 2}));
  for (uint32_t tile_cols : {256u, 512u, 1024u})
    for (uint32_t columns : {1u, 2u})
      cases.push_back(product(with([=](Product& p) {
                                p.unit = 32;
                                p.tile_cols = tile_cols;
                                p.groups = tile_cols / 256 * 2;
                                p.columns = columns;
                                p.out = Product::gate;
                                p.room = 76;
                              }),
                              {100, tile_cols * 3, 3}));
  cases.push_back(product(plain, {64, 4096, 132}));  // most blocks have nothing to do
  cases.push_back(product(with([](Product& p) {
                            p.chained = 0;
                            p.depth = 1;
                          }),
                          {64, 1024, 5}));
  cases.push_back(product(with([](Product& p) {
                            p.late = 1;
                            p.norm = Product::rms;
                          }),
                          {64, 1024, 5}));
  cases.push_back(special_product_sums());
  add_expert_cases(plain, cases);
  if (sweep == Sweep::normal) return;
  for (Format format : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16, Format::q5_k, Format::iq2_xxs}) {
    auto chosen = [&](Product what, ProductShape s) {
      what.format = number(format);
      what.exact = quant::is_float(format);
      what.chained = 1;
      cases.push_back(product(kernels::product_choice(what, s.rows, s.cols).spec, s));
    };
    chosen({.norm = Product::rms, .out = Product::gate, .y_bf16 = 1}, {28672, 4096, 264});
    chosen({.x = Product::x_bf16, .out = Product::add}, {4096, 14336, 264});
    chosen({.norm = Product::rms, .out = Product::qkv, .halves = 1}, {6144, 4096, 132, 0, 32, 8, 128, 128});
    chosen({.norm = Product::rms}, {8960, 1536, 264});
  }
}

void add_product_benches(std::vector<Bench>& all) {
  const Product qkv{.norm = Product::rms, .out = Product::qkv, .halves = 1}, output{.out = Product::add};
  const Product gate{.norm = Product::rms, .out = Product::gate, .y_bf16 = 1};
  const Product down{.x = Product::x_bf16, .out = Product::add}, head{.norm = Product::rms};
  const Format q4 = Format::q4_k, q6 = Format::q6_k;
  struct Model {
    const char* name;
    uint32_t width, qkv, attended, inner, vocabulary;
  };
  for (const Model& s : {Model{"8B", 4096, 6144, 4096, 14336, 128256}, Model{"1.5B", 1536, 2304, 1536, 8960, 151936},
                         Model{"1B", 2048, 3072, 2048, 8192, 128256}}) {
    const std::string name = s.name;
    all.push_back(phase(name + " qkv", qkv, q4, s.width, s.qkv));
    all.push_back(phase(name + " output", output, q4, s.attended, s.width));
    all.push_back(phase(name + " gate", gate, q4, s.width, 2 * s.inner));
    all.push_back(phase(name + " down", down, q4, s.inner, s.width));
    all.push_back(phase(name + " down", down, q6, s.inner, s.width));
    all.push_back(phase(name + " head", head, q6, s.width, s.vocabulary));
  }
  // GPUs without bulk copies, with the shared memory of an RTX 30 and of an A100
  for (uint32_t kilobytes : {99u, 163u}) {
    const kernels::GpuLimits gpu{kilobytes << 10, (kilobytes + 1) << 10, 1536, false};
    const std::string name = fmt::format("8B in {} KB", kilobytes);
    all.push_back(phase(name + " qkv", qkv, q4, 4096, 6144, gpu));
    all.push_back(phase(name + " output", output, q4, 4096, 4096, gpu));
    all.push_back(phase(name + " gate", gate, q4, 4096, 28672, gpu));
    all.push_back(phase(name + " down", down, q4, 14336, 4096, gpu));
    all.push_back(phase(name + " down", down, q6, 14336, 4096, gpu));
    all.push_back(phase(name + " head", head, q6, 4096, 128256, gpu));
  }
  for (Format f : {Format::q8_0, Format::q6_k, Format::q5_k, Format::f16, Format::q2_k, Format::q3_k, Format::q4_0,
                   Format::iq4_xs, Format::iq2_xxs, Format::bf16}) {
    all.push_back(phase("1B gate", gate, f, 2048, 16384));
    Product wide = down;
    if (quant::is_float(f)) wide.x = Product::x_f32;
    all.push_back(phase("1B down", wide, f, 8192, 2048));
  }
  add_expert_product_benches(all);
  Product exact = gate;
  exact.exact = 1;
  exact.y_bf16 = 0;
  all.push_back(phase("8B exact gate", exact, q4, 4096, 28672));
  for (uint32_t columns : {2u, 4u, 8u}) {
    Product many = gate;
    many.columns = columns;
    all.push_back(phase("8B gate", many, q4, 4096, 28672));
  }
}

}  // namespace heddle::proof
