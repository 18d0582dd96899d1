// Benches of the kernels for several and for many vectors, in the shapes of a layer of an 8B model.
#include "kernels/product/mma_product.h"
#include "kernels/product/mma_tiles.h"
#include "kernels/product/wgmma_product.h"
#include "proof/bench.h"
#include "proof/product/product_problem.h"

namespace heddle::proof {

namespace {

using kernels::MmaProduct;
using kernels::MmaTiles;
using kernels::Product;
using kernels::WgmmaProduct;
using quant::Format;

uint32_t resident(const MmaProduct& s) { return s.resident; }
uint32_t resident(const MmaTiles& s) { return s.resident; }
uint32_t resident(const WgmmaProduct&) { return 1; }

std::string cut_of(const MmaProduct& s) {
  return fmt::format("columns={} band={} teams={} resident={} stages={}", s.columns, s.band, s.teams, s.resident,
                     s.stages);
}
std::string cut_of(const MmaTiles& s) {
  return fmt::format("columns={} row_tiles={} warps={}x{} stage_cols={} stages={} resident={} async={}", s.columns,
                     s.row_tiles, s.row_warps, s.col_warps, s.stage_cols, s.stages, s.resident, s.async);
}
std::string cut_of(const WgmmaProduct& s) {
  return fmt::format("columns={} groups={}x{} shares={} stage_cols={} run={} stages={} runs={} early={}", s.columns,
                     s.row_groups, s.col_groups, s.shares, s.stage_cols, s.run, s.stages, s.runs, s.early);
}

template <class Spec>
Bench matrix_phase(const Spec& spec, uint32_t rows, uint32_t cols, uint32_t vectors) {
  const Format format = spec.weights();
  const uint64_t bytes = kernels::TileShape{format, rows, cols, spec.tile_cols}.bytes();
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    // values of the usual size, over and over: their bits matter for the power that a GPU draws
    const std::vector<uint8_t> some = random_blocks(random, format, size_t(1) << 20, 1024);
    const std::vector<uint8_t> tiles = tiles_of({format, 1024, 1024, 1024}, some);
    std::vector<uint8_t> one(bytes);
    for (size_t i = 0; i < bytes; ++i) one[i] = tiles[i % tiles.size()];
    std::vector<ptx::DevicePtr<uint8_t>> w;
    for (uint32_t i = 0; i < std::min(copies(double(bytes)), 4u); ++i) w.push_back(m.put(one));
    const uint32_t filled = (vectors + spec.columns - 1) / spec.columns * spec.columns;
    Product::Args args{.y = m.poisoned<float>(size_t(rows) * vectors),
                       .x = {m.put(half_inputs(random, size_t(filled) * spec.slices * spec.tile_cols)).address},
                       .rows = rows,
                       .cols = cols,
                       .y_stride = rows,
                       .blocks = m.processors() * resident(spec),
                       .vectors = vectors,
                       .q_rows = rows / 6 * 4,
                       .k_rows = rows / 6,
                       .head = 128,
                       .value_head = 128,
                       .rotary = 128,
                       .kv_heads = rows / 6 / 128,
                       .page_size = 32,
                       .table_stride = 1,
                       .scale = 1,
                       .magnitude = 1,
                       .scales = m.put(std::vector<float>(vectors, 1.0f))};
    args.residual = args.y;
    args.turns = m.put(std::vector<uint64_t>(64, 0x123456789abcdefull));
    std::vector<uint32_t> positions;
    std::vector<int32_t> table;
    for (uint32_t v = 0; v < vectors; ++v) {
      positions.push_back(v % 32);
      table.push_back(int32_t(v / 32));
    }
    args.positions = m.put(positions);
    args.table = m.put(table);
    const size_t cache = size_t(vectors + 31) / 32 * 32 * (rows / 6) * 2 + 64;
    args.k = m.poisoned<uint8_t>(cache);
    args.v = m.poisoned<uint8_t>(cache);
    return [=](Machine& now, uint32_t r) mutable {
      args.w = w[r % w.size()];
      now.launch(spec, args);
    };
  };
  return {std::string(Spec::name),
          fmt::format("{} {} -> {} x {} out={} {}", quant::name(format), cols, rows, vectors, spec.out, cut_of(spec)),
          std::string(Spec::lowest_target),
          double(bytes),
          2.0 * rows * cols * vectors,
          prepare};
}

// Experts of a mixture with a few vectors each.
template <class Spec>
Bench expert_tiles_phase(const Spec& spec, uint32_t rows, uint32_t cols, uint32_t count, uint32_t vectors) {
  const Format format = spec.weights();
  const kernels::TileShape shape{format, rows, cols, spec.tile_cols};
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    std::vector<uint8_t> all;
    const std::vector<uint8_t> one = tiles_of(shape, random_blocks(random, format, size_t(rows) * cols, cols));
    for (uint32_t e = 0; e < count; ++e) all.insert(all.end(), one.begin(), one.end());
    std::vector<kernels::ExpertTile> tiles;
    for (uint32_t e = 0; e < count; ++e) tiles.push_back({e, e * spec.columns, vectors, 0});
    const uint32_t slots = count * spec.columns;
    const Product::Args args{.y = m.poisoned<float>(size_t(slots) * rows),
                             .x = {m.put(half_inputs(random, size_t(slots) * spec.slices * spec.tile_cols)).address},
                             .w = m.put(all),
                             .expert_bytes = shape.bytes(),
                             .rows = rows,
                             .cols = cols,
                             .y_stride = rows,
                             .blocks = m.processors() * resident(spec),
                             .vectors = slots,
                             .scale = 1,
                             .scales = m.put(std::vector<float>(slots, 1.0f)),
                             .tiles = m.put(tiles),
                             .tile_count = m.put(std::vector<uint32_t>{count})};
    return [=](Machine& now, uint32_t) { now.launch(spec, args); };
  };
  return {std::string(spec.name),
          fmt::format("{} experts {} -> {} x {} out={} {}", quant::name(format), cols, rows, vectors, spec.out,
                      cut_of(spec)),
          std::string(spec.lowest_target),
          double(shape.bytes()) * count,
          2.0 * rows * cols * vectors * count,
          prepare};
}

