// A logit is an unsigned integer of the same order, so that one instruction finds the warp's largest, and a second one
// the lowest expert that has it: about 100 cycles for each expert picked, where shuffles of 64-bit keys took 300.
#include "kernels/mixture/pick_experts.h"

#include "kernels/spec/functions.h"
#include "kernels/spec/reduce.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

// Keys: 0 is an expert that is not there, or was picked; 1 is NaN, which is below -infinity (0x007fffff). -0 counts as
// +0.
U32 key_of(F32 v) { return select(v == v, ordered_bits(v + 0.0f), 1u); }

// The warp's experts: expert lane + 32 i has keys[i].
class Candidates {
 public:
  Candidates(Code& k, const std::vector<F32>& values, U32 experts) : k_(k) {
    for (uint32_t i = 0; i < values.size(); ++i) {
      ids_.push_back(k.lane() + i * 32u);
      keys_.push_back(k.var(select(ids_[i] < experts, key_of(values[i]), 0u)));
    }
  }

  size_t size() const { return keys_.size(); }
  U32 id(size_t i) const { return ids_[i]; }
  U32 key(size_t i) const { return keys_[i].get(); }
  void set_key(size_t i, U32 key) { keys_[i] = key; }

  // The largest of keys, each changed by of(i, key) if given.
  U32 largest() {
    return largest([](size_t, U32 key) { return key; });
  }
  U32 largest(auto&& of) {
    std::vector<U32> level;
    for (size_t i = 0; i < size(); ++i) level.push_back(of(i, key(i)));
    for (; level.size() > 1; level.resize((level.size() + 1) / 2))
      for (size_t i = 0; i < level.size() / 2; ++i) level[i] = max(level[i], level[level.size() - 1 - i]);
    return warp_reduce(Atomic::max, level[0]);
  }
  // The lowest expert that has it.
  U32 lowest_with(U32 key_value) {
    U32 lowest = k_.constant(~0u);
    for (size_t i = 0; i < size(); ++i) lowest = min(lowest, select(key(i) == key_value, ids_[i], ~0u));
    return warp_reduce(Atomic::min, lowest);
  }
  void remove(U32 expert) {
    for (size_t i = 0; i < size(); ++i) set_key(i, select(ids_[i] != expert, key(i), 0u));
  }
  // The expert's value of a list like that of the keys: of the lane that has it, for all.
  F32 value_of(U32 expert, const std::vector<F32>& values) {
    F32 mine = values[0];
    for (size_t i = 1; i < size(); ++i) mine = select((expert >> 5u) == uint32_t(i), values[i], mine);
    return shuffle(mine, expert & 31u);
  }

 private:
  Code& k_;
  std::vector<U32> ids_;
  std::vector<Var<uint32_t>> keys_;
};

// Experts of other groups than the best come after all others.
void keep_best_groups(Code& k, Candidates& all, const ExpertChoice& choice, const ExpertLogits& of) {
  const U32 size = of.experts / of.groups;
  std::vector<U32> groups;
  for (size_t i = 0; i < all.size(); ++i) groups.push_back(all.id(i) / size);
  auto mine = k.var(0u);  // lane g: the key of group g
  k.loop(0u, of.groups, 1u, [&](U32 group) {
    U32 score = all.largest([&](size_t i, U32 key) { return select(groups[i] == group, key, 0u); });
    if (choice.groups == groups_by_two) {
      U32 lowest = k.constant(~0u);
      for (size_t i = 0; i < all.size(); ++i)
        lowest = min(lowest, select(groups[i] == group && all.key(i) == score, all.id(i), ~0u));
      const U32 best = warp_reduce(Atomic::min, lowest);
      const U32 second =
          all.largest([&](size_t i, U32 key) { return select(groups[i] == group && all.id(i) != best, key, 0u); });
      score = key_of(float_of_ordered(score) + float_of_ordered(second));
    }
    mine = select(k.lane() == group, score, mine.get());
  });
  auto kept = k.var(0u);  // bit g: group g
  k.loop(0u, of.groups_used, 1u, [&](U32) {
    const U32 best = warp_reduce(Atomic::max, mine.get());
    const U32 group = warp_reduce(Atomic::min, select(mine.get() == best, k.lane(), 31u));
    kept = kept.get() | k.constant(1u) << group;
    mine = select(k.lane() == group, k.constant(0u), mine.get());
  });
  for (size_t i = 0; i < all.size(); ++i) all.set_key(i, select((kept.get() >> groups[i] & 1u) != 0u, all.key(i), 0u));
}

