// One Q4_K super-block on the device: the only place where a kernel decodes the format. quant/q4_k.h has the layout.
#pragma once
#include "ptx/builder.h"
#include "quant/q4_k.h"

namespace heddle::kernels {

struct Q4K {
  static constexpr uint32_t values = quant::q4_k_values, bytes = quant::q4_k_bytes;
  ptx::Global<uint8_t> at;  // a multiple of 16: 144 bytes are nine times that, so every block of an aligned row is

  // weight = scale * nibble - min
  struct Scale {
    ptx::F32 scale, min;
  };
  // d, dmin and the packed scales, in registers.
  struct Head {
    ptx::F32 d, dmin;
    ptx::U32 scales, mins, upper;  // bytes 4-7, 8-11 and 12-15 of the block

    Scale scale(ptx::U32 j) const {
      using ptx::U32;
      U32 byte = (j & 3u) << 3u;
      U32 s = scales >> byte, m = mins >> byte, u = upper >> byte;
      ptx::Pred lower = j < 4u;
      // the upper four borrow two bits each from the lower
      U32 scale6 = select(lower, s & 63u, (u & 15u) | (s >> 2u & 48u));
      U32 min6 = select(lower, m & 63u, (u >> 4u & 15u) | (m >> 2u & 48u));
      return {d * to_f32(scale6), dmin * to_f32(min6)};
    }
  };
  // One access of 16 bytes.
  Head head(ptx::Access how = {}) const {
    auto w = ptx::load_vec<4>(at.as<uint32_t>(), how);
    auto [d, dmin] = ptx::unpack<f16>(w[0]);
    return {to_f32(d), to_f32(dmin), w[1], w[2], w[3]};
  }
  // Word i of the nibbles (0 to 31): byte b of it holds value 64 * (i / 8) + 4 * (i % 8) + b in its low nibble and the
  // value 32 further in its high nibble.
  ptx::U32 quants(ptx::U32 i, ptx::Access how = {}) const { return load(at.offset(16).as<uint32_t>() + i, how); }
  // Nibble n (0 to 7, from the lowest) of a word, as a number.
  static ptx::F32 nibble(ptx::U32 word, uint32_t n) { return to_f32(word >> 4 * n & 15u); }
};

}  // namespace heddle::kernels
