// The options that change nothing for any class, those that change the result, and what is said about the rest.
#include "formats/hf/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace heddle::formats::hf {
namespace {

constexpr uint64_t max_integer = 1u << 30;

// How the model was initialised, saved or trained, and defaults of generate(): nothing that changes what it computes.
constexpr std::string_view harmless[] = {
    "architectures",
    "model_type",
    "dtype",
    "torch_dtype",
    "transformers_version",
    "use_cache",
    "initializer_range",
    "initializer_factor",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "unk_token_id",
    "sep_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "attention_dropout",
    "hidden_dropout",
    "residual_dropout",
    "embedding_dropout",
    "embedding_pdrop",
    "emb_pdrop",
    "resid_dropout",
    "embd_dropout",
    "dropout",
    "classifier_dropout",
    "attn_pdrop",
    "embd_pdrop",
    "resid_pdrop",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "gradient_checkpointing",
    "pretraining_tp",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "output_router_logits",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "task_specific_params",
    "id2label",
    "label2id",
    "num_labels",
    "problem_type",
    "prefix",
    "finetuning_task",
    "auto_map",
    "tokenizer_class",
    "reorder_and_upcast_attn",
    "n_ctx",
    "is_decoder",
    "is_encoder_decoder",
    "attn_implementation",
    "max_length",
    "min_length",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "do_sample",
    "num_beams",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "num_return_sequences",
    "early_stopping",
    "bad_words_ids",
    "cache_implementation",
    "transformers.js_config",
    "use_flash_attn",
    "use_flash_attention",
    "use_flash_attention_2",
    "max_sequence_length",
    "seq_length",
    "language",
    "model_name",
    "quantization",
    "init_device",
    "init_config",
    "verbose",
    "tokenizer_name",
    "bos_token",
    "eos_token",
    "pad_token",
    "model_max_length",
    "tf_legacy_loss",
    "torchscript",
    "use_bfloat16",
    "chunk_size_feed_forward",
    "diversity_penalty",
    "num_beam_groups",
    "encoder_no_repeat_ngram_size",
    "remove_invalid_values",
    "exponential_decay_length_penalty",
    "suppress_tokens",
    "begin_suppress_tokens",
    "keys_to_ignore_at_inference",
    "pruned_heads",
    "use_mambapy",
    "attention_probs_dropout_prob",
    "hidden_dropout_prob",
    "quantization_config",  // formats/hf/quantization.h reads it
    "compression_config",
};

bool is_harmless(std::string_view key) {
  return key.starts_with("_") || key.starts_with("unsloth") ||
         std::find(std::begin(harmless), std::end(harmless), key) != std::end(harmless);
}

// Options of one class or another that change what a model computes: a class that does not read one does not have it.
constexpr std::string_view changing[] = {
    "activation_function",
    "alibi",
    "apply_residual_connection_post_layernorm",
    "attention_bias",
    "attention_chunk_size",
    "attention_multiplier",
    "attn_config",
    "attn_logit_softcapping",
    "attn_output_gate",
    "attn_scale",
    "attn_temperature_tuning",
    "bias",
    "clip_qkv",
    "compression_config",
    "dim_model_base",
    "embedding_multiplier",
    "final_logit_softcapping",
    "first_k_dense_replace",
    "head_dim",
    "hidden_act",
    "hidden_activation",
    "hidden_size_per_layer_input",
    "kv_lora_rank",
    "layer_types",
    "llama_4_scaling_beta",
    "logit_scale",
    "logits_scaling",
    "mlp_bias",
    "mlp_only_layers",
    "multi_query",
    "n_group",
    "n_routed_experts",
    "n_shared_experts",
    "new_decoder_architecture",
    "no_bias",
    "no_rope_layers",
    "norm_topk_prob",
    "num_experts",
    "num_experts_per_tok",
    "num_key_value_heads",
    "num_kv_shared_layers",
    "num_local_experts",
    "num_ln_in_parallel_attn",
    "num_shared_experts",
    "parallel_attn",
    "partial_rotary_factor",
    "post_norm",
    "q_lora_rank",
    "qk_layernorm",
    "qk_nope_head_dim",
    "qk_norm",
    "qk_rope_head_dim",
    "quantization_config",
    "query_pre_attn_scalar",
    "residual_multiplier",
    "rope_interleaved",
    "rope_local_base_freq",
    "rope_parameters",
    "rope_ratio",
    "rope_scaling",
    "rope_theta",
    "rotary_emb_base",
    "rotary_pct",
    "routed_scaling_factor",
    "scale_depth",
    "scale_emb",
    "scale_attn_by_inverse_layer_idx",
    "scoring_func",
    "shared_expert_intermediate_size",
    "shared_intermediate_size",
    "sliding_window",
    "sliding_window_pattern",
    "swiglu_limit",
    "text_config",
    "topk_group",
    "use_bidirectional_attention",
    "use_moe",
    "use_parallel_residual",
    "use_qk_norm",
    "use_qkv_bias",
    "use_sliding_window",
    "v_head_dim",
    "window_attn_skip_freq",
};

bool changes_the_result(std::string_view key) {
  return key.starts_with("pooling_mode_") ||
         std::find(std::begin(changing), std::end(changing), key) != std::end(changing);
}

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

}  // namespace

