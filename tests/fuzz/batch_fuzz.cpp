// Any bytes as messages of rank 0, each with its length in the first byte: batches, or with a length of 0 masks of
// tokens. What is decoded says the same after it was encoded again; the rest is refused.
#include <algorithm>
#include <cstdlib>

#include "ranks/batch_code.h"
#include "tests/fuzz/target.h"

FUZZ_TARGET(batch) {
  using namespace heddle;
  ranks::BatchDecoder decoder({.rows = 64, .blocks = 256, .text = 256});
  ranks::BatchEncoder again;
  ranks::BatchDecoder again_decoded({.rows = 64, .blocks = 256, .text = 256});
  std::span<const uint8_t> left(data, size);
  try {
    while (!left.empty()) {
      const size_t length = std::min<size_t>(left[0], left.size() - 1);
      const std::span<const uint8_t> message = left.subspan(1, length);
      left = left.subspan(1 + length);
      if (length == 0) {
        ranks::decode_masks(left, 8, 64);
        break;
      }
      uint32_t taken = 0, found = 0;
      const model::Batch batch = decoder.decode(message, taken);
      const model::Batch same = again_decoded.decode(again.encode(batch, taken), found);
      if (found != taken || same.tokens != batch.tokens || same.positions != batch.positions ||
          same.sequences != batch.sequences || same.blocks != batch.blocks ||
          same.window_blocks != batch.window_blocks || same.slots != batch.slots || same.outputs != batch.outputs ||
          same.states != batch.states || same.types != batch.types || same.after != batch.after ||
          same.picking.size() != batch.picking.size())
        std::abort();
    }
  } catch (const Error&) {  // refused
  }
  return 0;
}
