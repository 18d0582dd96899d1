// Cases of the layer kernels.
#include "proof/layer/layer_cases.h"

#include "proof/attention/prompt_attention_cases.h"

namespace heddle::proof {

void add_layer_cases(Sweep sweep, std::vector<Case>& cases) {
  add_norm_cases(sweep, cases);
  add_norm_add_cases(sweep, cases);
  add_rope_cases(sweep, cases);
  add_heads_cases(sweep, cases);
  add_any_attention_cases(sweep, cases);
  add_gate_cases(sweep, cases);
  add_mixture_cases(sweep, cases);
  add_softmax_cases(sweep, cases);
  add_kv_scatter_cases(sweep, cases);
  add_quantise_cases(sweep, cases);
  add_residual_cases(sweep, cases);
  add_argmax_cases(sweep, cases);
  add_sample_cases(sweep, cases);
  add_step_cases(sweep, cases);
  add_half_rows_cases(sweep, cases);
}

}  // namespace heddle::proof
