// Ministral 3, and the text part of Mistral 3 with pictures: Llama's layer; the scores grow with the position.
#include "base/error.h"
#include "formats/hf/classes.h"
#include "formats/hf/llama.h"
#include "formats/hf/text_part.h"

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
  return text_part(config, [](Config& text) {
    text.expect("model_type", {"mistral", "ministral3"}, "mistral");
    return text.string("model_type", "mistral") == "ministral3"
               ? describe_ministral3(text)
               : mistral3(text, {32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-6, false}, {});
  });
}

}  // namespace heddle::formats::hf
