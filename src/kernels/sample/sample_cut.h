// Which tokens of a row may be drawn. Cuts keep the largest logits, of equals those with the lowest ids, and nothing is
// sorted: a limit is found in histograms, digit by digit, until the last token it keeps stands alone.
#pragma once
#include "kernels/sample/sample_share.h"

namespace heddle::kernels {

class Cuts {
 public:
  // `words`: scratch, scratch_words(blocks) of them.
  Cuts(Share& share, ptx::Global<float> row, ptx::F32 largest, ptx::Shared<uint32_t> words);
  static uint32_t scratch_words(uint32_t blocks) { return blocks > 1 ? 6 * bins : 3 * bins; }

  // Both after each other. top_k: 0 or `vocab` and more are off; top_p: 1 and more are off.
  void cut(ptx::U32 top_k, ptx::F32 top_p, ptx::U32 vocab);
  ptx::Pred keeps(ptx::F32 logit, ptx::U32 id) const;

 private:
  static constexpr uint32_t digit_bits = 11, bins = 1u << digit_bits;
  // The first digit is linear in the distance from the largest logit, 64 bins for each e: there the tokens that a cut
  // falls among are in bins of their own, and no bin is hit by many threads at once. What is further away than 32
  // shares the last bin.
  static constexpr float bins_per_unit = 64;

  struct Hit {
    ptx::U32 bin, count;  // of the tokens there
    ptx::U64 amount;      // theirs together
    ptx::U64 rest;        // how far the place is inside
  };
  ptx::U32 bin_of(ptx::F32 logit) const;
  static ptx::U32 key_of(ptx::F32 logit);  // ascending where logits descend

  // Keeps tokens from the beginning until their amounts come to goal(all of them). An amount is 1 or a weight.
  void cut_at(ptx::Pred by_weight, auto&& goal);
  // The bin that place(total) falls in, if the amounts of the tokens with bin(logit, id) below `bins` lie side by side.
  Hit find(ptx::Pred by_weight, auto&& bin, auto&& place);
  void gather(ptx::Pred by_weight);
  ptx::U64 amount_at(ptx::Pred by_weight, ptx::U32 bin) const;
  ptx::U32 id_of_equal(ptx::U32 bin, ptx::U32 key, ptx::U64 which);

  Share& share_;
  ptx::Code& k_;
  ptx::Global<float> row_;
  ptx::F32 largest_;
  // The limit, by bin, then key, then id: what lies behind it is cut.
  ptx::Var<uint32_t> last_bin_, last_key_, last_id_;
  ptx::Shared<uint32_t> counts_, low_, high_;  // (bins) of this block; weights are high * 2^32 + low
  ptx::Shared<uint64_t> all_weights_;          // (bins) of all blocks
  ptx::Shared<uint32_t> all_counts_;
  ptx::Shared<uint64_t> found_;  // (4) a Hit
};

}  // namespace heddle::kernels
