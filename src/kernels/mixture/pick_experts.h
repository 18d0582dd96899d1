// Which experts a row goes to, from its logits in a warp: what route and router share.
#pragma once
#include <vector>

#include "base/error.h"
#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// How experts are picked and weighed: fields of route and router.
struct ExpertChoice {
  uint32_t score;        // see Scores
  uint32_t bias;         // of the choice: added to the scores to pick, not to weigh, them
  uint32_t groups;       // see Groups
  uint32_t sum_to_one;   // the weights of those picked are divided by their sum
  uint32_t scaled;       // the weights are multiplied with a number
  uint32_t each_scaled;  // and with one of each expert
};
enum Scores : uint32_t {
  score_softmax,  // over all experts; with sum_to_one over those picked
  score_sigmoid,
  // The largest, by a softmax over those near it, then the second largest likewise without the first. Near:
  // (largest - logit) / max(|logit|, largest) is not above a number.
  score_sparsemixer,
};
enum Groups : uint32_t {
  no_groups,
  groups_by_best,  // experts are picked from the best groups alone, and a group is as good as its best expert,
  groups_by_two,   // or as the sum of its best two
};
inline Allowed score_kinds() { return named({"softmax", "sigmoid", "sparsemixer"}); }
inline Allowed group_kinds() { return named({"no", "by_best", "by_two"}); }

// The `used` largest scores, largest first, equal ones by the lower expert, and their weights. NaN comes last. By one
// warp; expert lane + 32 i has logits[i], which counts if it is below `experts`. Needs sm_80.
struct PickedExperts {
  ptx::U32 id;  // lane j has the j-th
  ptx::F32 weight;
};
struct ExpertLogits {
  std::vector<ptx::F32> logits, bias;  // bias: of the choice, if it has one
  ptx::U32 experts, used;
  ptx::U32 groups, groups_used;  // up to 32, of experts / groups each
  ptx::F32 scale, near;
  ptx::Global<float> scales;  // of each expert
};
PickedExperts pick_experts(ptx::Code& k, const ExpertChoice& choice, const ExpertLogits& of);

// What route and router have as fields and arguments.
template <class Spec>
ExpertChoice choice_of(const Spec& s) {
  return {s.score, s.choice_bias, s.groups, s.sum_to_one, s.scaled, s.each_scaled};
}
template <class Spec>
void set_choice(ptx::Builder<typename Spec::Args>& k, const Spec& s, ExpertLogits& of) {
  using Args = typename Spec::Args;
  for (uint32_t i = 0; s.choice_bias && i < s.largest / 32; ++i) {
    auto bias = k.var(0.0f);
    const ptx::U32 expert = k.lane() + i * 32u;
    k.when(expert < of.experts, [&] { bias = load(k.arg(&Args::choice_bias) + expert, {.nc = true}); });
    of.bias.push_back(bias.get());
  }
  if (s.groups) {
    of.groups = k.arg(&Args::groups);
    of.groups_used = k.arg(&Args::groups_used);
  }
  if (s.scaled) of.scale = k.arg(&Args::scale);
  if (s.each_scaled) of.scales = k.arg(&Args::scales);
  if (s.score == score_sparsemixer) of.near = k.arg(&Args::near);
}

// Throws an Error if the arguments of a launch do not suit the choice.
template <class Spec>
void check_choice(const Spec& s, const typename Spec::Args& args) {
  if (!s.groups) return;
  const uint32_t least = s.groups == groups_by_two ? 2 : 1;
  if (args.groups == 0 || args.groups > 32 || args.experts % args.groups || args.experts / args.groups < least ||
      args.groups_used == 0 || args.groups_used > args.groups)
    throw Error("{}: {} of {} groups of {} experts; 1 to 32 equal groups of {} or more expected", s.name,
                args.groups_used, args.groups, args.experts, least);
  if (args.used > args.groups_used * (args.experts / args.groups))
    throw Error("{}: {} experts are used, but the groups have {}", s.name, args.used,
                args.groups_used * (args.experts / args.groups));
}

}  // namespace heddle::kernels
