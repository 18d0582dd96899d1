// Bodies of /completion and /infill. Where llama.cpp writes a field in another way than OpenAI's API and vLLM, it is
// rewritten first; then all is read by the same readers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "server/api/json.h"
#include "server/api/llama_cpp/llama_completion.h"
#include "server/api/openai/openai.h"
#include "server/api/tokenize.h"
#include "text/pipeline.h"

namespace heddle::server {
namespace {

constexpr size_t max_llama_prompts = 2048, max_llama_completions = 4096, max_files = 256, max_response_fields = 64;
constexpr double max_bias = 100;

// Values without effect, and those that would change the answer.
constexpr UnsupportedField not_in_heddle[] = {
    {"id_slot", "[-1]", ""},
    {"slot_id", "[-1]", ""},
    {"n_keep", "[0, -1]", ""},
    {"n_discard", "[0]", ""},
    {"timings_per_token", "[false]", ""},
    {"return_progress", "[false]", ""},
    {"n_indent", "[0]", "indentation"},
    {"t_max_predict_ms", "[0, -1]", "a limit of time"},
    {"t_max_prompt_ms", "[0, -1]", "a limit of time"},
    {"image_data", "[[]]", "anything but text"},
    {"lora", "[[]]", "adapters"},
    {"grammar_lazy", "[false]", "grammars that begin later"},
    {"min_tokens", "[0]", "a least number of tokens"},
};

// The tokens that llama.cpp lets a bias name: an id, or those of a text.
std::vector<text::TokenId> biased_tokens(const Json& name, const RequestRules& rules) {
  if (!name.is_string()) return {text::TokenId(whole_at(name, "logit_bias", 0, int64_t(rules.vocabulary) - 1))};
  const std::string& text = name.get_ref<const std::string&>();
  uint32_t id = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), id);
  if (end.ec == std::errc() && end.ptr == text.data() + text.size() && id < rules.vocabulary) return {id};
  return rules.tokenizer.encode(text, {.add_special = false, .parse_special = true});
}

struct Biases {
  std::map<uint32_t, float> all;
};

// [[15043, 1.5], [29871, false], [" Hello", -0.5]] or {" Hello": -0.5}; false: never.
void add_bias(const Json& name, const Json& bias, const RequestRules& rules, Biases& biases) {
  const bool never = bias.is_boolean() && !bias.get<bool>();
  if (!never && !bias.is_number()) throw unexpected("logit_bias", "numbers, or false for never", bias);
  const float value =
      never ? -std::numeric_limits<float>::infinity() : float(std::clamp(bias.get<double>(), -max_bias, max_bias));
  for (const text::TokenId id : biased_tokens(name, rules)) {
    if (id < rules.vocabulary) biases.all[id] = value;
    if (biases.all.size() > 1024) throw unexpected("logit_bias", "at most 1024 tokens", name, "invalid_value");
  }
}

Biases take_biases(Json& body, const RequestRules& rules) {
  Biases biases;
  const auto found = body.find("logit_bias");
  if (found == body.end() || found->is_null()) return biases;
  if (found->is_object()) {
    for (const auto& [name, bias] : found->get_ref<const Json::object_t&>()) add_bias(name, bias, rules, biases);
  } else if (found->is_array()) {
    for (const Json& pair : *found) {
      if (!pair.is_array() || pair.size() != 2) throw unexpected("logit_bias", "pairs such as [42, -1.5]", pair);
      add_bias(pair[0], pair[1], rules, biases);
    }
  } else {
    throw unexpected("logit_bias", "a list of pairs, or an object", *found);
  }
  body.erase(found);
  return biases;
}

