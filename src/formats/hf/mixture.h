// Mixtures of experts as most classes after DeepSeek spell them: which layers have one, how experts are chosen and
// weighed, and the experts that see every token.
#pragma once
#include <string>
#include <string_view>

#include "formats/hf/description.h"

namespace heddle::formats::hf {

struct Mixture {
  uint64_t experts = 0, used = 0, inner = 0;
  uint64_t dense = 0;         // this many layers, from the first on, have none
  uint64_t shared = 0;        // experts that see every token, which lie in the file as one
  uint64_t shared_inner = 0;  // of all of them
  bool sigmoid = false;       // scores are softmax otherwise
  bool normalised = false;    // the weights of the chosen are divided by their sum
  double scale = 1;           // and then multiplied by this
  uint64_t groups = 1, groups_used = 1;
};

// n_routed_experts, num_experts_per_tok, moe_intermediate_size, n_shared_experts, first_k_dense_replace,
// norm_topk_prob, routed_scaling_factor, n_group and topk_group. shared_inner follows.
Mixture read_mixture(Config& config, const Mixture& defaults);
void put_mixture(Description& to, const Mixture& mixture);

// ffn_gate_inp, the experts and, where there are any, those that see every token, from `folder`.{gate, experts,
// shared_experts}; `bias`: exp_probs_b, which only chooses, from that tensor of the folder.
void add_mixture(Layer& layer, const Sizes& sizes, const Mixture& mixture, std::string_view folder,
                 std::string_view bias);
// ffn_gate_shexp, ffn_up_shexp, ffn_down_shexp from `folder`.{gate,up,down}_proj.
void add_shared_expert(Layer& layer, const Sizes& sizes, uint64_t inner, std::string_view folder);

// Layers behind the last that only guess further tokens (num_nextn_predict_layers): files may have them.
void ignore_guessing_layers(Description& to, Config& config, const Sizes& sizes);

}  // namespace heddle::formats::hf
