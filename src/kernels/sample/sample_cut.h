// Top-k and top-p: which tokens of a row may be drawn. A cut keeps the largest logits, and among equal ones those with
// the lowest ids. Nothing is sorted: the limit is found in histograms, digit by digit, until the last token that is
// kept has a bin of its own.
#pragma once
#include "kernels/sample/sample_share.h"

namespace heddle::kernels {

class Cuts {
 public:
  // `words`: scratch, scratch_words(blocks) of them.
  Cuts(Share& share, ptx::Global<float> row, ptx::F32 largest, ptx::Shared<uint32_t> words);
  static uint32_t scratch_words(uint32_t blocks) { return blocks > 1 ? 6 * bins : 3 * bins; }

  // top_k, then top_p. top_k is off at 0 and from `vocab` on, top_p from 1 on.
  void cut(ptx::U32 top_k, ptx::F32 top_p, ptx::U32 vocab);
  ptx::Pred keeps(ptx::F32 logit, ptx::U32 id) const;

 private:
  static constexpr uint32_t digit_bits = 11, bins = 1u << digit_bits;
  // The first digit is linear in the distance from the largest logit, with 64 bins per unit, so that the tokens near a
  // cut are in bins of their own and few threads hit the same bin at once. Logits more than 32 below the largest share
  // the last bin.
  static constexpr float bins_per_unit = 64;

  struct Hit {
    ptx::U32 bin, count;  // count: tokens in the bin
    ptx::U64 amount;      // of all tokens in the bin
    ptx::U64 rest;        // from the start of the bin to the place
  };
  ptx::U32 bin_of(ptx::F32 logit) const;
  static ptx::U32 key_of(ptx::F32 logit);  // ascending where logits descend

  // Keeps tokens from the largest logit on until their amounts reach goal(total). An amount is 1 or a weight.
  void cut_at(ptx::Pred by_weight, auto&& goal);
  // The bin at place(total), with the amounts of the tokens that have bin(logit, id) < bins laid end to end.
  Hit find(ptx::Pred by_weight, auto&& bin, auto&& place);
  void gather(ptx::Pred by_weight);
  ptx::U64 amount_at(ptx::Pred by_weight, ptx::U32 bin) const;
  ptx::U32 id_of_equal(ptx::U32 bin, ptx::U32 key, ptx::U64 which);

  Share& share_;
  ptx::Code& k_;
  ptx::Global<float> row_;
  ptx::F32 largest_;
  // The last token that is kept, by bin, then key, then id.
  ptx::Var<uint32_t> last_bin_, last_key_, last_id_;
  ptx::Shared<uint32_t> counts_, low_, high_;  // (bins) of this block; weights are high * 2^32 + low
  ptx::Shared<uint64_t> all_weights_;          // (bins) of all blocks
  ptx::Shared<uint32_t> all_counts_;
  ptx::Shared<uint64_t> found_;  // (4) a Hit
};

}  // namespace heddle::kernels
