// What Qwen's classes share: mixtures of experts, with one that sees every token, and positions of pictures.
#pragma once
#include <string_view>
#include <vector>

#include "formats/hf/description.h"

namespace heddle::formats::hf {

struct QwenMixture {
  uint64_t experts = 0, inner = 0, shared_inner = 0;
  std::vector<bool> sparse;  // the layers that have them
};
// num_experts, moe_intermediate_size, decoder_sparse_step, mlp_only_layers; `usual`: its experts and inner.
QwenMixture read_qwen_mixture(Config& config, const Sizes& sizes, const QwenMixture& usual);
// In GGUF the architecture says whether the weights of experts are normalised to a sum of 1, which is `usual`; what is
// not usual has heddle's own key, as have layers without experts, which are seen by their tensors.
void put_qwen_mixture(Description& to, const QwenMixture& mixture, uint64_t used, bool normalised, bool usual);
void add_qwen_mixture(Layer& layer, const Sizes& sizes, const QwenMixture& mixture);

// The parts of positions of pictures, from the rope_parameters of `text`, which llama.cpp wants.
void put_position_sections(Description& to, Config& config, const Json& text);
// The text of a class that sees pictures. `defaults` are those that the class of its layers does not share.
Description qwen_text_part(Config& config, Description (*describe)(Config&), std::string_view architecture,
                           const Json& defaults);

}  // namespace heddle::formats::hf
