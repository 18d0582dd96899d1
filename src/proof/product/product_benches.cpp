// What a decode step asks of the product, phase by phase, in a chain.
#include <algorithm>

#include "kernels/product/product.h"
#include "kernels/product/stream_read.h"
#include "kernels/product/tile_pack.h"
#include "proof/bench.h"

namespace heddle::proof {
namespace {

using kernels::Product;
using quant::Format;

// One phase of a decode step, in a chain.
Bench phase(const std::string& label, Product what, Format format, uint32_t cols, uint32_t rows) {
  what.format = uint32_t(format), what.exact = what.exact || quant::is_float(format), what.chained = 1;
  const auto [spec, per_sm] = kernels::product_choice(what, rows, cols, what.out == Product::add);
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
    args.turns = m.put(std::vector<uint64_t>(64)), args.positions = m.put(std::vector<uint32_t>(columns));
    args.table = m.put(std::vector<int32_t>(columns));
    args.k = m.poisoned<uint8_t>(rows / 6 * 64 + 64), args.v = m.poisoned<uint8_t>(rows / 6 * 64 + 64);
    return [=](Machine& now, uint32_t r) mutable {
      args.w = w[r % w.size()];
      now.launch(spec, args);
    };
  };
  std::string shape = fmt::format("{} {} {} -> {}", label, quant::name(format), cols, rows);
  if (spec.columns > 1) shape += fmt::format(" x {} columns", spec.columns);
  return {"product", shape, "sm_90", double(bytes), 2.0 * rows * cols * spec.columns, prepare};
}

Bench pack(Format format, uint32_t cols, uint32_t rows) {
  const kernels::TilePack spec{.format = uint32_t(format)};
  const uint64_t bytes = kernels::TileShape{format, rows, cols, spec.tile_cols}.bytes();
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const std::vector<uint8_t> one = random.bytes(bytes);
    std::vector<ptx::DevicePtr<uint8_t>> from;
    for (uint32_t i = 0; i < copies(double(bytes)); ++i) from.push_back(m.put(one));
    const auto to = m.poisoned<uint8_t>(bytes);
    return [=](Machine& now, uint32_t r) {
      now.launch(spec, {.to = to, .from = from[r % from.size()], .rows = rows, .cols = cols});
    };
  };
  return {"tile_pack", fmt::format("{} {} -> {}", quant::name(format), cols, rows), "sm_75", 2.0 * double(bytes), 0,
          prepare};
}

Bench read() {
  constexpr uint64_t words = uint64_t(1) << 28;
  auto prepare = [](Machine& m, Random&) -> Bench::Round {
    const kernels::StreamRead::Args args{.sum = m.put(std::vector<uint32_t>{0}),
                                         .data = m.poisoned<uint32_t>(words),
                                         .words = words,
                                         .blocks = m.processors() * 4};
    return [=](Machine& now, uint32_t) { now.launch(kernels::StreamRead{}, args); };
  };
  return {"stream_read", "1 GiB", "sm_75", double(words) * 4, 0, prepare};
}

}  // namespace

void add_stream_benches(std::vector<Bench>& all) {
  all.push_back(read());
  for (Format f : {Format::q4_k, Format::q6_k, Format::q8_0}) all.push_back(pack(f, 4096, 28672));
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
  for (Format f : {Format::q8_0, Format::q6_k, Format::q5_k, Format::f16, Format::q2_k, Format::q3_k, Format::q4_0,
                   Format::iq4_xs, Format::iq2_xxs, Format::bf16}) {
    all.push_back(phase("1B gate", gate, f, 2048, 16384));
    Product wide = down;
    if (quant::is_float(f)) wide.x = Product::x_f32;
    all.push_back(phase("1B down", wide, f, 8192, 2048));
  }
  Product exact = gate;
  exact.exact = 1, exact.y_bf16 = 0;
  all.push_back(phase("8B exact gate", exact, q4, 4096, 28672));
  for (uint32_t columns : {2u, 4u, 8u}) {
    Product many = gate;
    many.columns = columns;
    all.push_back(phase("8B gate", many, q4, 4096, 28672));
  }
}

}  // namespace heddle::proof
