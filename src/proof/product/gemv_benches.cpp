// Timing of the products with few columns: the presets side by side, every format, 1 to 8 columns.
#include "kernels/layer/embedding.h"
#include "kernels/product/gemv_presets.h"
#include "kernels/product/tile_unpack.h"
#include "proof/bench.h"
#include "quant/q8_1.h"

namespace heddle::proof {
namespace {

using kernels::Gemv;

Bench gemv(std::string kernel, Gemv spec, uint32_t cols, uint32_t rows) {
  const double bytes = double(quant::row_bytes(spec.weights(), cols)) * rows;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const std::vector<uint8_t> one = random.bytes(size_t(bytes));  // the bits do not matter for the time
    std::vector<ptx::DevicePtr<uint8_t>> w;
    for (uint32_t i = 0; i < copies(bytes); ++i) w.push_back(m.put(one));
    const uint32_t q8_bytes = uint32_t(quant::q8_1_row_bytes(cols));
    Gemv::Args args{.y = m.poisoned<float>(size_t(rows) * spec.columns),
                    .x = m.put(random.normals(size_t(cols) * spec.columns)),
                    .xq = m.put(std::vector<uint8_t>(size_t(q8_bytes) * spec.columns)),
                    .w = {},
                    .rows = rows,
                    .cols = cols,
                    .y_stride = rows,
                    .x_stride = cols,
                    .xq_stride = q8_bytes};
    return [=](Machine& now, uint32_t r) mutable {
      args.w = w[r % w.size()];
      now.launch(spec, args);
    };
  };
  return {std::move(kernel),
          fmt::format("{} {} -> {} x {} columns", quant::name(spec.weights()), cols, rows, spec.columns),
          std::string(Gemv::lowest_target),
          bytes,
          2.0 * rows * cols * spec.columns,
          prepare};
}

// 512 tokens of a vocabulary of 128256.
Bench embedding(quant::Format format) {
  constexpr uint32_t tokens = 512, cols = 4096, vocabulary = 128256;
  const size_t row = quant::row_bytes(format, cols);
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const auto table = m.poisoned<uint8_t>(row * vocabulary);  // the bits do not matter for the time
    std::vector<ptx::DevicePtr<uint32_t>> ids;
    for (uint32_t i = 0; i < 16; ++i) {
      std::vector<uint32_t> some(tokens);
      for (auto& id : some) id = random.below(vocabulary);
      ids.push_back(m.put(some));
    }
    const auto y = m.poisoned<float>(size_t(tokens) * cols);
    const kernels::Embedding spec{.format = uint32_t(format), .chained = 1};
    return [=](Machine& now, uint32_t r) {
      now.launch(spec, {.y = y,
                        .table = table,
                        .ids = ids[r % ids.size()],
                        .tokens = tokens,
                        .cols = cols,
                        .vocabulary = vocabulary,
                        .scale = 1});
    };
  };
  return {"embedding", fmt::format("{} {} x {}", quant::name(format), tokens, cols),
          "sm_75",     double(tokens) * (double(row) + cols * 4.0),
          0,           prepare};
}

// Of a layer's weights, for a product on tensor cores.
Bench unpack(quant::Format format) {
  constexpr uint32_t rows = 14336, cols = 4096;
  const kernels::TileUnpack spec{.format = uint32_t(format), .chained = 1};
  const uint64_t bytes = kernels::TileShape{format, rows, cols, spec.tile_cols}.bytes();
  auto prepare = [=](Machine& m, Random&) -> Bench::Round {
    std::vector<ptx::DevicePtr<uint8_t>> w;  // the bits do not matter for the time
    for (uint32_t i = 0; i < copies(double(bytes)); ++i) w.push_back(m.poisoned<uint8_t>(bytes));
    const auto to = m.poisoned<uint8_t>(size_t(rows) * cols * 2);
    return [=](Machine& now, uint32_t r) {
      now.launch(spec,
                 {.to = to, .w = w[r % w.size()], .order = {}, .rows = rows, .cols = cols, .ld = cols, .first = 0});
    };
  };
  return {"tile_unpack",
          fmt::format("{} {} -> {}", quant::name(format), cols, rows),
          "sm_90",
          double(bytes) + 2.0 * rows * cols,
          0,
          prepare};
}

}  // namespace

void add_product_benches(std::vector<Bench>& all) {
  for (quant::Format format : {quant::Format::q4_k, quant::Format::q6_k, quant::Format::q8_0, quant::Format::f16,
                               quant::Format::mxfp4, quant::Format::iq2_xxs})
    all.push_back(unpack(format));
  for (quant::Format format : {quant::Format::q4_k, quant::Format::f16}) all.push_back(embedding(format));
  const std::string dp4a = "mwv_dp4a_q4k_gemv";
  for (auto& [name, summary, spec] : kernels::gemv_presets()) {
    Gemv chained = spec;
    chained.chained = 1;
    if (spec.format == uint32_t(quant::Format::q4_k) && name != "q4k_gemv") {  // the named points, side by side
      all.push_back(gemv(name, chained, 4096, 4096));
      all.push_back(gemv(name, chained, 4096, 28672));
      all.push_back(gemv(name, chained, 14336, 4096));
    } else {
      all.push_back(gemv(name, chained, 4096, 28672));
    }
    if (name == "q4k_gemv" || name == dp4a)
      for (uint32_t columns : {2u, 4u, 8u}) {
        chained.columns = columns;
        all.push_back(gemv(name, chained, 4096, 28672));
      }
  }
}

}  // namespace heddle::proof
