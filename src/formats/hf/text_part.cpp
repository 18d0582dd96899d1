// LLaVA and its kin: any text model, and beside it one that reads pictures.
#include "formats/hf/text_part.h"

#include <fmt/ranges.h>

#include "formats/hf/classes.h"

namespace heddle::formats::hf {
namespace {

constexpr struct {
  std::string_view type;  // model_type
  Description (*describe)(Config&);
} text_models[] = {{"llama", describe_llama},     {"mistral", describe_mistral}, {"ministral3", describe_ministral3},
                   {"qwen2", describe_qwen2},     {"qwen3", describe_qwen3},     {"cohere", describe_cohere},
                   {"cohere2", describe_cohere2}, {"gemma", describe_gemma},     {"gemma2", describe_gemma2},
                   {"phi3", describe_phi3},       {"granite", describe_granite}, {"smollm3", describe_smollm3}};

Description describe_by_type(Config& text) {
  const std::string type = text.string("model_type", "llama");
  std::vector<std::string_view> known;
  for (const auto& one : text_models) {
    if (one.type == type) return one.describe(text);
    known.push_back(one.type);
  }
  text.refuse("model_type", fmt::format("one of {}", fmt::join(known, ", ")));
}

}  // namespace

Description text_part(Config& config, Description (*describe)(Config& text)) {
  const Json* found = config.find("text_config");
  if (!found || !found->is_object()) config.refuse("text_config", "an object");
  Json text = *found;
  // Where the class says that the embedding is the output, as most do by default, many files have an output all the
  // same, which counts.
  const bool tied = config.boolean("tie_word_embeddings", true);
  if (!tied) text["tie_word_embeddings"] = false;
  Config inner(text, config.where() + ": text_config", &config);
  Description to = describe(inner);
  inner.finish();
  if (tied)
    for (Wanted& wanted : to.tensors)
      if (wanted.name == "output.weight") wanted.otherwise = "model.embed_tokens.weight";
  // How pictures become tokens.
  config.ignore({"adapter_layer_norm_eps",
                 "alignment_intermediate_size",
                 "downsample_factor",
                 "downsample_ratio",
                 "ignore_index",
                 "image_grid_pinpoints",
                 "image_seq_length",
                 "image_token_id",
                 "image_token_index",
                 "multimodal_projector_bias",
                 "projector_hidden_act",
                 "scale_factor",
                 "spatial_merge_size",
                 "use_image_newline_parameter",
                 "video_token_id",
                 "video_token_index",
                 "vision_aspect_ratio",
                 "vision_config",
                 "vision_feature_layer",
                 "vision_feature_select_strategy",
                 "vocab_size"});
  to.text_only = true;
  to.unneeded.insert(to.unneeded.end(),
                     {"vision_tower.", "vision_model.", "multi_modal_projector.", "connector.", "image_newline"});
  to.prefixes = {{"language_model.", ""}, {"model.language_model.", "model."}, {"model.text_model.", "model."}};
  return to;
}

Description describe_llava(Config& config) { return text_part(config, describe_by_type); }

}  // namespace heddle::formats::hf