// See score_sparsemixer.
PickedExperts pick_near(Code& k, const ExpertLogits& of) {
  Candidates all(k, of.logits, of.experts);
  auto id = k.var(0u);
  auto weight = k.var(0.0f);
  k.loop(0u, of.used, 1u, [&](U32 j) {
    const U32 key = all.largest(), expert = all.lowest_with(key);
    const F32 best = float_of_ordered(key);
    auto sum = k.var(0.0f);
    for (size_t i = 0; i < all.size(); ++i) {
      const F32 logit = of.logits[i];
      const Pred far = (best - logit) / max(abs(logit), best) > of.near;
      sum += select(all.key(i) != 0u && !far, exp(logit - best), 0.0f);
    }
    const F32 share = rcp(warp_sum(sum.get()));
    all.remove(expert);
    id = select(k.lane() == j, expert, id.get());
    weight = select(k.lane() == j, share, weight.get());
  });
  return {id.get(), weight.get()};
}

// The softmax or sigmoid of each logit; NaN stays NaN.
std::vector<F32> scores_of(Code& k, const ExpertChoice& choice, const ExpertLogits& of) {
  std::vector<F32> scores;
  if (choice.score == score_sigmoid) {
    for (F32 logit : of.logits) scores.push_back(select(logit == logit, sigmoid(logit), logit));
    return scores;
  }
  const F32 top = float_of_ordered(Candidates(k, of.logits, of.experts).largest());
  auto total = k.var(0.0f);
  for (uint32_t i = 0; i < of.logits.size(); ++i) {
    const F32 logit = of.logits[i], share = select(logit == logit, exp(logit - top), logit);
    scores.push_back(select(k.lane() + i * 32u < of.experts, share, 0.0f));
    total += scores[i];
  }
  total = warp_sum(total.get());
  for (F32& score : scores) score = score / total.get();
  return scores;
}

// By their scores, with a bias or by groups of two.
PickedExperts pick_by_score(Code& k, const ExpertChoice& choice, const ExpertLogits& of) {
  const std::vector<F32> scores = scores_of(k, choice, of);
  std::vector<F32> values = scores;
  for (size_t i = 0; choice.bias && i < values.size(); ++i) values[i] = values[i] + of.bias[i];
  Candidates all(k, values, of.experts);
  if (choice.groups) keep_best_groups(k, all, choice, of);
  auto id = k.var(0u);
  auto weight = k.var(0.0f);
  k.loop(0u, of.used, 1u, [&](U32 j) {
    const U32 expert = all.lowest_with(all.largest());
    weight = select(k.lane() == j, all.value_of(expert, scores), weight.get());
    id = select(k.lane() == j, expert, id.get());
    all.remove(expert);
  });
  return {id.get(), choice.sum_to_one ? weight.get() / warp_sum(weight.get()) : weight.get()};
}

// By their logits, which have the same order as scores, and differ where a sigmoid has become 1.
PickedExperts pick_by_logit(Code& k, const ExpertChoice& choice, const ExpertLogits& of) {
  const bool sigmoids = choice.score == score_sigmoid;
  Candidates all(k, of.logits, of.experts);
  F32 top;
  if (!sigmoids) top = float_of_ordered(all.largest());
  auto share = [&](U32 key) {
    if (sigmoids) return select(key != 0u, sigmoid(float_of_ordered(key)), 0.0f);
    return select(key != 0u, exp(float_of_ordered(key) - top), 0.0f);
  };
  auto total = k.var(0.0f);
  if (!choice.sum_to_one && !sigmoids) {
    for (size_t i = 0; i < all.size(); ++i) total += share(all.key(i));
    total = warp_sum(total.get());
  }
  if (choice.groups) keep_best_groups(k, all, choice, of);
  auto picked_key = k.var(0u), picked_id = k.var(0u);
  k.loop(0u, of.used, 1u, [&](U32 j) {
    const U32 key = all.largest(), id = all.lowest_with(key);
    all.remove(id);
    const Pred mine = k.lane() == j;
    picked_key = select(mine, key, picked_key.get());
    picked_id = select(mine, id, picked_id.get());
  });
  const F32 mine = share(picked_key.get());
  if (choice.sum_to_one) total = warp_sum(mine);
  return {picked_id.get(), choice.sum_to_one || !sigmoids ? mine / total.get() : mine};
}

}  // namespace

PickedExperts pick_experts(Code& k, const ExpertChoice& choice, const ExpertLogits& of) {
  if (choice.score == score_sparsemixer) return pick_near(k, of);
  PickedExperts picked =
      choice.bias || choice.groups == groups_by_two ? pick_by_score(k, choice, of) : pick_by_logit(k, choice, of);
  if (choice.scaled) picked.weight = picked.weight * of.scale;
  // lanes without an expert have id 0
  if (choice.each_scaled) picked.weight = picked.weight * load(of.scales + picked.id, {.nc = true});
  return picked;
}

}  // namespace heddle::kernels
