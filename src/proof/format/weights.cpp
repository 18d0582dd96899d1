// Random weights, their decoding with the offsets apart, and their tiles, byte by byte.
#include "proof/format/weights.h"

#include <algorithm>

#include "kernels/product/tile_pack.h"

namespace heddle::proof {

namespace {

using quant::Format;

// Where a block has its f16 (or bf16, f32) scales, the size of a weight with scale 1, and where its quants are, for the
// formats with a min.
struct Layout {
  std::vector<uint32_t> scales;
  double weight;
  uint32_t quants_begin = 0, quants_end = 0;
};
Layout layout(Format format) {
  switch (format) {
    case Format::f32:
    case Format::f16:
    case Format::bf16:
    case Format::mxfp4:
    case Format::nvfp4:
    case Format::iq1_m:
    case Format::q8_k:
      return {{}, 1};  // scales of another kind
    case Format::q4_0:
      return {{0}, 8};
    case Format::q4_1:
      return {{0, 2}, 16, 4, 20};
    case Format::q5_0:
      return {{0}, 16};
    case Format::q5_1:
      return {{0, 2}, 32, 4, 24};
    case Format::q8_0:
      return {{0}, 128};
    case Format::q2_k:
      return {{80, 82}, 3 * 16, 16, 80};
    case Format::q3_k:
      return {{108}, 4 * 32};
    case Format::q4_k:
      return {{0, 2}, 16 * 64, 16, 144};
    case Format::q5_k:
      return {{0, 2}, 32 * 64, 16, 176};
    case Format::q6_k:
      return {{208}, 32 * 128};
    case Format::iq4_nl:
      return {{0}, 128};
    case Format::iq4_xs:
      return {{0}, 32 * 128};
    case Format::iq1_s:
      return {{0}, 15};
    case Format::iq2_xxs:
    case Format::iq2_xs:
    case Format::iq2_s:
      return {{0}, 43 * 4};
    case Format::iq3_xxs:
      return {{0}, 62 * 8};
    case Format::iq3_s:
      return {{0}, 15 * 31};
    case Format::tq1_0:
      return {{52}, 1};
    case Format::tq2_0:
      return {{64}, 2};
    case Format::q1_0:
      return {{0}, 1};
    case Format::q2_0:
      return {{0}, 2};
    case Format::q8_1:
      return {{0}, 128};
    default:
      break;
  }
  throw Error("no kernel reads {}", quant::name(format));
}

}  // namespace

std::vector<uint8_t> random_blocks(Random& random, Format format, size_t values, size_t values_per_row, Quants quants) {
  const size_t bytes = quant::row_bytes(format, values), block = quant::block_bytes(format);
  const double size = 1 / std::sqrt(double(std::max<size_t>(1, values_per_row)));
  std::vector<uint8_t> w =
      quants == Quants::random ? random.bytes(bytes) : std::vector<uint8_t>(bytes, quants == Quants::ones ? 0xff : 0);
  if (quant::is_float(format)) {
    for (size_t i = 0; i < values; ++i) {
      const float v = random.normal() * float(size);
      if (format == Format::f32) std::memcpy(&w[4 * i], &v, 4);
      const uint16_t half = format == Format::f16 ? to_f16(v).bits : to_bf16(v).bits;
      if (format != Format::f32) std::memcpy(&w[2 * i], &half, 2);
    }
    return w;
  }
  const Layout where = layout(format);
  auto scale = [&](double weight) {
    const float sign = random.below(2) ? -1.0f : 1.0f;
    return double(sign * random.uniform(0.7f, 1.4f)) * size / weight;
  };
  for (size_t at = 0; at < bytes; at += block) {
    if (format == Format::mxfp4) w[at] = uint8_t(int(127 + std::log2(size)) + int(random.below(3)) - 2);
    if (format == Format::nvfp4)  // subnormal and small ones; the sign is ignored
      for (size_t i = 0; i < 4; ++i) w[at + i] = uint8_t(random.below(24) | random.below(2) << 7);
    if (format == Format::iq1_m) {
      const uint16_t bits = to_f16(scale(15)).bits;  // in the high nibbles of four u16
      for (size_t i = 0; i < 4; ++i) {
        uint8_t& byte = w[at + 49 + 2 * i];
        byte = uint8_t((byte & 15) | (bits >> 4 * i & 15) << 4);
      }
    }
    if (format == Format::q8_k) {
      const float d = float(scale(128));
      std::memcpy(&w[at], &d, 4);
    }
    for (uint32_t field : where.scales) {
      const f16 v = to_f16(scale(where.weight));
      std::memcpy(&w[at + field], &v.bits, 2);
    }
  }
  return w;
}

DecodedRow decode_row(Format format, const uint8_t* row, size_t cols) {
  DecodedRow r{std::vector<float>(cols), std::vector<float>(cols, 0.0f)};
  quant::decode(format, row, cols, r.w.data());
  const Layout where = layout(format);
  if (!where.quants_end) return r;
  // with quants of 0 only the offset is left
  std::vector<uint8_t> bare(row, row + quant::row_bytes(format, cols));
  for (size_t at = 0; at < bare.size(); at += quant::block_bytes(format))
    std::fill(bare.begin() + long(at + where.quants_begin), bare.begin() + long(at + where.quants_end), uint8_t(0));
  quant::decode(format, bare.data(), cols, r.offset.data());
  return r;
}

std::vector<uint8_t> tiles_of(const kernels::TileShape& shape, std::span<const uint8_t> file,
                              const std::vector<uint32_t>& order, std::vector<uint8_t> before) {
  const uint32_t values = kernels::tile_block_values(shape.format), bytes = kernels::tile_block_bytes(shape.format);
  const uint32_t across = shape.tile_cols / values, tile_bytes = kernels::tile_bytes(shape.format);
  const uint64_t row_bytes = quant::row_bytes(shape.format, shape.cols);
  const kernels::TileStrip strip = kernels::tile_strip(shape.format, shape.tile_cols);
  const std::vector<kernels::TilePlane> planes = kernels::tile_planes(shape.format, shape.tile_cols);
  std::vector<uint8_t> tiles = std::move(before);
  tiles.resize(shape.bytes());
  for (uint32_t p = 0; p < shape.row_tiles() * shape.tile_rows(); ++p) {
    const uint32_t row = p >= shape.rows ? kernels::tile_row_zeros : order.empty() ? p : order[p];
    if (row == kernels::tile_row_keep) continue;
    // a row as in the file, padded
    std::vector<uint8_t> filled(uint64_t(shape.slices()) * across * bytes);
    if (row != kernels::tile_row_zeros) std::copy_n(file.begin() + long(row * row_bytes), row_bytes, filled.begin());
    for (uint32_t slice = 0; slice < shape.slices(); ++slice) {
      const uint64_t tile = (uint64_t(p / shape.tile_rows()) * shape.slices() + slice) * tile_bytes;
      for (uint32_t b = 0; b < across; ++b)
        for (const kernels::TilePlane& plane : planes)
          std::copy_n(filled.begin() + long((uint64_t(slice) * across + b) * bytes + plane.from), plane.bytes,
                      tiles.begin() + long(tile + b / strip.across * strip.bytes + plane.at +
                                           (p % shape.tile_rows() * strip.across + b % strip.across) * plane.bytes));
    }
  }
  return tiles;
}

}  // namespace heddle::proof