// A list of names, or a letter for each. llama.cpp always applies biases.
void rename_samplers(Json& body) {
  const auto found = body.find("samplers");
  if (found == body.end() || found->is_null()) return;
  static const std::map<char, const char*> letters = {{'e', "penalties"}, {'d', "dry"},   {'s', "top_n_sigma"},
                                                      {'k', "top_k"},     {'y', "typ_p"}, {'p', "top_p"},
                                                      {'m', "min_p"},     {'x', "xtc"},   {'t', "temperature"}};
  Json names = Json::array({"logit_bias"});
  if (found->is_string()) {
    for (const char letter : found->get_ref<const std::string&>()) {
      const auto name = letters.find(letter);
      if (name == letters.end()) throw unexpected("samplers", "letters among edskypmxt, or a list of names", *found);
      names.push_back(name->second);
    }
  } else if (found->is_array()) {
    for (const Json& name : *found)
      if (name != "logit_bias") names.push_back(name);
  } else {
    throw unexpected("samplers", "a list of names", *found);
  }
  for (Json& name : names)
    if (name == "typ_p" || name == "typ-p" || name == "typical") name = "typical_p";
  *found = std::move(names);
}

// llama.cpp's ways to say "as you like" and "none".
void rename_values(Json& body) {
  const auto is = [&](const char* name, auto&& test) {
    const auto found = body.find(name);
    return found != body.end() && found->is_number() && test(found->get<double>());
  };
  const auto below_zero = [](double value) { return value < 0; };
  if (is("seed", [](double value) { return value == -1 || value == 4294967295.0; })) body.erase("seed");
  if (is("temperature", below_zero)) body["temperature"] = 0;
  if (is("top_k", below_zero)) body["top_k"] = 0;
  for (const char* name : {"n_predict", "max_tokens"})
    if (is(name, below_zero)) body[name] = -1;
  if (!body.contains("n") && body.contains("n_cmpl")) {
    body["n"] = body["n_cmpl"];
    body.erase("n_cmpl");
  }
  if (!body.contains("n_predict") && body.contains("max_tokens")) {
    body["n_predict"] = body["max_tokens"];
    body.erase("max_tokens");
  }
}

// What llama.cpp does where a request does not say: a step that the request leaves out stays out.
void set_llama_defaults(const Json& body, engine::Sampling& sampling) {
  const auto has_step = [&](std::string_view step) {
    return std::find(sampling.order.begin(), sampling.order.end(), step) != sampling.order.end();
  };
  const auto is_free = [&](const char* name) {
    const auto found = body.find(name);
    return (found == body.end() || found->is_null()) && has_step(name);
  };
  if (is_free("temperature")) sampling.temperature = 0.8f;
  if (sampling.mirostat) return;  // it takes the place of these
  if (is_free("top_k")) sampling.top_k = 40;
  if (is_free("top_p")) sampling.top_p = 0.95f;
  if (is_free("min_p")) sampling.min_p = 0.05f;
}

uint32_t llama_tokens(const RequestRules& rules) {
  return std::min(uint32_t(rules.tokenizer.size()), rules.vocabulary);
}

MixedPrompt mixed_at(const Json& value, const std::string& place, const RequestRules& rules) {
  MixedPrompt prompt;
  if (value.is_string()) {
    prompt.push_back(value.get<std::string>());
  } else if (value.is_array()) {
    for (const Json& piece : value) {
      if (piece.is_string())
        prompt.push_back(piece.get<std::string>());
      else if (piece.is_number())
        prompt.push_back(
            text::TokenId(whole_at(piece, element(place, prompt.size()), 0, int64_t(llama_tokens(rules)) - 1)));
      else
        throw unexpected(element(place, prompt.size()), "a string or a token id", piece);
    }
  } else if (value.is_object()) {
    const auto text = value.find("prompt_string"), media = value.find("multimodal_data");
    if (text == value.end() || !text->is_string()) throw unexpected(place + ".prompt_string", "a string", value);
    if (media != value.end() && !media->empty())
      throw unexpected(place + ".multimodal_data", "nothing: the model reads text", *media, "unsupported_value");
    prompt.push_back(text->get<std::string>());
  } else {
    throw unexpected(place, "a string, or a list of strings and token ids", value);
  }
  return prompt;
}

// A list with numbers is one prompt; a list of anything else has a prompt in each element.
bool is_prompt_list(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::none_of(value.begin(), value.end(), [](const Json& one) { return one.is_number(); });
}

void read_prompts(const Json& value, const RequestRules& rules, LlamaCompletionRequest& request) {
  if (!is_prompt_list(value)) {
    request.prompts.push_back(mixed_at(value, "prompt", rules));
    return;
  }
  for (const Json& one : list_at(value, "prompt", max_llama_prompts))
    request.prompts.push_back(mixed_at(one, element("prompt", request.prompts.size()), rules));
  request.is_list = request.prompts.size() > 1;
}

