// Ministral 3, and the text part of Mistral 3 with pictures: Llama's layer; the scores grow with the position.
#include "base/error.h"
#include "formats/hf/classes.h"
#include "formats/hf/llama.h"

namespace heddle::formats::hf {
namespace {

Description mistral3(Config& config, const Sizes& defaults, const RopeDefaults& rope) {
  Description to = llama_family(config, "mistral3", llama_sizes(config, defaults), {}, rope);
  put_sliding_window(to, config, 0);
  return to;
}

}  // namespace

Description describe_ministral3(Config& config) {
  const RopeDefaults rope{.theta = 1e6, .ministral = true};
  Description to = mistral3(config, {131072, 4096, 14336, 34, 32, 8, 128, 262144, 1e-5, false}, rope);
  if (to.metadata.find("mistral3.attention.temperature_scale") &&
      !to.metadata.find("mistral3.rope.scaling.original_context_length"))
    throw Error("{}: rope_parameters: llama_4_scaling_beta: expected with rope_type \"yarn\" only", config.where());
  return to;
}

Description describe_mistral3_with_images(Config& config) {
  const Json* text = config.find("text_config");
  if (!text) config.refuse("text_config", "an object");
  Config inner(*text, config.where() + ": text_config", &config);
  inner.expect("model_type", {"mistral", "ministral3"}, "mistral");
  Description to = inner.string("model_type", "mistral") == "ministral3"
                       ? describe_ministral3(inner)
                       : mistral3(inner, {32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-6, false}, {});
  inner.finish();
  // By default the outer class says that the embedding is the output, but most of its models have an output all the
  // same, which counts.
  if (config.boolean("tie_word_embeddings", true))
    for (Wanted& wanted : to.tensors)
      if (wanted.name == "output.weight") wanted.otherwise = "model.embed_tokens.weight";
  config.ignore({"vision_config", "image_token_index", "image_token_id", "multimodal_projector_bias",
                 "projector_hidden_act", "spatial_merge_size", "vision_feature_layer"});
  to.text_only = true;
  to.unneeded.insert(to.unneeded.end(), {"vision_tower.", "multi_modal_projector."});
  to.prefixes = {{"language_model.", ""}, {"model.language_model.", "model."}};
  return to;
}

}  // namespace heddle::formats::hf
