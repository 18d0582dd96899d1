// The weights of a gemv as a lane sees them: a row is cut into steps of 32 pieces, one for each lane of a warp. Block
// formats and floats look the same from outside.
#pragma once
#include "kernels/format/block_format.h"
#include "kernels/format/floats.h"
#include "kernels/product/gemv.h"

namespace heddle::kernels {

class GemvWeights {
 public:
  explicit GemvWeights(const Gemv& spec)
      : format(spec.weights()),
        blocks(quant::is_float(format) ? nullptr : &block_format(format)),
        load_bytes(spec.load),
        narrow(blocks && spec.load == 4),
        shuffled(spec.scales == Gemv::shuffled) {}

  const quant::Format format;
  const BlockFormat* const blocks;  // null for floats
  const uint32_t load_bytes;
  const bool narrow, shuffled;

  uint32_t values_of_float_load() const { return load_bytes / quant::block_bytes(format); }
  uint32_t values_per_lane() const { return !blocks ? values_of_float_load() : narrow ? 8 : 32; }
  uint32_t step_values() const { return 32 * values_per_lane(); }
  uint32_t lanes_per_block() const { return blocks ? blocks->values / values_per_lane() : 1; }
  uint32_t block_values() const { return blocks ? blocks->values : values_of_float_load(); }
  uint32_t block_bytes() const { return blocks ? blocks->bytes : load_bytes; }
  uint32_t step_bytes() const { return 32 / lanes_per_block() * block_bytes(); }

  // For a lane of the warp: where its block begins, and where in the block its (first) run of values does.
  struct Place {
    ptx::U32 index;  // of the lane
    Lane lane;       // for block formats
    ptx::U32 block;  // of those the warp has in work
    ptx::U32 first;
  };
  Place place(ptx::Code& k) const;

  // What a lane reads of the block at `at`. A stream that is read once leaves L1 to x, unless its blocks are so badly
  // aligned that several accesses meet in a sector.
  Raw load(ptx::Code& k, ptx::Global<uint8_t> at, const Place& place) const;

 private:
  std::vector<ptx::U32> load_head(ptx::Code& k, ptx::Global<uint8_t> at, const Place& place, ptx::Access how) const;
};

}  // namespace heddle::kernels