// All but the prompt.
LlamaCompletionRequest read_without_prompt(Fields& fields, const Json& json, std::string_view body, Biases biases,
                                           const RequestRules& rules) {
  LlamaCompletionRequest request;
  request.model = fields.text("model").value_or("");
  refuse_unsupported(fields, not_in_heddle);
  GenerationRequest& generation = request.generation;
  generation.prompt_field = "prompt";
  generation.continues_prompt = true;
  generation.token_ids = true;
  generation.constraint = read_constraint(fields, body);
  read_generation(fields, rules, generation);
  generation.sampling.logit_bias = std::move(biases.all);
  set_llama_defaults(json, generation.sampling);
  generation.max_tokens = read_token_limit(fields, "n_predict", 0);
  const int64_t probs = fields.whole("n_probs", 0, max_top_logprobs).value_or(0);
  const bool after = fields.flag_or("post_sampling_probs", false);
  if (probs > 0) {
    generation.sampling.logprobs = std::min(uint32_t(probs), rules.vocabulary);
    generation.sampling.logprobs_after = after;
  }
  request.stream = fields.flag_or("stream", false);
  request.return_tokens = fields.flag_or("return_tokens", false);
  if (const Json* names = fields.find("response_fields"); names && !(names->is_array() && names->empty()))
    for (const Json& name : list_at(*names, "response_fields", max_response_fields))
      request.response_fields.push_back(text_at(name, element("response_fields", request.response_fields.size())));
  return request;
}

struct Rewritten {
  Json body;
  Biases biases;
};
Rewritten rewritten(std::string_view body, const RequestRules& rules) {
  Rewritten out{parse_body(body), {}};
  if (!out.body.is_object()) return out;
  out.biases = take_biases(out.body, rules);
  rename_samplers(out.body);
  rename_values(out.body);
  return out;
}

}  // namespace

LlamaCompletionRequest read_llama_completion(std::string_view body, const RequestRules& rules) {
  auto [json, biases] = rewritten(body, rules);
  Fields fields(json, rules.ignored);
  const Json& prompt = fields.at("prompt");
  LlamaCompletionRequest request = read_without_prompt(fields, json, body, std::move(biases), rules);
  read_prompts(prompt, rules, request);
  fields.finish();
  request.is_list |= request.generation.n > 1;
  if (request.prompts.size() * request.generation.n > max_llama_completions)
    throw bad_field("prompt", "prompt: expected at most {} completions, found {} prompts with {} completions each",
                    max_llama_completions, request.prompts.size(), request.generation.n);
  return request;
}

InfillRequest read_infill(std::string_view body, const RequestRules& rules) {
  auto [json, biases] = rewritten(body, rules);
  Fields fields(json, rules.ignored);
  InfillRequest request;
  request.prefix = text_at(fields.at("input_prefix"), "input_prefix");
  request.suffix = text_at(fields.at("input_suffix"), "input_suffix");
  if (const Json* extra = fields.find("input_extra"); extra && !(extra->is_array() && extra->empty()))
    for (const Json& one : list_at(*extra, "input_extra", max_files)) {
      Fields file(one, element("input_extra", request.files.size()), fields);
      request.files.push_back({file.text("filename").value_or("tmp"), text_at(file.at("text"), file.place("text"))});
      file.finish();
    }
  const Json* prompt = fields.find("prompt");
  request.completion = read_without_prompt(fields, json, body, std::move(biases), rules);
  request.completion.prompts.push_back(prompt ? mixed_at(*prompt, "prompt", rules) : MixedPrompt());
  fields.finish();
  request.completion.is_list = request.completion.generation.n > 1;
  request.completion.generation.prompt_field = "input_prefix";
  return request;
}

