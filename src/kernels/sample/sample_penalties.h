// Biases and penalties on logits, before the cuts.
#pragma once
#include "kernels/sample/sample.h"
#include "kernels/sample/sample_share.h"

namespace heddle::kernels {

// A SampleRow's part of it, in registers.
struct Penalties {
  ptx::F32 repetition, presence, frequency;
  ptx::U32 repetition_last, length, prompt;
  ptx::U32 biases;                     // how many
  ptx::Global<uint32_t> bias_entries;  // of TokenBias
  ptx::Global<uint32_t> text;          // (capacity), a ring
  ptx::U32 capacity;

  ptx::Pred any() const;
  // changed = logits with biases and penalties, for the block's share. `counts`: scratch, so many words.
  void apply(Share& share, ptx::Global<float> logits, ptx::Global<float> changed, ptx::Shared<uint32_t> counts,
             uint32_t words) const;

 private:
  ptx::U32 seen_from() const;       // the window of the repetition penalty begins there; length: it is off
  ptx::U32 generated_from() const;  // the same of the other two
};

}  // namespace heddle::kernels
