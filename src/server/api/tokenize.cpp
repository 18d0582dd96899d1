#include "server/api/tokenize.h"

#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "server/api/fields.h"
#include "server/api/json_text.h"
#include "server/api/prompts.h"
#include "server/service/routes.h"

namespace heddle::server {
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

TokenizeRequest read_tokenize(std::string_view body, const RequestRules&) {
  const Json json = parse_body(body);
  Fields fields(json);
  TokenizeRequest request;
  request.content = text_at(fields.at("content"), "content");
  if (request.content.size() > max_content)
    throw ApiError(400, "string_above_max_length", "content", "content: expected at most {} bytes, found {}",
                   max_content, request.content.size());
  request.add_special = fields.flag_or("add_special", request.add_special);
  request.parse_special = fields.flag_or("parse_special", request.parse_special);
  request.with_pieces = fields.flag_or("with_pieces", request.with_pieces);
  fields.finish();
  return request;
}

DetokenizeRequest read_detokenize(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json);
  DetokenizeRequest request;
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

void tokenize(const Call& call) {
  const TokenizeRequest request = call.read(read_tokenize);
  const text::Tokenizer& tokenizer = call.model->tokenizer();
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
  std::string out = R"({"content":)";
  append_json(out, call.model->tokenizer().decode(request.tokens, request.special));
  call.exchange->send_json(out += "}");
}

}  // namespace heddle::server
