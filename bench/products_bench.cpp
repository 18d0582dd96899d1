// Products of weights with rows of activations on one core, in products per second: name is instruction set, format,
// number of rows. `peak` is the part of what the core's own instruction could do, `memory` that of what it
// reads from main memory: above 1 where the weights stay in a cache.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/peak.h"
#include "cpu/cpu.h"
#include "cpu/isa.h"
#include "cpu/pack.h"
#include "cpu/pages.h"
#include "cpu/products.h"
#include "cpu/rows.h"
#include "tests/cpu/random_weights.h"

namespace {
using namespace heddle;
using namespace heddle::cpu;

constexpr uint32_t weight_rows = 2048, cols = 2048;  // more than the second cache of usual machines

struct Limits {
  double products, bytes;  // per second
};
const Limits& limits_of(const Isa& isa, bool halves) {
  static std::map<std::pair<std::string, bool>, Limits> known;
  const auto [at, is_new] = known.try_emplace({isa.name, halves});
  if (is_new) at->second = {bench::products_per_second(isa, halves), bench::bytes_per_second(isa)};
  return at->second;
}

void products(benchmark::State& state, const Isa& isa, quant::Format format, uint32_t count) {
  const std::vector<float> values = test::random_values(uint64_t(weight_rows) * cols, 1);
  const std::vector<uint8_t> bytes = test::random_weights(format, values);
  const model::Matrix matrix{format, weight_rows, cols, bytes};
  Weights weights = describe_weights(matrix, isa, false);
  const Pages tiles(weights.tiles() * weights.tile_bytes);  // aligned, as those of a model
  pack_tiles(matrix, weights, 0, weights.tiles(), tiles.data());
  weights.data = tiles.data();
  const Pages slab(slab_bytes(weights, isa));

  RowForms forms;
  forms.add(weights.kind);
  Rows rows(count, cols, forms);
  for (uint32_t i = 0; i < count; ++i) {
    std::copy_n(values.data() + uint64_t(i) * cols, cols, rows.row(i));
    rows.finish(i, isa);
  }
  const RowsView view = rows.view(count);
  const XRow* xs = view.of(weights.kind);
  const uint32_t at_once =
      count <= 32 || weights.pairs ? 16 : slab_tiles;  // as Products divides them among a few threads
  const Pages values_out(uint64_t(count) * at_once * isa.tile_rows * sizeof(float));
  float* const out = reinterpret_cast<float*>(values_out.data());
  for (auto _ : state) {
    for (uint64_t first = 0; first < weights.tiles(); first += at_once)
      multiply_tiles(weights, isa, first, uint32_t(std::min<uint64_t>(at_once, weights.tiles() - first)), xs, count,
                     out, slab.data());
    benchmark::DoNotOptimize(out);
  }
  state.SetItemsProcessed(state.iterations() * int64_t(values.size()) * count);
  const auto part_of = [&](double done, double limit) {
    return benchmark::Counter(done * double(state.iterations()) / limit, benchmark::Counter::kIsRate);
  };
  const Limits& limits = limits_of(isa, format <= quant::Format::bf16);
  if (limits.products > 0) state.counters["peak"] = part_of(double(values.size()) * count, limits.products);
  state.counters["memory"] = part_of(double(weights.tiles() * weights.tile_bytes), limits.bytes);
}

const bool registered = [] {
  for (const std::string& name : isa_names())
    for (const quant::Format format : quant::all_formats()) {
      const Isa& isa = choose_isa(name);
      if (x_kind(format, cols, isa, false) == XKind::f32) continue;
      for (const uint32_t count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 17, 24, 32, 33, 64, 128})
        benchmark::RegisterBenchmark(
            fmt::format("{}/{}/{}", name, quant::name(format), count).c_str(),
            [&isa, format, count](benchmark::State& state) { products(state, isa, format, count); });
    }
  return true;
}();

}  // namespace
