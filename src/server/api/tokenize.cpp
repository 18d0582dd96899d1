// Prompts as token ids, and whether they fit into the context; then the two routes.
#include "server/api/tokenize.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "server/api/json.h"
#include "server/api/openai/openai_chat.h"
#include "server/service/service_state.h"

namespace heddle::server {
namespace {

constexpr size_t max_prompts = 2048;

// A tokenizer may know more tokens than the model, and the other way round.
uint32_t known_tokens(const RequestRules& rules) {
  return std::min(uint32_t(rules.tokenizer.size()), rules.vocabulary);
}

Prompt prompt_at(const Json& value, const std::string& place, const RequestRules& rules) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) throw unexpected(place, "a string or a list of token ids", value);
  return token_ids_at(list_at(value, place, SIZE_MAX), place, known_tokens(rules));
}

}  // namespace

std::vector<Prompt> prompts_at(const Json& value, const std::string& place, const RequestRules& rules) {
  std::vector<Prompt> prompts;
  if (!value.is_array() || (!value.empty() && value[0].is_number())) {
    if (!value.is_array() && !value.is_string()) throw unexpected(place, "a string or a list", value);
    prompts.push_back(prompt_at(value, place, rules));
    return prompts;
  }
  for (const Json& one : list_at(value, place, max_prompts))
    prompts.push_back(prompt_at(one, element(place, prompts.size()), rules));
  return prompts;
}

std::vector<text::TokenId> token_ids_at(const Json& list, const std::string& place, uint32_t bound) {
  std::vector<text::TokenId> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    // the name of the element is formatted only for an error: prompts may have 100 000 ids
    if (id.is_number_unsigned() && id.get<uint64_t>() < bound)
      ids.push_back(id.get<text::TokenId>());
    else
      ids.push_back(text::TokenId(whole_at(id, element(place, ids.size()), 0, int64_t(bound) - 1)));
  }
  return ids;
}

std::vector<std::vector<text::TokenId>> encode(const ServedModel& model, const std::vector<Prompt>& prompts,
                                               const std::string& field, std::optional<uint32_t> max_tokens) {
  std::vector<std::vector<text::TokenId>> encoded;
  for (const Prompt& prompt : prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    const std::string place = prompts.size() == 1 ? field : element(field, encoded.size());
    encoded.push_back(text ? encode_within(model, *text, {}, place) : std::get<std::vector<text::TokenId>>(prompt));
    expect_fits(model, place, encoded.back().size(), max_tokens);
  }
  return encoded;
}

// The beginning of a long text has to fit: it is tokenized first, and tells whether the rest is worth it. Where it is
// cut, tokens may differ from those of the whole text, but not by as many as the context has.
std::vector<text::TokenId> encode_within(const ServedModel& model, std::string_view text, text::EncodeOptions options,
                                         const std::string& field) {
  constexpr size_t usual_bytes = 16, slack = 64;  // of a token, with a margin: most have 3 to 5; tokens
  const size_t limit = 2 * size_t(model.context()) + slack;
  for (size_t size = limit * usual_bytes; size < text.size(); size *= 2) {
    size_t end = size;
    while (end > 0 && (uint8_t(text[end]) & 0xc0) == 0x80) --end;  // at the beginning of a character
    if (model.tokenizer().encode(text.substr(0, end), options).size() > limit)
      throw ApiError(400, "context_length_exceeded", field,
                     "This model's maximum context length is {} tokens. However, the prompt has more than {} tokens: "
                     "please shorten it.",
                     model.context(), limit - slack);
  }
  return model.tokenizer().encode(text, options);
}

void expect_fits(const ServedModel& model, const std::string& field, size_t prompt,
                 std::optional<uint32_t> max_tokens) {
  if (prompt == 0) throw bad_field(field, "{}: expected at least one token, found none", field);
  const uint64_t context = model.context();
  if (prompt + (max_tokens == 0 ? 0 : 1) <= context) return;
  throw context_exceeded(field, prompt, model.context());
}

namespace {

constexpr size_t max_content = 1u << 20;  // bytes
constexpr size_t max_tokens = 1u << 18;

// A token's bytes as a string, or as a list of numbers where they are not UTF-8.
void append_piece(std::string& out, std::string_view bytes) {
  if (is_utf8(bytes)) return append_json(out, bytes);
  for (size_t i = 0; i < bytes.size(); ++i)
    fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "[" : ",", uint8_t(bytes[i]));
  out += "]";
}

}  // namespace

