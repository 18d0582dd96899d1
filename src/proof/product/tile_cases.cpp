// Tiles byte for byte, and what is read from them bit for bit: kernels do the roundings of the format's definition.
#include "proof/product/tile_cases.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "kernels/layer/embedding.h"
#include "kernels/product/tile_pack.h"
#include "kernels/product/tile_unpack.h"
#include "proof/product/random_blocks.h"
#include "proof/product/tiles.h"

namespace heddle::proof {

namespace {

using kernels::Embedding;
using kernels::TilePack;
using kernels::TileShape;
using kernels::TileUnpack;
using quant::Format;

struct RepackShape {
  uint32_t rows, cols;
};
template <class Spec>
std::string text(const Spec& spec, const std::vector<RepackShape>& shapes) {
  std::string all = field_text(spec);
  for (auto [rows, cols] : shapes) all += fmt::format(" {}x{}", rows, cols);
  return all;
}

// --- tile_pack ------------------------------------------------------------------------------------------------------
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
    order_a[p] = kind == 0 ? kernels::tile_row_of_zeros : kind < 3 ? row : kernels::tile_row_as_it_is;
    order_b[p] = kind < 3 ? kernels::tile_row_as_it_is : row;
  }
  args.to = m.put(before);
  args.order = m.put(order_a);
  m.launch(spec, args);
  args.from = from_b, args.order = m.put(order_b);
  m.launch(spec, args);
  check.equal("tiles of two sources", m.get(args.to, shape.bytes()),
              tiles_of(shape, b, order_b, tiles_of(shape, a, order_a, before)));
}
Case pack(const TilePack& spec, const std::vector<RepackShape>& shapes) {
  return {"tile_pack", text(spec, shapes), "sm_75", [=](Machine& m, Random& random, Check& check) {
            for (const RepackShape& s : shapes) {
              m.clear();
              run_pack(spec, s, m, random, check);
              m.check_guards();
            }
          }};
}

// --- tile_unpack ----------------------------------------------------------------------------------------------------
// All rows; then some, to rows in another order, of which one is nowhere.
void run_unpack(const TileUnpack& spec, RepackShape size, Machine& m, Random& random, Check& check) {
  const uint32_t rows = size.rows, cols = size.cols;
  const auto format = Format(spec.format);
  const TileShape shape{format, rows, cols, spec.tile_cols};
  std::vector<uint8_t> file = random_blocks(random, format, size_t(rows) * cols, cols);
  if (format == Format::f32)  // beyond the range of f16
    for (size_t i = 0; i < size_t(rows) * cols; i += 13) {
      const float large = i % 2 ? -1e6f : i % 3 ? 65520.0f : 3e38f;
      std::memcpy(&file[4 * i], &large, 4);
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
      if (rows_of_to[i] == kernels::tile_row_nowhere) continue;
      for (uint32_t c = 0; c < ld; ++c) {
        const float v = c < cols ? values[size_t(args.first + i) * cols + c] : 0;
        const uint16_t half = to_f16(std::clamp(v, -65504.0f, 65504.0f)).bits;
        uint8_t* to = &want[(size_t(rows_of_to[i]) * ld + c) * value_bytes];
        if (halves)
          std::memcpy(to, &half, 2);
        else
          std::memcpy(to, &v, 4);
      }
    }
    m.launch(spec, args);
    std::vector<uint8_t> got = m.get(args.to, want.size());
    for (uint32_t r = 0; r < out_rows; ++r)  // zeros that fill up may have a sign
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
  if (!out.empty()) out.back() = kernels::tile_row_nowhere;
  std::vector<uint32_t> order(args.first, 0x77777777);
  order.insert(order.end(), out.begin(), out.end());
  args.order = m.put(order);
  compare("rows in another order", out, args.rows);
}
Case unpack(const TileUnpack& spec, const std::vector<RepackShape>& shapes) {
  return {"tile_unpack", text(spec, shapes), spec.chained ? "sm_90" : "sm_80",
          [=](Machine& m, Random& random, Check& check) {
            for (const RepackShape& s : shapes) {
              m.clear();
              run_unpack(spec, s, m, random, check);
              m.check_guards();
            }
          }};
}

