// What classes share that have Llama's layer.
#pragma once
#include <string_view>

#include "formats/hf/rope.h"

namespace heddle::formats::hf {

struct LlamaFamily {
  bool attention_bias = false, mlp_bias = false;
  uint64_t experts = 0;  // 0: a dense layer
  bool gated = true;     // gate and up, not up alone
  std::string_view activation = "silu";
};

Sizes llama_sizes(Config& config, const Sizes& defaults);  // with rms_norm_eps; heads have an even size
LlamaFamily llama_biases(Config& config);                  // attention_bias and mlp_bias
Description llama_family(Config& config, std::string_view architecture, const Sizes& sizes, const LlamaFamily& options,
                         const RopeDefaults& rope);
// Mistral's: all layers or none.
void put_sliding_window(Description& to, Config& config, uint64_t fallback);

}  // namespace heddle::formats::hf