std::vector<text::TokenId> encode_mixed(const text::Tokenizer& tokenizer, const MixedPrompt& prompt) {
  std::vector<text::TokenId> ids;
  for (const auto& piece : prompt) {
    if (const auto* id = std::get_if<text::TokenId>(&piece)) {
      ids.push_back(*id);
      continue;
    }
    // EOS and the like belong behind a text alone, not between two pieces
    const bool alone = prompt.size() == 1;
    const bool first = &piece == &prompt.front();
    const std::string& text = std::get<std::string>(piece);
    if (first && !alone && tokenizer.bos() && !tokenizer.pipeline().prefix.empty()) ids.push_back(*tokenizer.bos());
    const auto more = tokenizer.encode(text, {.add_special = alone});
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

InfillTokens infill_tokens(const text::Tokenizer& tokenizer) {
  const auto first_of = [&](std::initializer_list<std::string_view> names) -> std::optional<text::TokenId> {
    for (const std::string_view name : names)
      if (const auto id = tokenizer.find(name)) return id;
    return std::nullopt;
  };
  // Qwen, StarCoder, Granite, CodeLlama (with and without the space of its vocabulary), DeepSeek, GLM
  InfillTokens tokens;
  tokens.prefix = first_of({"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<PRE>", "\xe2\x96\x81<PRE>",
                            "<\xef\xbd\x9c"
                            "fim\xe2\x96\x81"
                            "begin\xef\xbd\x9c>",
                            "<|code_prefix|>"});
  tokens.suffix = first_of({"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<SUF>", "\xe2\x96\x81<SUF>",
                            "<\xef\xbd\x9c"
                            "fim\xe2\x96\x81"
                            "hole\xef\xbd\x9c>",
                            "<|code_suffix|>"});
  tokens.middle = first_of({"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<MID>", "\xe2\x96\x81<MID>",
                            "<\xef\xbd\x9c"
                            "fim\xe2\x96\x81"
                            "end\xef\xbd\x9c>",
                            "<|code_middle|>"});
  tokens.repository = first_of({"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"});
  tokens.file = first_of({"<|file_sep|>"});
  for (const auto& end : {tokens.repository, tokens.file, first_of({"<|fim_pad|>", "<fim_pad>", "<fim-pad>", "<PAD>"})})
    if (end) tokens.ends.push_back(*end);
  return tokens;
}

std::vector<text::TokenId> encode_infill(const text::Tokenizer& tokenizer, const InfillRequest& request) {
  const InfillTokens fim = infill_tokens(tokenizer);
  std::string missing;
  const auto need = [&](const std::optional<text::TokenId>& token, std::string_view name) {
    if (!token) missing.append(missing.empty() ? "" : ", ").append(name);
  };
  need(fim.prefix, "a prefix token");
  need(fim.suffix, "a suffix token");
  need(fim.middle, "a middle token");
  if (!missing.empty())
    throw ApiError(501, "not_supported", "", "the model cannot fill in: its vocabulary lacks {} (such as {})", missing,
                   "<|fim_prefix|>, <|fim_suffix|>, <|fim_middle|>");
  std::vector<text::TokenId> ids;
  const auto add = [&](std::string_view text) {
    const auto more = tokenizer.encode(text, {.add_special = false, .parse_special = false});
    ids.insert(ids.end(), more.begin(), more.end());
  };
  if (tokenizer.bos() && !tokenizer.pipeline().prefix.empty()) ids.push_back(*tokenizer.bos());
  if (!request.files.empty() && fim.repository) {
    ids.push_back(*fim.repository);
    add("myproject\n");
  }
  for (const InfillRequest::File& file : request.files) {
    if (fim.file) {
      ids.push_back(*fim.file);
      add(file.name + "\n");
    } else {
      add("\n\n--- snippet ---\n\n");
    }
    add(file.text);
  }
  if (!request.files.empty() && fim.file) {
    ids.push_back(*fim.file);
    add("filename\n");
  }
  ids.push_back(*fim.prefix);
  add(request.prefix);
  for (const auto& piece : request.completion.prompts[0]) {
    if (const auto* id = std::get_if<text::TokenId>(&piece))
      ids.push_back(*id);
    else
      add(std::get<std::string>(piece));
  }
  ids.push_back(*fim.suffix);
  add(request.suffix);
  ids.push_back(*fim.middle);
  return ids;
}

}  // namespace heddle::server