Json parse_config(std::string_view text, std::string_view where) {
  constexpr std::string_view name = "Infinity";
  std::string changed;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = !in_text && text.substr(i).starts_with(name);
    if (text[i] == '"') in_text = !in_text;
    changed += begins ? std::string(R"({"__float__": "Infinity"})") : std::string(1, text[i]);
    if (in_text && text[i] == '\\' && i + 1 < text.size()) changed += text[++i];
    if (begins) i += name.size() - 1;
  }
  return parse_json(changed, where);
}

Config::Config(const Json& json, std::string where, Config* outer)
    : json_(&json), where_(std::move(where)), outer_(outer) {
  if (!json.is_object()) throw Error("{}: expected an object, found {}", where_, shown(json));
}

const Json* Config::find(std::string_view key) {
  read_.emplace(key);
  const auto entry = json_->find(key);
  return entry == json_->end() || entry->is_null() ? nullptr : &*entry;
}

bool Config::is_null(std::string_view key) {
  const auto entry = json_->find(key);
  return entry != json_->end() && entry->is_null();
}

void Config::refuse(std::string_view key, std::string_view expected) const {
  const auto entry = json_->find(key);
  throw Error("{}: {}: expected {}, found {}", where_, key, expected, entry == json_->end() ? "none" : shown(*entry));
}

uint64_t Config::integer(std::string_view key, uint64_t fallback) {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_number_unsigned() || value->get<uint64_t>() < 1 || value->get<uint64_t>() > max_integer)
    refuse(key, "a whole number from 1 to 2^30");
  return value->get<uint64_t>();
}

uint64_t Config::count(std::string_view key, uint64_t fallback) {
  const Json* value = find(key);
  return value && *value == Json(0) ? 0 : integer(key, fallback);
}

// GGUF keeps them as f32.
double Config::checked(std::string_view key, double number) const {
  if (!(std::fabs(number) <= std::numeric_limits<float>::max())) refuse(key, "numbers that an f32 can hold");
  return number;
}

double Config::number(std::string_view key, double fallback) {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_number()) refuse(key, "a number");
  return checked(key, value->get<double>());
}

bool Config::boolean(std::string_view key, bool fallback) {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean()) refuse(key, "true or false");
  return value->get<bool>();
}

std::string Config::string(std::string_view key, std::string_view fallback) {
  const Json* value = find(key);
  if (!value) return std::string(fallback);
  if (!value->is_string()) refuse(key, "a text");
  return value->get<std::string>();
}

std::vector<double> Config::numbers(std::string_view key) {
  std::vector<double> result;
  const Json* value = find(key);
  if (!value) return result;
  if (!value->is_array()) refuse(key, "a list of numbers");
  for (const Json& entry : *value) {
    if (!entry.is_number()) refuse(key, "a list of numbers");
    result.push_back(checked(key, entry.get<double>()));
  }
  return result;
}

std::vector<std::string> Config::strings(std::string_view key) {
  std::vector<std::string> result;
  const Json* value = find(key);
  if (!value) return result;
  if (!value->is_array()) refuse(key, "a list of texts");
  for (const Json& entry : *value) {
    if (!entry.is_string()) refuse(key, "a list of texts");
    result.push_back(entry.get<std::string>());
  }
  return result;
}

void Config::expect(std::string_view key, std::initializer_list<Json> allowed, const Json& fallback) {
  const Json* value = find(key);
  const Json& found = value ? *value : fallback;
  if (std::find(allowed.begin(), allowed.end(), found) != allowed.end()) return;
  std::string list;
  for (const Json& entry : allowed) list += (list.empty() ? "" : " or ") + shown(entry);
  if (value) refuse(key, list);
  throw Error("{}: {}: expected {}, found none, which means {}", where_, key, list, shown(fallback));
}

void Config::ignore(std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) read_.emplace(key);
}

void Config::finish() {
  std::string refused, unknown;
  for (const auto& [key, value] : json_->items()) {
    if (read_.count(key) || is_harmless(key) || value.is_null() || value == Json(false)) continue;
    if ((value.is_array() || value.is_object()) && value.empty()) continue;
    std::string& list = changes_the_result(key) ? refused : unknown;
    list += (list.empty() ? "" : ", ") + key + " = " + shown(value);
  }
  if (!refused.empty())
    throw Error("{}: options that change the result and that heddle does not have for this class: {}", where_, refused);
  if (unknown.empty()) return;
  Config& first = outer_ ? *outer_ : *this;
  first.warnings_.push_back(fmt::format("{}: options that heddle does not know and does without: {}", where_, unknown));
}

}  // namespace heddle::formats::hf
