// What all block formats have in common.
#include "kernels/format/block_format.h"

#include "base/error.h"

namespace heddle::kernels {

using namespace ptx;

BlockFormat::BlockFormat(quant::Format format, Traits t)
    : values(quant::block_values(format)),
      bytes(quant::block_bytes(format)),
      align(t.align),
      has_min(t.values_per_min > 0),
      values_per_min(t.values_per_min),
      shared_head(t.shared_head),
      apart(t.apart),
      fields(std::move(t.fields)) {}

Lane lane_of(Code& k, U32 index, uint32_t pieces, bool narrow, Loc l) {
  Recorder::Pin pin(k, l);
  U32 piece = narrow ? index >> 2u : index;
  return {.piece = piece & (pieces - 1), .words = narrow ? 1u : 4u, .quarter = narrow ? index & 3u : k.constant(0u)};
}

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

}  // namespace heddle::kernels