struct Phase {
  uint32_t out, rows, cols;
};
constexpr Phase phases[] = {
    {Product::qkv, 6144, 4096}, {Product::add, 4096, 4096}, {Product::gate, 28672, 4096}, {Product::add, 4096, 14336}};
// those of Qwen3-30B-A3B, and how many of its 128 experts 32 streams use
constexpr Phase expert_phases[] = {{Product::gate, 1536, 2048}, {Product::store, 2048, 768}};
constexpr uint32_t experts_used = 110;

}  // namespace

void add_mma_product_benches(std::vector<Bench>& all) {
  for (uint32_t vectors : {4u, 8u, 16u, 32u})
    for (const Phase& p : phases)
      all.push_back(matrix_phase(
          kernels::mma_product_choice({.out = p.out, .halves = 1, .chained = 1}, p.rows, p.cols, vectors, 132), p.rows,
          p.cols, vectors));
  for (const Phase& p : expert_phases)
    all.push_back(expert_tiles_phase(
        kernels::mma_product_choice({.out = p.out, .experts = 1}, p.rows * experts_used, p.cols, 8, 132), p.rows,
        p.cols, experts_used, 2));
}

void add_mma_tiles_benches(std::vector<Bench>& all) {
  constexpr uint32_t sm_86 = 99 * 1024, sm_75 = 64 * 1024;  // shared memory of a block
  auto add = [&](MmaTiles what, const Phase& p, uint32_t vectors, size_t compared) {
    what.out = p.out;
    what.halves = 1;
    const std::vector<MmaTiles> specs =
        kernels::mma_tiles_candidates(what, p.rows, p.cols, vectors, 132, what.async ? sm_86 : sm_75);
    for (size_t i = 0; i < std::min(specs.size(), compared); ++i)
      all.push_back(matrix_phase(specs[i], p.rows, p.cols, vectors));
  };
  // what is chosen, and some that come next
  for (uint32_t vectors : {32u, 64u, 128u, 512u, 2048u})
    for (const Phase& p : phases) {
      add({}, p, vectors, 5);
      add({.async = 0}, p, vectors, 1);
      for (Format format : {Format::q6_k, Format::q8_0}) add({.format = uint32_t(format)}, p, vectors, 1);
    }
  for (uint32_t vectors : {8u, 32u, 64u})
    for (const Phase& p : expert_phases) {
      const std::vector<MmaTiles> specs =
          kernels::mma_tiles_candidates({.out = p.out, .experts = 1}, p.rows, p.cols, vectors, 132, sm_86);
      for (size_t i = 0; i < 3; ++i)
        if (specs[i].columns >= vectors)
          all.push_back(expert_tiles_phase(specs[i], p.rows, p.cols, experts_used, vectors));
    }
}

void add_wgmma_product_benches(std::vector<Bench>& all) {
  // what is chosen, and some that come next
  constexpr size_t compared = 3;
  for (Format format : {Format::q4_k, Format::q6_k})
    for (uint32_t vectors : {8u, 16u, 32u, 64u, 128u, 256u, 512u, 2048u})
      for (const Phase& p : phases) {
        const std::vector<WgmmaProduct> specs = kernels::wgmma_product_candidates(
            {.format = uint32_t(format), .out = p.out, .halves = 1, .chained = 1}, p.rows, p.cols, vectors, 132);
        for (size_t i = 0; i < std::min(specs.size(), compared); ++i)
          all.push_back(matrix_phase(specs[i], p.rows, p.cols, vectors));
      }
  for (uint32_t vectors : {2u, 4u})
    for (const Phase& p : expert_phases) {
      const std::vector<WgmmaProduct> specs =
          kernels::wgmma_product_candidates({.out = p.out, .experts = 1}, p.rows, p.cols, vectors, 132);
      for (size_t i = 0; i < std::min(specs.size(), compared); ++i)
        all.push_back(expert_tiles_phase(specs[i], p.rows, p.cols, experts_used, vectors));
    }
}

}  // namespace heddle::proof
