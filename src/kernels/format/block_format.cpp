// What all block formats have in common.
#include "kernels/format/block_format.h"

#include "base/error.h"

namespace heddle::kernels {

using namespace ptx;

BlockFormat::BlockFormat(quant::Format format, Traits t)
    : values(quant::block_values(format)),
      bytes(quant::block_bytes(format)),
      has_min(t.has_min),
      apart(t.apart),
      fields(std::move(t.fields)) {}

const BlockFormat& block_format(quant::Format format) {
  for (auto find :
       {block_of_32, super_block, super_block_of_two_bits, block_with_table, block_of_few_bits, block_with_grid})
    if (const BlockFormat* found = find(format)) return *found;
  if (quant::is_float(format)) throw Error("{} has no blocks", quant::name(format));
  throw Error("no kernel reads {}", quant::name(format));
}

std::vector<F32> to_floats(const Run& run, Loc l) {
  Recorder::Pin pin(*run.scale.rec, l);
  std::vector<F32> floats;
  for (U32 q : run.q) {
    U32 bytes = run.has_min ? q : q ^ 0x80808080u;
    for (uint32_t i = 0; i < 4; ++i)
      floats.push_back(byte_above_2_23(bytes, i) - (run.has_min ? 0x1p23f : 0x1p23f + 128));
  }
  return floats;
}

// A byte b in the low half of the f16 1024 is 1024 + b.
std::vector<U32> BlockFormat::halves(const Raw& raw, const Lane& lane, float factor) const {
  std::vector<U32> all;
  for (const Run& run : decode_unsigned(raw, lane)) {
    F16x2 scale = twice_f16(run.scale * factor), less;
    if (run.has_min) less = twice_f16(-run.min * factor);
    for (U32 word : run.q)
      for (uint32_t selector : {0x4240u, 0x4341u}) {
        U32 bytes = run.has_min ? word : word ^ 0x80808080u;
        F16x2 above = bitcast<f16x2>(permute_bytes(bytes, 0x64646464u, selector));
        F16x2 q = above - f16x2{run.has_min ? 0x64006400u : 0x64806480u};
        all.push_back(bitcast<uint32_t>(run.has_min ? fma(q, scale, less) : q * scale));
      }
  }
  return all;
}

}  // namespace heddle::kernels