TokenizeRequest read_tokenize(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json, rules.ignored);
  TokenizeRequest request;
  request.model = fields.text("model").value_or("");
  request.is_vllm = json.contains("prompt") && !json.contains("content");
  const std::string field = request.is_vllm ? "prompt" : "content";
  request.content = text_at(fields.at(request.is_vllm ? "prompt" : "content"), field);
  if (request.content.size() > max_content)
    throw ApiError(400, "string_above_max_length", field, "{}: expected at most {} bytes, found {}", field, max_content,
                   request.content.size());
  if (request.is_vllm) {
    request.add_special = fields.flag_or("add_special_tokens", true);
    request.return_strings = fields.flag_or("return_token_strs", false);
  } else {
    request.add_special = fields.flag_or("add_special", request.add_special);
    request.parse_special = fields.flag_or("parse_special", request.parse_special);
    request.with_pieces = fields.flag_or("with_pieces", request.with_pieces);
  }
  fields.finish();
  return request;
}

DetokenizeRequest read_detokenize(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json, rules.ignored);
  DetokenizeRequest request;
  request.model = fields.text("model").value_or("");
  const Json& tokens = fields.at("tokens");
  if (!tokens.is_array()) throw unexpected("tokens", "a list of token ids", tokens);
  if (tokens.size() > max_tokens)
    throw ApiError(400, "array_above_max_length", "tokens", "tokens: expected at most {} ids, found {}", max_tokens,
                   tokens.size());
  request.tokens = token_ids_at(tokens, "tokens", uint32_t(rules.tokenizer.size()));
  request.special = fields.flag_or("special", request.special);
  fields.finish();
  return request;
}

namespace {

// vLLM's response.
void send_tokens(const Call& call, const std::vector<text::TokenId>& ids, bool return_strings) {
  std::string out = R"({"count":)";
  append_json(out, uint64_t(ids.size()));
  out += R"(,"max_model_len":)";
  append_json(out, uint64_t(call.model->context()));
  out += R"(,"tokens":)";
  append_json_list(out, ids, [&](text::TokenId id) { append_json(out, uint64_t(id)); });
  out += R"(,"token_strs":)";
  if (return_strings)
    append_json_list(out, ids, [&](text::TokenId id) { append_json(out, call.model->tokenizer().text(id)); });
  else
    out += "null";
  call.exchange->send_json(out += "}");
}

struct ChatTokenizeRequest {
  OpenAiChatRequest chat;
  bool return_strings = false;
};

}  // namespace

void tokenize(const Call& call) {
  const auto read = call.read(
      [](std::string_view body, const RequestRules& rules) -> std::variant<TokenizeRequest, ChatTokenizeRequest> {
        const Json json = parse_body(body);
        if (!json.is_object() || !json.contains("messages")) return read_tokenize(body, rules);
        ChatTokenizeRequest request;
        request.chat = read_template_and(
            body, rules, [&](Fields& fields) { request.return_strings = fields.flag_or("return_token_strs", false); });
        return request;
      });
  if (const auto* chat = std::get_if<ChatTokenizeRequest>(&read)) {
    call.expect_model(chat->chat.model);
    return send_tokens(call, render_chat(call, chat->chat, nullptr).tokens, chat->return_strings);
  }
  const auto& request = std::get<TokenizeRequest>(read);
  call.expect_model(request.model);
  const text::Tokenizer& tokenizer = call.model->tokenizer();
  if (request.is_vllm)
    return send_tokens(call, tokenizer.encode(request.content, {.add_special = request.add_special}),
                       request.return_strings);
  std::string out = R"({"tokens":[)";
  const size_t empty = out.size();
  for (const text::TokenId id : tokenizer.encode(
           request.content, {.add_special = request.add_special, .parse_special = request.parse_special})) {
    if (out.size() > empty) out += ',';
    if (!request.with_pieces) {
      append_json(out, uint64_t(id));
      continue;
    }
    out += R"({"id":)";
    append_json(out, uint64_t(id));
    out += R"(,"piece":)";
    append_piece(out, tokenizer.bytes(id));
    out += "}";
  }
  call.exchange->send_json(out += "]}");
}

void detokenize(const Call& call) {
  const DetokenizeRequest request = call.read(read_detokenize);
  call.expect_model(request.model);
  std::string text, out = R"({"content":)";
  append_json(text, call.model->tokenizer().decode(request.tokens, request.special));
  out.append(text).append(R"(,"prompt":)").append(text);  // llama.cpp's name for it, and vLLM's
  call.exchange->send_json(out += "}");
}

}  // namespace heddle::server
