// The parts of add_layer_cases, each in its own file, and what they share.
#pragma once
#include "proof/case.h"

namespace heddle::proof {

void add_norm_cases(Sweep sweep, std::vector<Case>& cases);
void add_norm_add_cases(Sweep sweep, std::vector<Case>& cases);
void add_rope_cases(Sweep sweep, std::vector<Case>& cases);
void add_heads_cases(Sweep sweep, std::vector<Case>& cases);
void add_any_attention_cases(Sweep sweep, std::vector<Case>& cases);
void add_gate_cases(Sweep sweep, std::vector<Case>& cases);
void add_mixture_cases(Sweep sweep, std::vector<Case>& cases);  // route, mix
void add_softmax_cases(Sweep sweep, std::vector<Case>& cases);
void add_kv_scatter_cases(Sweep sweep, std::vector<Case>& cases);
void add_quantise_cases(Sweep sweep, std::vector<Case>& cases);
void add_residual_cases(Sweep sweep, std::vector<Case>& cases);
void add_argmax_cases(Sweep sweep, std::vector<Case>& cases);
void add_sample_cases(Sweep sweep, std::vector<Case>& cases);
void add_step_cases(Sweep sweep, std::vector<Case>& cases);  // softcap_rows, step_advance

// Where a spec runs: chained launches are younger.
template <class Spec>
std::string target_of(const Spec& spec) {
  return spec.chained ? "sm_90" : std::string(Spec::lowest_target);
}

}  // namespace heddle::proof
