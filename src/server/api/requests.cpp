// Requests whose text is given as it is: completions, embeddings, and the tokenizer alone.
#include "server/api/requests.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/api/generation_fields.h"
#include "server/api/unsupported_fields.h"

namespace heddle::server {
namespace {

constexpr size_t most_prompts = 2048;
constexpr size_t most_content = 1u << 20, most_ids = 1u << 18;  // bytes and ids, of the tokenizer alone
constexpr int64_t most_best_of = 128;
constexpr uint32_t usual_length = 16;  // of a completion, as OpenAI has it

// Ids the model can take: a tokenizer may know more tokens than the model, and the other way round.
uint32_t ids_below(const RequestRules& rules) { return std::min(uint32_t(rules.tokenizer.size()), rules.vocabulary); }

Prompt prompt_at(const Json& value, const std::string& place, const RequestRules& rules) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) throw unexpected(place, "a string or a list of token ids", value);
  return ids_at(list_at(value, place, SIZE_MAX), place, ids_below(rules));
}

// A string, a list of ids, or a list of such.
std::vector<Prompt> prompts_at(const Json& value, const std::string& place, const RequestRules& rules) {
  std::vector<Prompt> prompts;
  if (!value.is_array() || (!value.empty() && value[0].is_number())) {
    if (!value.is_array() && !value.is_string()) throw unexpected(place, "a string or a list", value);
    prompts.push_back(prompt_at(value, place, rules));
    return prompts;
  }
  for (const Json& one : list_at(value, place, most_prompts))
    prompts.push_back(prompt_at(one, element(place, prompts.size()), rules));
  return prompts;
}

}  // namespace

CompletionRequest completion_request(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json);
  CompletionRequest request;
  request.model = fields.text("model").value_or("");
  request.prompts = prompts_at(fields.at("prompt"), "prompt", rules);
  refuse_unsupported(fields);
  Generation& generation = request.generation = generation_of(fields, rules);
  generation.max_tokens = uint32_t(fields.whole("max_tokens", 0, most_tokens).value_or(usual_length));
  set_logprobs(fields, rules, fields.whole("logprobs", 0, most_top), generation.sampling);
  request.echo = fields.flag_or("echo", false);
  const int64_t copies = generation.n;
  request.best_of = uint32_t(fields.whole("best_of", copies, most_best_of).value_or(copies));
  if (generation.stream && request.best_of > generation.n)
    throw unexpected("best_of", fmt::format("n ({}) with \"stream\": true", copies), request.best_of, "invalid_value");
  fields.finish();
  return request;
}

EmbeddingRequest embedding_request(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json);
  EmbeddingRequest request;
  request.model = fields.text("model").value_or("");
  const Json& input = fields.at("input");
  request.inputs = prompts_at(input, "input", rules);
  for (size_t i = 0; i < request.inputs.size(); ++i)
    if (const auto* text = std::get_if<std::string>(&request.inputs[i]); text && text->empty())
      throw unexpected(input.is_string() ? "input" : element("input", i), "a text", *text, "empty_string");
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    throw unexpected("encoding_format", "\"float\" or \"base64\"", format, "invalid_value");
  request.base64 = format == "base64";
  if (const auto dimensions = fields.whole("dimensions", 1, UINT32_MAX)) request.dimensions = uint32_t(*dimensions);
  request.user = user_of(fields);
  fields.finish();
  return request;
}

TokenizeRequest tokenize_request(std::string_view body, const RequestRules&) {
  const Json json = parse_body(body);
  Fields fields(json);
  TokenizeRequest request;
  request.content = text_at(fields.at("content"), "content");
  if (request.content.size() > most_content)
    throw ApiError(400, "invalid_request_error", "string_above_max_length", "content",
                   "content: expected at most {} bytes, found {}", most_content, request.content.size());
  request.add_special = fields.flag_or("add_special", request.add_special);
  request.parse_special = fields.flag_or("parse_special", request.parse_special);
  request.with_pieces = fields.flag_or("with_pieces", request.with_pieces);
  fields.finish();
  return request;
}

DetokenizeRequest detokenize_request(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json);
  DetokenizeRequest request;
  const Json& tokens = fields.at("tokens");
  if (!tokens.is_array()) throw unexpected("tokens", "a list of token ids", tokens);
  if (tokens.size() > most_ids)
    throw ApiError(400, "invalid_request_error", "array_above_max_length", "tokens",
                   "tokens: expected at most {} ids, found {}", most_ids, tokens.size());
  request.tokens = ids_at(tokens, "tokens", uint32_t(rules.tokenizer.size()));
  request.special = fields.flag_or("special", request.special);
  fields.finish();
  return request;
}

}  // namespace heddle::server