// --- embedding ------------------------------------------------------------------------------------------------------
Case embedding(const Embedding& spec, uint32_t vocabulary, uint32_t cols, uint32_t tokens, float scale) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const auto format = Format(spec.format);
    const std::vector<uint8_t> file = random_blocks(random, format, size_t(vocabulary) * cols, cols);
    std::vector<uint32_t> ids(tokens);
    for (uint32_t i = 0; i < tokens; ++i)  // the last row, ids that do not exist, any
      ids[i] = i == 0 ? vocabulary - 1 : i == 2 ? vocabulary : i == 3 ? 0xffffffff : random.below(vocabulary);
    constexpr uint32_t after = 5;  // values behind y that must stay as they are
    const size_t count = size_t(tokens) * cols;
    std::vector<float> before(count + after, std::bit_cast<float>(0xcccccccc));
    if (spec.add) before = random.normals(before.size());
    const Embedding::Args args{.y = m.put(before),
                               .table = m.put(tiles_of({format, vocabulary, cols, spec.tile_cols}, file)),
                               .ids = m.put(ids),
                               .tokens = tokens,
                               .cols = cols,
                               .vocabulary = vocabulary,
                               .scale = scale};
    m.launch(spec, args);
    std::vector<float> want = before, row(cols);
    for (uint32_t i = 0; i < tokens; ++i) {
      std::fill(row.begin(), row.end(), 0.0f);
      if (ids[i] < vocabulary) {
        quant::decode(format, file.data() + ids[i] * quant::row_bytes(format, cols), cols, row.data());
        for (float& v : row) v *= scale;
      }
      for (uint32_t c = 0; c < cols; ++c) {
        float& y = want[size_t(i) * cols + c];
        y = spec.add ? y + row[c] : row[c];
      }
    }
    check.equal("y", m.get(args.y, before.size()), want);
  };
  return {"embedding",
          fmt::format("{} vocabulary={} cols={} tokens={} scale={}", field_text(spec), vocabulary, cols, tokens, scale),
          spec.chained ? "sm_90" : "sm_75", run};
}

}  // namespace

void add_tile_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(pack({}, {{5, 512}}));
  cases.push_back(unpack({}, {{5, 512}}));
  cases.push_back(embedding({}, 9, 512, 5, 1.0f));
  if (sweep == Sweep::quick) return;
  const std::vector<uint32_t> widths{256, 512, 1024};
  uint32_t turn = 0;
  for (Format f : kernels::known_formats) {
    const uint32_t id = uint32_t(f), width = widths[turn++ % 3], rows = kernels::tile_values / width;
    // floats may have any length; a row of the tile and a block more; the last rows and columns filled up
    const uint32_t odd = quant::is_float(f) ? 77 : 3 * quant::block_values(f);
    const uint32_t more = width + (quant::is_float(f) ? 8 : quant::block_values(f));
    cases.push_back(pack({.format = id, .tile_cols = width}, {{rows + 1, more}, {1, odd}}));
    cases.push_back(unpack({.format = id, .tile_cols = width}, {{rows + 1, more}}));
    cases.push_back(unpack({.format = id, .tile_cols = 256, .out = TileUnpack::to_f32}, {{17, odd}}));
    cases.push_back(embedding({.format = id, .tile_cols = width}, rows + 3, odd, 7, 1.0f));
    cases.push_back(embedding({.format = id, .tile_cols = width, .threads = 32, .add = 1}, 3, more, 1, 45.25f));
  }
  for (uint32_t width : widths) {
    const uint32_t rows = kernels::tile_values / width;
    cases.push_back(pack({.tile_cols = width}, {{0, 256}, {rows, width}, {2 * rows, 2 * width}}));
    cases.push_back(unpack({.tile_cols = width, .chained = 1}, {{0, 256}, {rows, width}, {2 * rows, 2 * width}}));
    cases.push_back(embedding({.tile_cols = width, .threads = 96, .chained = 1}, 3, 256, 0, 1.0f));
    cases.push_back(embedding({.format = 0, .tile_cols = width, .add = 1}, 5, 2 * width + 2, 4, 0.5f));
  }
  if (sweep != Sweep::full) return;
  for (Format f : kernels::known_formats) {
    cases.push_back(pack({.format = uint32_t(f)}, {{4099, 4096}}));
    cases.push_back(unpack({.format = uint32_t(f)}, {{1027, 4096}}));
    cases.push_back(embedding({.format = uint32_t(f)}, 1021, 4096, 33, 1.0f));
  }
  cases.push_back(pack({.format = uint32_t(Format::q6_k), .tile_cols = 256}, {{300'001, 256}}));
  cases.push_back(unpack({.format = uint32_t(Format::q8_0), .tile_cols = 512}, {{5, 8960}, {70'001, 512}}));
  cases.push_back(unpack({.format = uint32_t(Format::iq2_s)}, {{4099, 4096}}));  // more tiles than blocks
  for (Format f : {Format::q4_k, Format::q6_k, Format::bf16})
    cases.push_back(embedding({.format = uint32_t(f)}, 128'256, 4096, 33, 1.0f));
}

}  // namespace heddle::proof
