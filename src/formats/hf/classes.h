// The classes of transformers that heddle reads: config.json -> the description of the model.
#pragma once
#include <string_view>

#include "formats/hf/description.h"

namespace heddle::formats::hf {

Description describe_llama(Config& config);
Description describe_mistral(Config& config);
Description describe_mixtral(Config& config);
Description describe_granite(Config& config);
Description describe_smollm3(Config& config);
Description describe_gpt2(Config& config);
Description describe_gptneox(Config& config);
Description describe_qwen2(Config& config);
Description describe_qwen3(Config& config);
Description describe_qwen2moe(Config& config);
Description describe_qwen3moe(Config& config);
Description describe_phi2(Config& config);
Description describe_phi3(Config& config);
Description describe_gemma2(Config& config);
Description describe_gemma3(Config& config);
Description describe_gemma3_with_images(Config& config);  // its text model
Description describe_olmo2(Config& config);

// Whether heddle knows a class of transformers ("LlamaForCausalLM").
bool is_known(std::string_view class_name);

// Reads config.json as its class does, to the end: an Error if something in it is not understood. The class must be
// known.
Description describe(const Json& config, const std::string& where);

}  // namespace heddle::formats::hf
