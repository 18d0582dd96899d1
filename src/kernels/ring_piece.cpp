// Decoding from a tile in shared memory.
#include "kernels/ring_piece.h"

namespace heddle::kernels {

using namespace ptx;

U32 RingPiece::low_first() const {
  // Q6_K: halves of 128, four pieces each; Q4_K: chunks of 64, two pieces each
  return six_bits ? (l >> 2u) * 128u + (l & 3u) * 16u : (l >> 1u) * 64u + (l & 1u) * 16u;
}

RingPiece::Activations RingPiece::activations(Global<uint8_t> x, U32 slice, U32 cols) const {
  U32 first = slice * ring_tile_cols + block * 256u + low_first();
  auto run = [&](U32 at) {
    Run r{.q = load_vec<4>((x + at).as<uint32_t>()), .d = {}, .sum = {}};
    auto pair = load_vec<2>((x + (cols + (at >> 4u) * 8u)).as<float>());
    r.d = pair[0], r.sum = pair[1];
    return r;
  };
  return {run(first), run(first + high_distance())};
}

F32 RingPiece::dot(Shared<uint8_t> w, uint32_t r, const Activations& x) const {
  auto product = [&](const Vec<uint32_t, 4>& q, const Run& run) {
    S32 sum = dp4a<int8_t, int8_t>(q[0], run.q[0], 0);
    for (uint32_t i = 1; i < 4; ++i) sum = dp4a<int8_t, int8_t>(q[i], run.q[i], sum);
    return to_f32(sum) * run.d;
  };
  Vec<uint32_t, 4> low, high;
  if (!six_bits) {
    // planes: heads of 16 bytes, nibbles of 128
    auto head = load_vec<4>((w + block * 16u).offset(r * 64).as<uint32_t>());
    auto q = load_vec<4>((w + (block * 128u + l * 16u)).offset(256 + r * 512).as<uint32_t>());
    for (uint32_t i = 0; i < 4; ++i) low[i] = q[i] & 0x0f0f0f0fu, high[i] = q[i] >> 4u & 0x0f0f0f0fu;
    // the 6-bit scales of sub-blocks 2c and 2c + 1, side by side in 16 bits
    U32 shift = (l >> 1u & 1u) << 4u;
    U32 a = head[1] >> shift, b = head[2] >> shift, e = head[3] >> shift;
    Pred lower = l < 4u;
    U32 scales = select(lower, a & 0x3f3fu, (e & 0x0f0fu) | (a >> 2u & 0x3030u));
    U32 mins = select(lower, b & 0x3f3fu, (e >> 4u & 0x0f0fu) | (b >> 2u & 0x3030u));
    auto [d, dmin] = unpack<f16>(head[0]);
    F32 positive = fma(to_f32(scales & 255u), product(low, x.low),
                       to_f32(bit_field(scales, 8u, 8u)) * product(high, x.high));
    F32 negative = fma(to_f32(mins & 255u), x.low.sum, to_f32(bit_field(mins, 8u, 8u)) * x.high.sum);
    return fma(to_f32(d), positive, -(to_f32(dmin) * negative));
  }
  // planes: low four bits (128), high two bits (64), scales (16), d (2)
  auto ql = load_vec<4>((w + (block * 128u + l * 16u)).offset(r * 512).as<uint32_t>());
  auto qh = load_vec<4>((w + (block * 64u + (l >> 2u) * 32u + (l & 1u) * 16u)).offset(2048 + r * 256).as<uint32_t>());
  auto scale = (w + (block * 16u + (l >> 2u) * 8u + (l & 3u))).offset(3072 + r * 64).as<int8_t>();
  S32 scale_low = load(scale), scale_high = load(scale.offset(4));
  F32 d = to_f32(load((w + block * 2u).offset(3328 + r * 8).as<f16>()));
  U32 shift = l & 2u;  // pieces 2 and 3 of a half have the next two bits
  for (uint32_t i = 0; i < 4; ++i) {
    U32 bits = qh[i] >> shift;
    low[i] = (ql[i] & 0x0f0f0f0fu) | (bits << 4u & 0x30303030u);
    high[i] = (ql[i] >> 4u & 0x0f0f0f0fu) | (bits & 0x30303030u);
  }
  // value = d * scale * (q - 32)
  F32 a = fma(x.low.sum, -32.0f, product(low, x.low)), b = fma(x.high.sum, -32.0f, product(high, x.high));
  return d * fma(to_f32(scale_low), a, to_f32(scale_high) * b);
}

}  // namespace heddle::kernels
