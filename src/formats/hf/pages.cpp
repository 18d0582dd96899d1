// The table of classes.
#include "formats/hf/pages.h"

#include "base/error.h"

namespace heddle::formats::hf {
namespace {

constexpr struct {
  std::string_view name;
  Page page;
} table[] = {
    {"LlamaForCausalLM", llama_page},
    {"LLaMAForCausalLM", llama_page},  // of the first conversions
    {"MistralForCausalLM", mistral_page},
    {"MixtralForCausalLM", mixtral_page},
    {"GraniteForCausalLM", granite_page},
    {"SmolLM3ForCausalLM", smollm3_page},
    {"GPT2LMHeadModel", gpt2_page},
    {"GPTNeoXForCausalLM", gptneox_page},
    {"Qwen2ForCausalLM", qwen2_page},
    {"Qwen3ForCausalLM", qwen3_page},
    {"Qwen2MoeForCausalLM", qwen2moe_page},
    {"Qwen3MoeForCausalLM", qwen3moe_page},
    {"PhiForCausalLM", phi2_page},
    {"Phi3ForCausalLM", phi3_page},
    {"Gemma2ForCausalLM", gemma2_page},
    {"Gemma3ForCausalLM", gemma3_page},
    {"Gemma3ForConditionalGeneration", gemma3_with_images_page},
    {"Olmo2ForCausalLM", olmo2_page},
};

}  // namespace

Page page_of(std::string_view class_name) {
  for (const auto& entry : table)
    if (entry.name == class_name) return entry.page;
  return nullptr;
}

Description describe(const Json& json, const std::string& where) {
  Config config(json, where);
  const std::vector<std::string> classes = config.strings("architectures");
  const Page page = classes.empty() ? nullptr : page_of(classes[0]);
  check(page, "a class that has a page");
  Description description = page(config);
  config.finish();
  return description;
}

}  // namespace heddle::formats::hf
