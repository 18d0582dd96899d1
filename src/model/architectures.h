// The architectures: which tensors and options each has, one entry of a table each.
#pragma once
#include <string_view>
#include <vector>

#include "model/backend.h"

namespace heddle::model {

enum class Has : uint8_t { never, maybe, always };  // a tensor that not every architecture or file has

// What logit_scale does to the logits.
enum class LogitScale : uint8_t { divides, multiplies };

// What has a recurrent state.
enum class States : uint8_t { none, ssd, delta, convolution };

// The sublayers of a layer.
enum class Block : uint8_t {
  usual,   // attention, or what has a state where the layer has such tensors; then a feed-forward or mixture
  one,     // one of these alone
  beside,  // attention beside what has a state, then a feed-forward
  state,   // what has a state, alone
};

struct Architecture {
  std::string_view name;
  Norm::Kind norm = Norm::Kind::rms;
  bool norm_weights = true;     // otherwise they are 1
  Has norm_bias = Has::always;  // of layer norms
  Rope::Style rope = Rope::Style::halves;
  Activation activation = Activation::silu;
  bool gated = true;           // gate and up, not up alone
  bool fused_gate_up = false;  // ffn_up has the rows of the gate first
  bool learned_positions = false;
  bool own_output = false;     // never tied to the embedding
  bool yarn_truncates = true;  // where rope.scaling.yarn_truncate does not say otherwise
  // Attention in both directions, no logits. The tensors of BERT: norms after the sums with the residual stream, where
  // residual_norms.
  bool encoder = false, residual_norms = false;
  bool embedding_norm = false, token_types = false;
  Has qkv_bias = Has::maybe, output_bias = Has::maybe, ffn_bias = Has::maybe;
  Has head_norm = Has::never;    // over each head of q and k
  bool wide_norm = false;        // over all of q and all of k
  bool own_head_norms = false;   // head_norm, with weights for every head
  bool norm_after_rope = false;  // of q and k
  bool input_norms = true;       // before attention and feed-forward
  bool output_norms = false;     // after them
  std::string_view ffn_norm = "ffn_norm", output_norm = "output_norm";
  Has parallel = Has::never;  // maybe: use_parallel_residual decides
  // The feed-forward has the input norm of the attention. maybe: where there is no ffn_norm, and the two are parallel
  // then.
  Has one_norm = Has::never;
  bool latent = false;  // multi-head latent attention
  States states = States::none;
  Block block = Block::usual;
  bool tiled_heads = false;     // Recurrence::tiled
  bool output_gate = false;     // attn_q has the rows of each head, and then those of its gate
  bool next_head = false;       // NextHead, where nextn_predict_layers is 1
  bool rope_switch = false;     // rope.scaling.finetuned says whether it rotates at all
  bool sinks = false;           // attn_sinks
  float alibi = 0;              // the largest slope is 2^(-alibi / heads); attention.max_alibi_bias may say another
  bool experts = false;         // it may have them: expert_count decides, and which layers have a router
  uint32_t shared_experts = 0;  // where expert_shared_count is not given
  Routing routing;              // where the options of the file do not say otherwise; `used` is read
  bool window = false;          // it may have one: attention.sliding_window
  uint32_t default_window = 0;
  bool window_is_chunk = false;  // Attention::chunk
  uint32_t window_period = 0;    // every layer whose number is a multiple of it has none; 0: all have it
  bool first_is_full = false;    // the first of each period has none, not the last
  // Layers with a window are rotated by a base of their own (rope.freq_base_swa), unscaled; 0: as all layers; 1: by the
  // base of all layers, unscaled.
  double window_rope_base = 0;
  bool rope_in_windows = false;  // layers without a window are not rotated, where there is one
  // Every layer with a number, from 1 on, that is a multiple of it is not rotated, unless the file says which; 0: all
  // are.
  uint32_t no_rope_period = 0;
  Temperature temperature;         // where the file does not say otherwise
  bool scaled_embedding = false;   // by the square root of the width
  uint32_t wide_scale_layers = 0;  // a model with this number of layers scales scores by width / heads, not by head
  bool scales = false;             // embedding_scale, residual_scale, logit_scale
  LogitScale logit_scale = LogitScale::divides;
  bool softcaps = false;
  float default_logit_softcap = 0;  // where final_logit_softcapping is not given
  float score_scale = 0;            // where attention.scale is not given; 0: by the size of a head
  bool value_norm = false;          // over each head of v, without weights
  bool window_heads = false;        // layers with a window have heads of their own size: attention.key_length_swa
  bool shared_caches = false;       // attention.shared_kv_layers: the last layers have no keys and values of their own
  bool token_inputs = false;        // it may have them: embedding_length_per_layer_input
  bool dense_with_experts = false;  // the shared expert is the dense feed-forward, and both have norms of their own
  bool altup = false;               // with Laurel and cutoffs, as in Gemma 3n
};

const std::vector<Architecture>& all_architectures();
const Architecture& architecture_named(std::string_view name,
                                       std::string_view source);  // an Error names the known ones

}  // namespace heddle::model
