// Cases of tile_pack, byte for byte, and of tile_unpack, bit for bit: kernels do the roundings of the format's
// definition. And their timing.
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
using kernels::TileUnpack;
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

// All rows; then some, to rows in another order, one of which is left out.
void run_unpack(const TileUnpack& spec, RepackShape size, Machine& m, Random& random, Check& check) {
  const uint32_t rows = size.rows, cols = size.cols;
  const auto format = Format(spec.format);
  const TileShape shape{format, rows, cols, spec.tile_cols};
  std::vector<uint8_t> file = random_blocks(random, format, size_t(rows) * cols, cols);
  for (size_t i = 0; i < size_t(rows) * cols; i += 13) {
    const float special = beyond_f16()[i / 13 % beyond_f16().size()];
    const bf16 narrow = to_bf16(special);
    if (format == Format::f32) std::memcpy(&file[4 * i], &special, 4);
    if (format == Format::bf16) std::memcpy(&file[2 * i], &narrow, 2);
  }
  std::vector<float> values(size_t(rows) * cols);
  quant::decode(format, file.data(), values.size(), values.data());
  const uint32_t ld = (cols + 63) / 64 * 64 + 64 * random.below(7);
  const bool halves = spec.out == TileUnpack::to_f16;
  const size_t value_bytes = halves ? 2 : 4;

  TileUnpack::Args args{
      .to = {}, .w = m.put(tiles_of(shape, file)), .order = {}, .rows = rows, .cols = cols, .ld = ld, .first = 0};
  auto compare = [&](const std::string& what, const std::vector<uint32_t>& rows_of_to, uint32_t out_rows) {
    args.to = m.poisoned<uint8_t>(value_bytes * out_rows * ld);
    std::vector<uint8_t> want(value_bytes * out_rows * ld, 0xcc);
    for (uint32_t i = 0; i < args.rows; ++i) {
      if (rows_of_to[i] == kernels::tile_row_skip) continue;
      for (uint32_t c = 0; c < ld; ++c) {
        const float v = c < cols ? values[size_t(args.first + i) * cols + c] : 0;
        const uint16_t half = within_f16({v})[0].bits;
        uint8_t* to = &want[(size_t(rows_of_to[i]) * ld + c) * value_bytes];
        if (halves)
          std::memcpy(to, &half, 2);
        else
          std::memcpy(to, &v, 4);
      }
    }
    m.launch(spec, args);
    std::vector<uint8_t> got = m.get(args.to, want.size());
    if (halves) {
      const std::vector<f16> same = one_nan(m.get(ptx::DevicePtr<f16>{args.to.address}, want.size() / 2));
      std::memcpy(got.data(), same.data(), got.size());
    }
    for (uint32_t r = 0; r < out_rows; ++r)  // padding zeros may have a sign
      for (uint32_t c = cols; c < ld; ++c)
        if (uint8_t& top = got[(size_t(r) * ld + c + 1) * value_bytes - 1]; top == 0x80) top = 0;
    check.equal(what, got, want);
  };
  std::vector<uint32_t> out(rows);
  std::iota(out.begin(), out.end(), 0u);
  compare("rows", out, rows);

  args.first = std::min(rows, shape.tile_rows());
  if (args.first % shape.tile_rows()) return;
  args.rows = rows - args.first;
  out.resize(args.rows);
  compare("the last rows", out, args.rows);
  std::reverse(out.begin(), out.end());
  if (!out.empty()) out.back() = kernels::tile_row_skip;
  std::vector<uint32_t> order(args.first, 0x77777777);
  order.insert(order.end(), out.begin(), out.end());
  args.order = m.put(order);
  compare("rows in another order", out, args.rows);
}
Case unpack(const TileUnpack& spec, const std::vector<RepackShape>& shapes) {
  return {"tile_unpack", pack_text(spec, shapes), spec.chained ? "sm_90" : "sm_80",
          [=](Machine& m, Random& random, Check& check) {
            for (const RepackShape& s : shapes) {
              m.clear();
              run_unpack(spec, s, m, random, check);
              m.check_guards();
            }
          }};
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

void add_tile_pack_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(pack({}, {{5, 512}}));
  cases.push_back(unpack({}, {{5, 512}}));
  if (sweep == Sweep::quick) return;
  const std::vector<uint32_t> widths{256, 512, 1024};
  uint32_t turn = 0;
  for (Format f : kernels::known_formats) {
    const uint32_t id = uint32_t(f), width = widths[turn++ % 3], rows = kernels::tile_values / width;
    // floats may have any length; a row of the tile and a block more; the last rows and columns padded
    const uint32_t odd = quant::is_float(f) ? 77 : 3 * quant::block_values(f);
    const uint32_t more = width + (quant::is_float(f) ? 8 : quant::block_values(f));
    cases.push_back(pack({.format = id, .tile_cols = width}, {{rows + 1, more}, {1, odd}}));
    cases.push_back(unpack({.format = id, .tile_cols = width}, {{rows + 1, more}}));
    cases.push_back(unpack({.format = id, .tile_cols = 256, .out = TileUnpack::to_f32}, {{17, odd}}));
  }
  for (uint32_t width : widths) {
    const uint32_t rows = kernels::tile_values / width;
    const std::vector<RepackShape> shapes{{0, 256}, {rows, width}, {2 * rows, 2 * width}};
    cases.push_back(pack({.tile_cols = width}, shapes));
    cases.push_back(unpack({.tile_cols = width, .chained = 1}, shapes));
  }
  if (sweep != Sweep::full) return;
  for (Format f : kernels::known_formats) {
    cases.push_back(pack({.format = uint32_t(f)}, {{4099, 4096}}));
    cases.push_back(unpack({.format = uint32_t(f)}, {{1027, 4096}}));
  }
  cases.push_back(pack({.format = uint32_t(Format::q6_k), .tile_cols = 256}, {{300'001, 256}}));
  cases.push_back(unpack({.format = uint32_t(Format::q8_0), .tile_cols = 512}, {{5, 8960}, {70'001, 512}}));
  cases.push_back(unpack({.format = uint32_t(Format::iq2_s)}, {{4099, 4096}}));  // more tiles than blocks
}

void add_tile_pack_benches(std::vector<Bench>& all) {
  for (Format f : {Format::q4_k, Format::q6_k, Format::q8_0}) all.push_back(pack(f, 4096, 28672));
  for (Format f : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16, Format::mxfp4, Format::iq2_xxs})
    all.push_back(unpack(f));
}

}  // namespace heddle::proof
