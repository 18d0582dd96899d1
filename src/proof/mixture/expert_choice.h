// How a row's experts are picked and weighed, in f64: what route and router are held to.
#pragma once
#include <vector>

#include "kernels/mixture/pick_experts.h"
#include "proof/case.h"

namespace heddle::proof {

struct RoutedRow {
  kernels::ExpertChoice choice;
  uint32_t used;
  uint32_t groups = 1, groups_used = 1;
  double scale = 1, near = 0;
  std::vector<double> logits, errors;  // errors: how far the kernel's logits may be off
  std::vector<float> bias;             // of the choice
  std::vector<float> scales = {};      // of the weight of each expert, with each_scaled
};

// Holds what a kernel has picked to the reference, but for rows in which a choice is too close to call: of these only
// that the experts are different ones.
void check_routed(const RoutedRow& row, const std::vector<uint32_t>& ids, const std::vector<float>& weights,
                  Check& check);

// The choices other than the shares of the largest logits, by fields of route or router.
template <class Spec>
std::vector<Spec> routing_choices(const Spec& plain) {
  using namespace kernels;
  std::vector<Spec> all;
  auto add = [&](uint32_t score, uint32_t bias, uint32_t groups, uint32_t sum_to_one, uint32_t scaled,
                 uint32_t each_scaled) {
    Spec spec = plain;
    spec.score = score;
    spec.choice_bias = bias;
    spec.groups = groups;
    spec.sum_to_one = sum_to_one;
    spec.scaled = scaled;
    spec.each_scaled = each_scaled;
    all.push_back(spec);
  };
  for (uint32_t score : {score_softmax, score_sigmoid})
    for (uint32_t bias : {0u, 1u})
      for (uint32_t groups : {no_groups, groups_by_best, groups_by_two})
        add(score, bias, groups, (bias + groups) % 2, bias == score, groups == no_groups);
  add(score_sparsemixer, 0, no_groups, 0, 0, 0);
  return all;
}

}  // namespace heddle::proof
