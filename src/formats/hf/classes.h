// The classes of transformers that heddle reads: config.json -> the description of the model.
#pragma once
#include <string_view>
#include <vector>

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
Description describe_gemma3n(Config& config);
Description describe_gemma3n_with_images(Config& config);
Description describe_gemma4(Config& config);
Description describe_gemma4_with_images(Config& config);
Description describe_olmo2(Config& config);
Description describe_apertus(Config& config);
Description describe_arcee(Config& config);
Description describe_bloom(Config& config);
Description describe_cohere(Config& config);
Description describe_cohere2(Config& config);
Description describe_exaone4(Config& config);
Description describe_falcon(Config& config);
Description describe_gemma(Config& config);
Description describe_glm(Config& config);
Description describe_glm4(Config& config);
Description describe_internlm2(Config& config);
Description describe_llava(Config& config);  // its text model
Description describe_minicpm(Config& config);
Description describe_ministral(Config& config);
Description describe_ministral3(Config& config);
Description describe_mistral3_with_images(Config& config);  // its text model
Description describe_mpt(Config& config);
Description describe_nemotron(Config& config);
Description describe_olmo(Config& config);
Description describe_olmo3(Config& config);
Description describe_seed_oss(Config& config);
Description describe_stablelm(Config& config);
Description describe_starcoder2(Config& config);
// Mixtures of experts, and latent attention.
Description describe_gpt_oss(Config& config);
Description describe_deepseek2(Config& config);
Description describe_deepseek3(Config& config);
Description describe_glm4moelite(Config& config);
Description describe_glm4moe(Config& config);
Description describe_dots1(Config& config);
Description describe_minimax_m2(Config& config);
Description describe_olmoe(Config& config);
Description describe_granitemoe(Config& config);
Description describe_ernie4_5(Config& config);
Description describe_ernie4_5_moe(Config& config);
Description describe_hunyuan_dense(Config& config);
Description describe_hunyuan_moe(Config& config);
Description describe_bailing_moe2(Config& config);
Description describe_phimoe(Config& config);
Description describe_llama4(Config& config);
// Recurrent states.
Description describe_qwen3next(Config& config);
Description describe_qwen35(Config& config);
Description describe_qwen35moe(Config& config);
Description describe_granite_hybrid(Config& config);
Description describe_nemotron_h(Config& config);
Description describe_falcon_h1(Config& config);
Description describe_mamba2(Config& config);
Description describe_lfm2(Config& config);
Description describe_lfm2moe(Config& config);
// The text of classes that see pictures.
Description describe_qwen35_with_images(Config& config);
Description describe_qwen35moe_with_images(Config& config);
Description describe_llama4_with_images(Config& config);
Description describe_qwen2vl(Config& config);
Description describe_qwen3vl(Config& config);
Description describe_qwen3vlmoe(Config& config);
Description describe_bert(Config& config);
Description describe_bert_classifier(Config& config);
Description describe_roberta(Config& config);
Description describe_roberta_classifier(Config& config);
Description describe_nomic_bert(Config& config);
Description describe_modern_bert(Config& config);
Description describe_modern_bert_classifier(Config& config);
Description describe_gemma_embedding(Config& config);  // the text model of Gemma 3 without a head

// Whether heddle knows a class of transformers ("LlamaForCausalLM").
bool is_known(std::string_view class_name);
std::vector<std::string_view> known_classes();

// Reads config.json as its class does, to the end: an Error if something in it is not understood. The class must be
// known.
Description describe(const Json& config, const std::string& where);

}  // namespace heddle::formats::hf
