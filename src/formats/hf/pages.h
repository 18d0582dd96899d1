// One page per architecture: config.json -> the description of the model.
#pragma once
#include <string_view>

#include "formats/hf/description.h"

namespace heddle::formats::hf {

Description llama_page(Config& config);
Description mistral_page(Config& config);
Description mixtral_page(Config& config);
Description granite_page(Config& config);
Description smollm3_page(Config& config);
Description gpt2_page(Config& config);
Description gptneox_page(Config& config);
Description qwen2_page(Config& config);
Description qwen3_page(Config& config);
Description qwen2moe_page(Config& config);
Description qwen3moe_page(Config& config);
Description phi2_page(Config& config);
Description phi3_page(Config& config);
Description gemma2_page(Config& config);
Description gemma3_page(Config& config);
Description gemma3_with_images_page(Config& config);  // its text model
Description olmo2_page(Config& config);

// The page for a class of transformers ("LlamaForCausalLM"); null if there is none.
using Page = Description (*)(Config&);
Page page_of(std::string_view class_name);

// Reads config.json by its class' page, to the end: an Error if something in it is not understood. The class must have
// a page.
Description describe(const Json& config, const std::string& where);

}  // namespace heddle::formats::hf
