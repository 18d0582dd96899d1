// The names are those of general.architecture.
#include "model/architectures.h"

#include <fmt/ranges.h>

#include "base/error.h"

namespace heddle::model {

const std::vector<Architecture>& all_architectures() {
  using enum Has;
  using Style = Rope::Style;
  constexpr Norm::Kind layer = Norm::Kind::layer;
  static const std::vector<Architecture> table{
      // Llama 1 to 3, TinyLlama, Mistral, Mixtral
      {.name = "llama",
       .rope = Style::pairs,
       .qkv_bias = maybe,
       .output_bias = maybe,
       .ffn_bias = maybe,
       .experts = true,
       .window = true},
      {.name = "granite",
       .rope = Style::pairs,
       .qkv_bias = maybe,
       .output_bias = maybe,
       .ffn_bias = maybe,
       .scales = true},
      {.name = "smollm3", .rope = Style::pairs, .no_rope_period = 4},
      {.name = "gpt2",
       .norm = layer,
       .rope = Style::none,
       .activation = Activation::gelu_tanh,
       .gated = false,
       .fused_qkv = true,
       .learned_positions = true,
       .qkv_bias = always,
       .output_bias = always,
       .ffn_bias = always},
      {.name = "gptneox",
       .norm = layer,
       .activation = Activation::gelu,
       .gated = false,
       .fused_qkv = true,
       .own_output = true,
       .qkv_bias = always,
       .output_bias = always,
       .ffn_bias = always,
       .parallel = maybe},
      {.name = "qwen2", .qkv_bias = always},
      {.name = "qwen3", .head_norm = true},
      {.name = "qwen2moe", .qkv_bias = always, .experts = true, .shared_expert = true, .weights_sum_to_one = false},
      {.name = "qwen3moe", .head_norm = true, .experts = true},
      {.name = "phi2",
       .norm = layer,
       .activation = Activation::gelu_tanh,
       .gated = false,
       .own_output = true,
       .qkv_bias = always,
       .output_bias = always,
       .ffn_bias = always,
       .parallel = always,
       .one_norm = true},
      {.name = "phi3", .fused_qkv = true, .fused_gate_up = true, .window = true},
      {.name = "gemma2",
       .activation = Activation::gelu_tanh,
       .output_norms = true,
       .window = true,
       .window_period = 2,
       .scaled_embedding = true,
       .wide_scale_layers = 46,
       .softcaps = true},
      {.name = "gemma3",
       .activation = Activation::gelu_tanh,
       .head_norm = true,
       .output_norms = true,
       .window = true,
       .window_period = 6,
       .window_rope_base = 10000,
       .scaled_embedding = true,
       .wide_scale_layers = 62,
       .softcaps = true},
      {.name = "olmo2", .wide_norm = true, .input_norms = false, .output_norms = true},
  };
  return table;
}

const Architecture& architecture_named(std::string_view name, std::string_view source) {
  std::vector<std::string_view> known;
  for (const Architecture& one : all_architectures()) {
    if (one.name == name) return one;
    known.push_back(one.name);
  }
  throw Error("{}: heddle does not run the architecture \"{}\"; it runs {}", source, name, fmt::join(known, ", "));
}

}  // namespace heddle::model
