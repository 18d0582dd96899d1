// The text of Qwen2-VL, 2.5-VL, 3-VL and 3-VL with experts: Qwen2's, Qwen3's and its mixture's layers. Positions of
// pictures have three parts; those of text are the same in all three, so it is rotated as ever.
#include <fmt/format.h>

#include "formats/hf/classes.h"
#include "formats/hf/qwen.h"

namespace heddle::formats::hf {

// The lengths of those three parts, and a fourth.
void put_position_sections(Description& to, Config& config, const Json& text) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto rope = text.find(key);
    if (rope == text.end() || !rope->is_object() || !rope->contains("mrope_section")) continue;
    Config object(*rope, config.where() + ": " + key);
    std::vector<int32_t> sections;
    for (const double one : object.numbers("mrope_section")) {
      if (!(one >= 0 && one <= 1 << 16)) object.refuse("mrope_section", "sizes of parts of a head");
      sections.push_back(static_cast<int32_t>(one));
    }
    sections.resize(4);
    to.set("rope.dimension_sections", Value(Array::of(sections)));
    return;
  }
}

namespace {

// text_config, or where there is none, as in older files, config.json itself. What only pictures need is left out.
Json text_of(Config& config, const Json& whole, const Json& defaults) {
  const Json* inner = config.find("text_config");
  Json text = inner ? *inner : whole;
  if (!text.is_object()) config.refuse("text_config", "an object");
  for (const char* key : {"vision_config", "image_token_id", "video_token_id", "vision_start_token_id",
                          "vision_end_token_id", "vision_token_id", "text_config"})
    text.erase(key);
  for (const auto& [key, value] : defaults.items()) text.emplace(key, value);
  if (const auto tied = whole.find("tie_word_embeddings"); tied != whole.end()) text["tie_word_embeddings"] = *tied;
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (const auto rope = text.find(key); rope != text.end() && rope->is_object())
      for (const char* type : {"type", "rope_type"})
        if (rope->contains(type) && (*rope)[type] == "mrope") (*rope)[type] = "default";
  return text;
}

}  // namespace

Description qwen_text_part(Config& config, Description (*describe)(Config&), std::string_view architecture,
                           const Json& defaults) {
  const Json& whole = config.whole();
  const Json text = text_of(config, whole, defaults);
  Config inner(text, config.where() + (whole.contains("text_config") ? ": text_config" : ""), &config);
  Description layers = describe(inner);
  inner.finish();
  Description to(architecture);
  for (const auto& [key, value] : layers.metadata.all()) {
    const size_t dot = key.find('.');
    if (key.substr(0, dot) == layers.architecture) to.set(key.substr(dot + 1), value);
  }
  to.tensors = std::move(layers.tensors);
  to.unneeded = std::move(layers.unneeded);
  to.unneeded.push_back("visual.");
  to.text_only = true;
  to.prefixes = {{"model.language_model.", "model."}, {"language_model.", ""}};
  put_position_sections(to, config, text);
  for (const auto& [key, value] : whole.items()) config.ignore({key});  // read as text, or of pictures
  return to;
}

namespace {

// Pictures reach this many layers directly. Of text there is nothing to add.
void put_deepstack(Description& to, const Json& whole) {
  const auto vision = whole.find("vision_config");
  uint64_t count = 0;
  if (vision != whole.end() && vision->is_object() && vision->contains("deepstack_visual_indexes"))
    count = (*vision)["deepstack_visual_indexes"].size();
  to.set("n_deepstack_layers", count);
}

}  // namespace

Description describe_qwen2vl(Config& config) {
  return qwen_text_part(config, describe_qwen2, "qwen2vl", {{"rope_theta", 1e6}, {"rms_norm_eps", 1e-5}});
}

Description describe_qwen3vl(Config& config) {
  Description to = qwen_text_part(config, describe_qwen3, "qwen3vl", {{"rope_theta", 500000.0}});
  put_deepstack(to, config.whole());
  return to;
}

Description describe_qwen3vlmoe(Config& config) {
  Description to = qwen_text_part(config, describe_qwen3moe, "qwen3vlmoe",
                                  {{"rope_theta", 500000.0}, {"norm_topk_prob", true}, {"tie_word_embeddings", true}});
  put_deepstack(to, config.whole());
  return to;
}

}  // namespace heddle::formats::hf
