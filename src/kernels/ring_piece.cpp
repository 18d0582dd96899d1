// From a tile in shared memory to a lane's part of four dot products.
#include "kernels/ring_piece.h"

namespace heddle::kernels {

using namespace ptx;

RingPiece::RingPiece(Code& k, uint32_t format, U32 lane)
    : format_(block_format(ring_formats()[format].format)),
      six_bits_(ring_formats()[format].format == quant::Format::q6_k),
      block_(lane / 8u),
      lane_(lane_of(k, lane, 8, false)) {}

RingPiece::Both RingPiece::activations(Global<uint8_t> x, U32 slice, U32 cols) const {
  U32 first = slice * ring_tile_cols + block_ * 256u + format_.first(lane_);
  auto run = [&](U32 at) {
    auto q = load_vec<4>((x + at).as<uint32_t>());
    auto pair = load_vec<2>((x + (cols + (at >> 4u) * 8u)).as<float>());
    return Activations{.q = q, .d = pair[0], .sum = pair[1]};
  };
  return {run(first), run(first + format_.apart)};
}

Raw RingPiece::load(Shared<uint8_t> w, uint32_t r) const {
  auto words = [](Shared<uint8_t> at) {
    auto v = load_vec<4>(at.as<uint32_t>());
    return std::vector<U32>(v.begin(), v.end());
  };
  U32 piece = lane_.piece;
  if (!six_bits_)  // planes: heads of 16 bytes, nibbles of 128
    return {.head = words((w + block_ * 16u).offset(r * 64)),
            .quants = words((w + (block_ * 128u + piece * 16u)).offset(256 + r * 512))};
  // planes: nibbles of 128 bytes, upper bits of 64, scales of 16, d
  auto scales = (w + (block_ * 16u + (piece >> 2u) * 8u + (piece & 3u))).offset(3072 + r * 64).as<int8_t>();
  U16 d = ptx::load((w + block_ * 2u).offset(3328 + r * 8).as<uint16_t>());
  Raw raw{
      .head = {to<uint32_t>(d), bitcast<uint32_t>(ptx::load(scales)), bitcast<uint32_t>(ptx::load(scales.offset(4)))},
      .quants = words((w + (block_ * 128u + piece * 16u)).offset(r * 512))};
  for (U32 v : words((w + (block_ * 64u + (piece >> 2u) * 32u + (piece & 1u) * 16u)).offset(2048 + r * 256)))
    raw.quants.push_back(v);
  return raw;
}

std::vector<F32> RingPiece::dot(Shared<uint8_t> w, uint32_t r, const std::vector<Both>& x) const {
  const std::array<Run, 2> runs = format_.decode_unsigned(load(w, r), lane_);
  // 2^23 + 2^22 as bits: added to an integer below 2^22 it makes the float 2^23 + 2^22 + integer, without a conversion
  constexpr int32_t above = 0x4b400000;
  std::vector<F32> dots;
  for (const Both& column : x) {
    std::vector<F32> parts;
    for (uint32_t i = 0; i < 2; ++i) {
      const Activations& a = column[i];
      auto product = [&](U32 q, U32 v, Arg<int32_t> sum) {
        return runs[i].has_min ? dp4a<uint8_t, int8_t>(q, v, sum) : dp4a<int8_t, int8_t>(q, v, sum);
      };
      S32 sum = product(runs[i].q[0], a.q[0], above);
      for (uint32_t j = 1; j < 4; ++j) sum = product(runs[i].q[j], a.q[j], sum);
      F32 part = (bitcast<float>(sum) - (0x1p23f + 0x1p22f)) * a.d * runs[i].scale;
      parts.push_back(runs[i].has_min ? fma(-runs[i].min, a.sum, part) : part);
    }
    dots.push_back(parts[0] + parts[1]);
  }
  return dots;
}

}  // namespace heddle::kernels
