// Cases of tile_pack, byte for byte, and its timing.
#include <algorithm>
#include <bit>
#include <numeric>

#include "kernels/product/tile_pack.h"
#include "proof/bench.h"
#include "proof/format/weights.h"

namespace heddle::proof {

namespace {

using kernels::TilePack;
using kernels::TileShape;
using quant::Format;

struct RepackShape {
  uint32_t rows, cols;
};
template <class Spec>
std::string pack_text(const Spec& spec, const std::vector<RepackShape>& shapes) {
  std::string all = field_text(spec);
  for (auto [rows, cols] : shapes) all += fmt::format(" {}x{}", rows, cols);
  return all;
}

// One source into all rows; then two sources, with rows of zeros, into rows in any order.
void run_pack(const TilePack& spec, RepackShape size, Machine& m, Random& random, Check& check) {
  const uint32_t rows = size.rows, cols = size.cols;
  const auto format = Format(spec.format);
  const TileShape shape{format, rows, cols, spec.tile_cols};
  auto source = [&] { return random.bytes(quant::row_bytes(format, size_t(rows) * cols)); };
  const std::vector<uint8_t> a = source(), b = source(), before = random.bytes(shape.bytes());
  // as little aligned as it may be
  auto put = [&](const std::vector<uint8_t>& bytes) {
    std::vector<uint8_t> moved(spec.from_align(), 0xcc);
    moved.insert(moved.end(), bytes.begin(), bytes.end());
    return ptx::DevicePtr<uint8_t>{m.put(moved).address + spec.from_align()};
  };
  const auto from_a = put(a), from_b = put(b);
  TilePack::Args args{.to = m.put(before), .from = from_a, .order = {}, .rows = rows, .cols = cols};
  m.launch(spec, args);
  check.equal("tiles", m.get(args.to, shape.bytes()), tiles_of(shape, a));

  std::vector<uint32_t> order_a(rows), order_b(rows);
  for (uint32_t p = 0; p < rows; ++p) {
    const uint32_t kind = random.below(5), row = random.below(rows);
    order_a[p] = kind == 0 ? kernels::tile_row_zeros : kind < 3 ? row : kernels::tile_row_keep;
    order_b[p] = kind < 3 ? kernels::tile_row_keep : row;
  }
  args.to = m.put(before);
  args.order = m.put(order_a);
  m.launch(spec, args);
  args.from = from_b;
  args.order = m.put(order_b);
  m.launch(spec, args);
  check.equal("tiles of two sources", m.get(args.to, shape.bytes()),
              tiles_of(shape, b, order_b, tiles_of(shape, a, order_a, before)));
}
Case pack(const TilePack& spec, const std::vector<RepackShape>& shapes) {
  return {"tile_pack", pack_text(spec, shapes), "sm_75", [=](Machine& m, Random& random, Check& check) {
            for (const RepackShape& s : shapes) {
              m.clear();
              run_pack(spec, s, m, random, check);
              m.check_guards();
            }
          }};
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

}  // namespace

void add_tile_pack_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(pack({}, {{5, 512}}));
  if (sweep == Sweep::quick) return;
  const std::vector<uint32_t> widths{256, 512, 1024};
  uint32_t turn = 0;
  for (Format f : kernels::known_formats) {
    const uint32_t id = uint32_t(f), width = widths[turn++ % 3], rows = kernels::tile_values / width;
    // floats may have any length; a row of the tile and a block more; the last rows and columns padded
    const uint32_t odd = quant::is_float(f) ? 77 : 3 * quant::block_values(f);
    const uint32_t more = width + (quant::is_float(f) ? 8 : quant::block_values(f));
    cases.push_back(pack({.format = id, .tile_cols = width}, {{rows + 1, more}, {1, odd}}));
  }
  for (uint32_t width : widths) {
    const uint32_t rows = kernels::tile_values / width;
    const std::vector<RepackShape> shapes{{0, 256}, {rows, width}, {2 * rows, 2 * width}};
    cases.push_back(pack({.tile_cols = width}, shapes));
  }
  if (sweep != Sweep::full) return;
  for (Format f : kernels::known_formats) cases.push_back(pack({.format = uint32_t(f)}, {{4099, 4096}}));
  cases.push_back(pack({.format = uint32_t(Format::q6_k), .tile_cols = 256}, {{300'001, 256}}));
}

void add_tile_pack_benches(std::vector<Bench>& all) {
  for (Format f : {Format::q4_k, Format::q6_k, Format::q8_0}) all.push_back(pack(f, 4096, 28672));
}

}  // namespace heddle::proof
