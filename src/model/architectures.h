// What each architecture is made of, one line of a table each.
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
  Has parallel = Has::never;  // maybe: use_parallel_residual says it
  bool one_norm = false;      // parallel, and the feed-forward reads what attention reads
  bool experts = false;       // may have them: expert_count says it
  bool shared_expert = false;
  bool weights_sum_to_one = true;
  bool window = false;         // may have one: attention.sliding_window
  uint32_t window_period = 0;  // every layer with this number is without; 0: all have it
  double window_rope_base =
      0;  // layers with a window are rotated by this base (rope.freq_base_swa), unscaled; 0: like all
  uint32_t no_rope_period = 0;     // every layer with this number is not rotated
  bool scaled_embedding = false;   // by the root of the width
  uint32_t wide_scale_layers = 0;  // a model of so many layers scales scores by width / heads, not by the head
  bool scales = false;             // embedding_scale, residual_scale, logit_scale, attention.scale
  bool softcaps = false;
};

const std::vector<Architecture>& all_architectures();
const Architecture& architecture_named(std::string_view name,
                                       std::string_view source);  // an Error names the known ones

}  // namespace heddle::model
