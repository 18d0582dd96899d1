// A logit is an unsigned integer of the same order, so that one instruction finds the warp's largest, and a second one
// the lowest expert that has it: about 100 cycles for each expert picked, where shuffles of 64-bit keys took 300.
#include "kernels/mixture/pick_experts.h"

#include "kernels/spec/reduce.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

// Keys: 0 is an expert that is not there, or was picked; 1 is NaN, which is below -infinity (0x007fffff). -0 counts as
// +0.
U32 key_of_logit(F32 v) { return select(v == v, ordered_bits(v + 0.0f), 1u); }

}  // namespace

PickedExperts pick_experts(Code& k, const std::vector<F32>& logits, U32 experts, U32 used, bool sum_to_one) {
  std::vector<U32> ids;
  std::vector<Var<uint32_t>> keys;
  for (uint32_t i = 0; i < logits.size(); ++i) {
    ids.push_back(k.lane() + i * 32u);
    keys.push_back(k.var(select(ids[i] < experts, key_of_logit(logits[i]), 0u)));
  }
  auto largest = [&] {
    std::vector<U32> level;
    for (auto& key : keys) level.push_back(key.get());
    for (; level.size() > 1; level.resize((level.size() + 1) / 2))
      for (size_t i = 0; i < level.size() / 2; ++i) level[i] = max(level[i], level[level.size() - 1 - i]);
    return warp_reduce(Atomic::max, level[0]);
  };
  const F32 top = float_of_ordered(largest());
  auto share = [&](U32 key) { return select(key != 0u, exp(float_of_ordered(key) - top), 0.0f); };
  auto total = k.var(0.0f);
  if (!sum_to_one) {
    for (auto& key : keys) total += share(key.get());
    total = warp_sum(total.get());
  }

  auto picked_key = k.var(0u), picked_id = k.var(0u);
  k.loop(0u, used, 1u, [&](U32 j) {
    const U32 key = largest();
    U32 lowest = k.constant(~0u);
    for (size_t i = 0; i < keys.size(); ++i) lowest = min(lowest, select(keys[i].get() == key, ids[i], ~0u));
    const U32 id = warp_reduce(Atomic::min, lowest);
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = select(ids[i] != id, keys[i].get(), 0u);
    const Pred mine = k.lane() == j;
    picked_key = select(mine, key, picked_key.get());
    picked_id = select(mine, id, picked_id.get());
  });
  const F32 mine = share(picked_key.get());
  if (sum_to_one) total = warp_sum(mine);
  return {picked_id.get(), mine / total.get()};
}

}  // namespace heddle::kernels
