// The table of classes.
#include "formats/hf/classes.h"

#include "base/error.h"

namespace heddle::formats::hf {
namespace {

constexpr struct Class {
  std::string_view name;
  Description (*describe)(Config&);
} table[] = {
    {"LlamaForCausalLM", describe_llama},
    {"LLaMAForCausalLM", describe_llama},  // of the first conversions
    {"MistralForCausalLM", describe_mistral},
    {"MixtralForCausalLM", describe_mixtral},
    {"GraniteForCausalLM", describe_granite},
    {"SmolLM3ForCausalLM", describe_smollm3},
    {"GPT2LMHeadModel", describe_gpt2},
    {"GPTNeoXForCausalLM", describe_gptneox},
    {"Qwen2ForCausalLM", describe_qwen2},
    {"Qwen3ForCausalLM", describe_qwen3},
    {"Qwen2MoeForCausalLM", describe_qwen2moe},
    {"Qwen3MoeForCausalLM", describe_qwen3moe},
    {"PhiForCausalLM", describe_phi2},
    {"Phi3ForCausalLM", describe_phi3},
    {"Gemma2ForCausalLM", describe_gemma2},
    {"Gemma3ForCausalLM", describe_gemma3},
    {"Gemma3ForConditionalGeneration", describe_gemma3_with_images},
    {"Gemma3nForCausalLM", describe_gemma3n},
    {"Gemma3nForConditionalGeneration", describe_gemma3n_with_images},
    {"Gemma4ForCausalLM", describe_gemma4},
    {"Gemma4ForConditionalGeneration", describe_gemma4_with_images},
    {"Olmo2ForCausalLM", describe_olmo2},
    {"ApertusForCausalLM", describe_apertus},
    {"ArceeForCausalLM", describe_arcee},
    {"BloomForCausalLM", describe_bloom},
    {"CohereForCausalLM", describe_cohere},
    {"Cohere2ForCausalLM", describe_cohere2},
    {"Exaone4ForCausalLM", describe_exaone4},
    {"FalconForCausalLM", describe_falcon},
    {"RWForCausalLM", describe_falcon},  // its first name
    {"GemmaForCausalLM", describe_gemma},
    {"GlmForCausalLM", describe_glm},
    {"Glm4ForCausalLM", describe_glm4},
    {"InternLM2ForCausalLM", describe_internlm2},
    {"LlavaForConditionalGeneration", describe_llava},
    {"LlavaNextForConditionalGeneration", describe_llava},
    {"LlavaOnevisionForConditionalGeneration", describe_llava},
    {"AyaVisionForConditionalGeneration", describe_llava},
    {"Cohere2VisionForConditionalGeneration", describe_llava},
    {"Idefics3ForConditionalGeneration", describe_llava},
    {"InternVLForConditionalGeneration", describe_llava},
    {"SmolVLMForConditionalGeneration", describe_llava},
    {"MiniCPMForCausalLM", describe_minicpm},
    {"MinistralForCausalLM", describe_ministral},
    {"Ministral3ForCausalLM", describe_ministral3},
    {"Mistral3ForConditionalGeneration", describe_mistral3_with_images},
    {"MptForCausalLM", describe_mpt},
    {"MPTForCausalLM", describe_mpt},  // its first name
    {"NemotronForCausalLM", describe_nemotron},
    {"OlmoForCausalLM", describe_olmo},
    {"Olmo3ForCausalLM", describe_olmo3},
    {"SeedOssForCausalLM", describe_seed_oss},
    {"StableLmForCausalLM", describe_stablelm},
    {"StableLMEpochForCausalLM", describe_stablelm},  // its first name
    {"Starcoder2ForCausalLM", describe_starcoder2},
    {"GptOssForCausalLM", describe_gpt_oss},
    {"DeepseekV2ForCausalLM", describe_deepseek2},
    {"DeepseekV3ForCausalLM", describe_deepseek3},
    {"Glm4MoeLiteForCausalLM", describe_glm4moelite},
    {"Glm4MoeForCausalLM", describe_glm4moe},
    {"Dots1ForCausalLM", describe_dots1},
    {"MiniMaxM2ForCausalLM", describe_minimax_m2},
    {"OlmoeForCausalLM", describe_olmoe},
    {"GraniteMoeForCausalLM", describe_granitemoe},
    {"GraniteMoeSharedForCausalLM", describe_granitemoe},
    {"Ernie4_5ForCausalLM", describe_ernie4_5},
    {"Ernie4_5_ForCausalLM", describe_ernie4_5},  // as the first files have it
    {"Ernie4_5_MoeForCausalLM", describe_ernie4_5_moe},
    {"HunYuanDenseV1ForCausalLM", describe_hunyuan_dense},
    {"HunYuanMoEV1ForCausalLM", describe_hunyuan_moe},
    {"BailingMoeV2ForCausalLM", describe_bailing_moe2},
    {"PhimoeForCausalLM", describe_phimoe},
    {"PhiMoEForCausalLM", describe_phimoe},  // as the files have it
    {"Llama4ForCausalLM", describe_llama4},
    {"Llama4ForConditionalGeneration", describe_llama4_with_images},
    {"Qwen2VLForConditionalGeneration", describe_qwen2vl},
    {"Qwen2_5_VLForConditionalGeneration", describe_qwen2vl},
    {"Qwen3VLForConditionalGeneration", describe_qwen3vl},
    {"Qwen3VLMoeForConditionalGeneration", describe_qwen3vlmoe},
    {"Qwen3NextForCausalLM", describe_qwen3next},
    {"Qwen3_5ForCausalLM", describe_qwen35},
    {"Qwen3_5MoeForCausalLM", describe_qwen35moe},
    {"Qwen3_5ForConditionalGeneration", describe_qwen35_with_images},
    {"Qwen3_5MoeForConditionalGeneration", describe_qwen35moe_with_images},
    {"GraniteMoeHybridForCausalLM", describe_granite_hybrid},
    {"NemotronHForCausalLM", describe_nemotron_h},
    {"FalconH1ForCausalLM", describe_falcon_h1},
    {"Mamba2ForCausalLM", describe_mamba2},
    {"Lfm2ForCausalLM", describe_lfm2},
    {"LFM2ForCausalLM", describe_lfm2},  // its first name
    {"Lfm2MoeForCausalLM", describe_lfm2moe},
    {"BertModel", describe_bert},
    {"BertForMaskedLM", describe_bert},
    {"BertForSequenceClassification", describe_bert_classifier},
    {"RobertaModel", describe_roberta},
    {"RobertaForMaskedLM", describe_roberta},
    {"RobertaForSequenceClassification", describe_roberta_classifier},
    {"CamembertModel", describe_roberta},
    {"XLMRobertaModel", describe_roberta},
    {"XLMRobertaForMaskedLM", describe_roberta},
    {"XLMRobertaForSequenceClassification", describe_roberta_classifier},
    {"NomicBertModel", describe_nomic_bert},
    {"ModernBertModel", describe_modern_bert},
    {"ModernBertForMaskedLM", describe_modern_bert},
    {"ModernBertForSequenceClassification", describe_modern_bert_classifier},
    {"Gemma3TextModel", describe_gemma_embedding},
};

const Class* find_class(std::string_view name) {
  for (const Class& entry : table)
    if (entry.name == name) return &entry;
  return nullptr;
}

}  // namespace

bool is_known(std::string_view class_name) { return find_class(class_name) != nullptr; }

std::vector<std::string_view> known_classes() {
  std::vector<std::string_view> names;
  for (const Class& entry : table) names.push_back(entry.name);
  return names;
}

Description describe(const Json& json, const std::string& where) {
  Config config(json, where);
  const std::vector<std::string> classes = config.strings("architectures");
  const Class* found = classes.empty() ? nullptr : find_class(classes[0]);
  check(found != nullptr, "a class that is known");
  Description description = found->describe(config);
  config.finish();
  description.warnings = config.warnings();
  return description;
}

}  // namespace heddle::formats::hf
