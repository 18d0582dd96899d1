// The names are those of general.architecture.
#include "model/architectures.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "formats/unsupported.h"

namespace heddle::model {

const std::vector<Architecture>& all_architectures() {
  using enum Has;
  using Style = Rope::Style;
  constexpr Norm::Kind layer = Norm::Kind::layer;
  using Score = Routing::Score;
  constexpr LogitScale multiplies = LogitScale::multiplies;
  const auto add = [](Architecture to, auto change) {
    change(to);
    return to;
  };
  const auto with_name = [](Architecture to, std::string_view name) {
    to.name = name;
    return to;
  };
  const Architecture llama{.name = "llama",  // Llama 1 to 3, TinyLlama, Mistral, Mixtral
                           .rope = Style::pairs,
                           .experts = true,
                           .routing = {.weights_sum_to_one = true},
                           .window = true};
  const Architecture granite{.name = "granite",
                             .rope = Style::pairs,
                             .experts = true,
                             .routing = {.weights_sum_to_one = true},
                             .scales = true};
  const Architecture ernie{
      .name = "ernie4_5", .rope = Style::pairs, .experts = true, .routing = {.weights_sum_to_one = true}};
  const Architecture hunyuan{.name = "hunyuan-dense",
                             .head_norm = maybe,
                             .norm_after_rope = true,
                             .experts = true,
                             .routing = {.weights_sum_to_one = true}};
  const Architecture command_r{.name = "command-r",
                               .norm = layer,
                               .norm_bias = never,
                               .rope = Style::pairs,
                               .head_norm = maybe,
                               .own_head_norms = true,
                               .parallel = always,
                               .one_norm = always,
                               .scales = true,
                               .logit_scale = multiplies};
  const Architecture qwen2{.name = "qwen2", .qkv_bias = always, .window = true};
  const Architecture qwen3{.name = "qwen3", .head_norm = always, .window = true};
  const Architecture qwen3moe = add(qwen3, [](Architecture& to) {
    to.name = "qwen3moe";
    to.experts = true;
    to.routing.weights_sum_to_one = true;
  });
  const Architecture gemma3{.name = "gemma3",
                            .activation = Activation::gelu_tanh,
                            .head_norm = always,
                            .output_norms = true,
                            .window = true,
                            .window_period = 6,
                            .window_rope_base = 10000,
                            .scaled_embedding = true,
                            .wide_scale_layers = 62,
                            .softcaps = true};
  const Architecture granitehybrid = add(granite, [](Architecture& to) {
    to.name = "granitehybrid";
    to.states = States::ssd;
    to.rope_switch = true;
  });
  const Architecture nemotron_h{.name = "nemotron_h",
                                .rope = Style::none,
                                .activation = Activation::relu_squared,
                                .gated = false,
                                .ffn_norm = "attn_norm",
                                .states = States::ssd,
                                .block = Block::one,
                                .experts = true,
                                .routing = {.score = Score::sigmoid}};
  const Architecture qwen3next{.name = "qwen3next",
                               .head_norm = always,
                               .ffn_norm = "post_attention_norm",
                               .states = States::delta,
                               .output_gate = true,
                               .next_head = true,
                               .experts = true,
                               .routing = {.weights_sum_to_one = true}};
  const Architecture qwen35 = add(qwen3next, [](Architecture& to) {
    to.name = "qwen35";
    to.tiled_heads = true;
  });
  const Architecture lfm2{.name = "lfm2",
                          .head_norm = always,
                          .output_norm = "token_embd_norm",
                          .states = States::convolution,
                          .experts = true,
                          .routing = {.score = Score::sigmoid, .weights_sum_to_one = true},
                          .window = true};
  const Architecture gemma4{.name = "gemma4",
                            .activation = Activation::gelu_tanh,
                            .head_norm = always,
                            .output_norms = true,
                            .experts = true,
                            .routing = {.weights_sum_to_one = true},
                            .window = true,
                            .window_period = 6,
                            .window_rope_base = 10000,
                            .scaled_embedding = true,
                            .softcaps = true,
                            .default_logit_softcap = 30,
                            .score_scale = 1,
                            .value_norm = true,
                            .window_heads = true,
                            .shared_caches = true,
                            .token_inputs = true,
                            .dense_with_experts = true};
  const Architecture bert{.name = "bert",
                          .norm = layer,
                          .rope = Style::none,
                          .activation = Activation::gelu,
                          .gated = false,
                          .learned_positions = true,
                          .encoder = true,
                          .residual_norms = true,
                          .embedding_norm = true,
                          .token_types = true,
                          .input_norms = false};
  static const std::vector<Architecture> table{
      llama,
      granite,
      with_name(granite, "granitemoe"),
      with_name(granite, "minicpm"),
      {.name = "smollm3", .rope = Style::pairs, .no_rope_period = 4},
      {.name = "gpt2",
       .norm = layer,
       .rope = Style::none,
       .activation = Activation::gelu_tanh,
       .gated = false,
       .learned_positions = true,
       .qkv_bias = always,
       .output_bias = always,
       .ffn_bias = always},
      {.name = "gptneox",
       .norm = layer,
       .activation = Activation::gelu,
       .gated = false,
       .own_output = true,
       .ffn_bias = always,
       .parallel = maybe},
      qwen2,
      with_name(qwen2, "qwen2vl"),
      qwen3,
      with_name(qwen3, "qwen3vl"),
      {.name = "qwen2moe", .experts = true, .window = true},
      qwen3moe,
      with_name(qwen3moe, "qwen3vlmoe"),
      {.name = "phi2",
       .norm = layer,
       .activation = Activation::gelu_tanh,
       .gated = false,
       .own_output = true,
       .qkv_bias = always,
       .output_bias = always,
       .ffn_bias = always,
       .parallel = always,
       .one_norm = always},
      {.name = "phi3", .fused_gate_up = true, .window = true},
      {.name = "phimoe",
       .norm = layer,
       .own_output = true,
       .experts = true,
       .routing = {.score = Score::sparsemixer, .near = 0.02f},
       .window = true},
      {.name = "gemma", .activation = Activation::gelu_tanh, .scaled_embedding = true},
      {.name = "gemma2",
       .activation = Activation::gelu_tanh,
       .output_norms = true,
       .window = true,
       .window_period = 2,
       .scaled_embedding = true,
       .wide_scale_layers = 46,
       .softcaps = true},
      gemma3,
      add(gemma3,
          [](Architecture& to) {
            to.name = "gemma-embedding";
            to.encoder = true;
          }),
      gemma4,
      add(gemma4,
          [](Architecture& to) {
            to.name = "gemma3n";
            to.experts = to.dense_with_experts = to.window_heads = false;
            to.window_period = 5;
            to.altup = true;
          }),
      {.name = "olmo", .norm = layer, .norm_weights = false, .norm_bias = never, .rope = Style::pairs},
      // also OLMo 3, which has windows
      {.name = "olmo2",
       .wide_norm = true,
       .input_norms = false,
       .output_norms = true,
       .window = true,
       .window_period = 4,
       .window_rope_base = 1},
      {.name = "olmoe", .wide_norm = true, .experts = true},
      {.name = "gpt-oss",
       .activation = Activation::clamped_swiglu,
       .own_output = true,
       .yarn_truncates = false,
       .ffn_norm = "post_attention_norm",
       .sinks = true,
       .experts = true,
       .routing = {.weights_sum_to_one = true},
       .window = true,
       .window_period = 2},
      // DeepSeek V2, V3 and R1, Kimi K2, GLM-4.7-Flash
      {.name = "deepseek2", .rope = Style::pairs, .latent = true, .experts = true},
      {.name = "chatglm", .rope = Style::pairs, .fused_gate_up = true},
      {.name = "glm4", .rope = Style::pairs, .fused_gate_up = true, .output_norms = true},
      {.name = "glm4moe",
       .head_norm = maybe,
       .ffn_norm = "post_attention_norm",
       .experts = true,
       .routing = {.score = Score::sigmoid}},
      {.name = "minimax-m2",
       .own_output = true,
       .wide_norm = true,
       .experts = true,
       .routing = {.score = Score::sigmoid, .weights_sum_to_one = true}},
      {.name = "dots1", .head_norm = always, .experts = true, .routing = {.score = Score::sigmoid}},
      {.name = "bailingmoe2", .head_norm = always, .experts = true, .routing = {.score = Score::sigmoid}},
      ernie,
      with_name(ernie, "ernie4_5-moe"),
      hunyuan,
      with_name(hunyuan, "hunyuan-moe"),
      {.name = "llama4",
       .rope = Style::pairs,
       .norm_after_rope = true,
       .experts = true,
       .shared_experts = 1,
       .routing = {.score = Score::sigmoid, .weigh_input = true},
       .window = true,
       .default_window = 8192,
       .window_is_chunk = true,
       .window_period = 4,
       .rope_in_windows = true,
       .temperature = {.scale = 0.1f, .length = 8192, .offset = 1}},
      with_name(llama, "mistral3"),
      command_r,
      add(command_r,
          [](Architecture& to) {
            to.name = "cohere2";
            to.window = true;
            to.window_period = 4;
            to.rope_in_windows = true;
          }),
      {.name = "starcoder2", .norm = layer, .activation = Activation::gelu_tanh, .gated = false, .window = true},
      {.name = "stablelm",
       .norm = layer,
       .own_output = true,
       .head_norm = maybe,
       .own_head_norms = true,
       .one_norm = maybe},
      {.name = "falcon",
       .norm = layer,
       .activation = Activation::gelu,
       .gated = false,
       .parallel = always,
       .one_norm = always},
      {.name = "exaone4",
       .head_norm = always,
       .input_norms = false,
       .output_norms = true,
       .window = true,
       .window_period = 4,
       .rope_in_windows = true},
      {.name = "seed_oss", .ffn_norm = "post_attention_norm"},
      {.name = "apertus", .activation = Activation::xielu, .gated = false, .head_norm = always},
      {.name = "arcee", .rope = Style::pairs, .activation = Activation::relu_squared, .gated = false},
      {.name = "nemotron", .norm = layer, .activation = Activation::relu_squared, .gated = false, .own_output = true},
      {.name = "internlm2", .rope = Style::pairs, .own_output = true},
      {.name = "bloom",
       .norm = layer,
       .rope = Style::none,
       .activation = Activation::gelu_tanh,
       .gated = false,
       .embedding_norm = true,
       .qkv_bias = always,
       .output_bias = always,
       .ffn_bias = always,
       .alibi = 8},
      {.name = "mpt",
       .norm = layer,
       .norm_bias = maybe,
       .rope = Style::none,
       .activation = Activation::gelu,
       .gated = false,
       .alibi = 8},
      // Granite 4, and Bamba
      granitehybrid,
      nemotron_h,
      with_name(nemotron_h, "nemotron_h_moe"),
      {.name = "falcon-h1", .states = States::ssd, .block = Block::beside},
      {.name = "mamba2", .rope = Style::none, .states = States::ssd, .block = Block::state},
      qwen3next,
      qwen35,
      with_name(qwen35, "qwen35moe"),
      lfm2,
      with_name(lfm2, "lfm2moe"),
      bert,
      add(bert,
          [](Architecture& to) {
            to.name = "nomic-bert";
            to.rope = Style::halves;
            to.activation = Activation::silu;
            to.gated = true;
            to.learned_positions = false;
          }),
      {.name = "modern-bert",
       .norm = layer,
       .norm_bias = maybe,
       .activation = Activation::gelu,
       .fused_gate_up = true,
       .encoder = true,
       .embedding_norm = true,
       .window = true,
       .window_period = 3,
       .first_is_full = true,
       .window_rope_base = 10000},
  };
  return table;
}

const Architecture& architecture_named(std::string_view name, std::string_view source) {
  std::vector<std::string_view> known;
  for (const Architecture& one : all_architectures()) {
    if (one.name == name) return one;
    known.push_back(one.name);
  }
  const std::string_view missing = formats::missing_for(name);
  throw Error("{}: heddle does not run the architecture \"{}\"{}{}; it runs {}", source, name,
              missing.empty() ? "" : ", which needs ", missing, fmt::join(known, ", "));
}

}  // namespace heddle::model
