// The architectures: which tensors and options each has, one entry of a table each.
#pragma once
#include <string_view>
#include <vector>

#include "model/backend.h"

namespace heddle::model {

enum class Has : uint8_t { never, maybe, always };  // a tensor that not every architecture or file has

struct Architecture {
  std::string_view name;
  Norm::Kind norm = Norm::Kind::rms;
  Rope::Style rope = Rope::Style::halves;
  Activation activation = Activation::silu;
  bool gated = true;           // gate and up, not up alone
  bool fused_qkv = false;      // attn_qkv instead of attn_q, attn_k, attn_v
  bool fused_gate_up = false;  // ffn_up has the rows of the gate first
  bool learned_positions = false;
  bool own_output = false;  // never tied to the embedding
  Has qkv_bias = Has::never, output_bias = Has::never, ffn_bias = Has::never;
  bool head_norm = false;     // over each head of q and k
  bool wide_norm = false;     // over all of q and all of k
  bool input_norms = true;    // before attention and feed-forward
  bool output_norms = false;  // after them
  Has parallel = Has::never;  // maybe: use_parallel_residual decides
  bool one_norm = false;      // parallel, and the feed-forward has the input norm of the attention
  bool experts = false;       // it may have them: expert_count decides
  bool shared_expert = false;
  bool weights_sum_to_one = true;
  bool window = false;         // it may have one: attention.sliding_window
  uint32_t window_period = 0;  // every layer whose number is a multiple of it has none; 0: all have it
  double window_rope_base =
      0;  // layers with a window are rotated by this base (rope.freq_base_swa), unscaled; 0: as all layers
  uint32_t no_rope_period = 0;     // every layer whose number is a multiple of it is not rotated; 0: all are
  bool scaled_embedding = false;   // by the square root of the width
  uint32_t wide_scale_layers = 0;  // a model with this number of layers scales scores by width / heads, not by head
  bool scales = false;             // embedding_scale, residual_scale, logit_scale, attention.scale
  bool softcaps = false;
};

const std::vector<Architecture>& all_architectures();
const Architecture& architecture_named(std::string_view name,
                                       std::string_view source);  // an Error names the known ones

}  // namespace heddle::model
