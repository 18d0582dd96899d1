// Weights that are floats already: f32, f16, bf16.
#pragma once
#include "base/error.h"
#include "kernels/format/words.h"
#include "quant/format.h"

namespace heddle::kernels {

// 2, 4 or 16 bytes at an address that is a multiple of that, as they are.
inline std::vector<ptx::U32> load_floats(ptx::Global<uint8_t> at, uint32_t bytes, ptx::Access how,
                                         ptx::Loc loc = ptx::Loc::current()) {
  if (bytes == 2) return {load_half(at, how, loc)};
  return load_words(at, bytes / 4, bytes, how, loc);
}

// The values in `bytes` of such words.
inline std::vector<ptx::F32> decode_floats(quant::Format format, const std::vector<ptx::U32>& words, uint32_t bytes) {
  check(quant::is_float(format), "f32, f16 or bf16");
  std::vector<ptx::F32> values;
  for (ptx::U32 w : words) {
    if (format == quant::Format::f32) {
      values.push_back(ptx::bitcast<float>(w));
      continue;
    }
    for (uint32_t half = 0; half < (bytes == 2 ? 1u : 2u); ++half)
      values.push_back(format == quant::Format::f16 ? to_f32(ptx::unpack<f16>(w)[half])
                                                    : ptx::bitcast<float>(half ? w & 0xffff0000u : w << 16u));
  }
  return values;
}

}  // namespace heddle::kernels
