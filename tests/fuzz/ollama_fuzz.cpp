// Bodies of Ollama's requests: read or refused with a 400 in its form, and what is read is within its bounds.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"
#include "server/api/api_error.h"
#include "server/api/json.h"
#include "server/api/ollama/ollama.h"
#include "tests/fuzz/target.h"
#include "tests/text/small_vocabulary.h"

namespace heddle {
namespace {

void expect(bool condition) {
  if (!condition) std::abort();
}

void expect_request(const server::OllamaRequest& request, const server::RequestRules& rules) {
  engine::validate(request.generation.sampling, rules.vocabulary);
  expect(request.generation.n == 1);
  for (const std::string& stop : request.generation.stop_strings) expect(!stop.empty());
  if (request.raw) expect(!request.raw->empty() || !request.loads.empty());
  if (!request.loads.empty()) return;
  const Json messages = parse_json(request.conversation.messages, "messages");
  expect(messages.is_array() && !messages.empty());
  for (const Json& message : messages) {
    expect(message["role"].is_string() && message["content"].is_string());
    if (!message.contains("tool_calls")) continue;
    for (const Json& call : message["tool_calls"]) {
      expect(call["id"].is_string() && !call["id"].get<std::string>().empty());
      expect(call["function"]["name"].is_string() && call["function"]["arguments"].is_object());
    }
  }
}

void read_ollama(uint8_t what, std::string_view body, const server::RequestRules& rules) {
  switch (what % 5) {
    case 0:
      return expect_request(server::read_ollama_chat(body, rules), rules);
    case 1:
      return expect_request(server::read_ollama_generate(body, rules), rules);
    case 2:
      server::read_ollama_embed(body, rules);
      return;
    case 3:
      expect(server::read_ollama_embeddings(body, rules).inputs.size() <= 1);
      return;
    default:
      expect(!server::read_ollama_model(body, rules.ignored).model.empty());
  }
}

}  // namespace

// The first byte says which request it is, and whether the server is strict.
FUZZ_TARGET(ollama) {
  static const text::Tokenizer tokenizer = text::Tokenizer::from_vocabulary(test::byte_level_vocabulary());
  if (size == 0) return 0;
  server::IgnoredFields ignored;
  const bool is_strict = data[0] & 0x80;
  try {
    read_ollama(data[0] & 0x7f, {reinterpret_cast<const char*>(data) + 1, size - 1},
                {tokenizer, 260, is_strict ? nullptr : &ignored});
  } catch (const server::ApiError& error) {
    expect(error.status == 400);
    expect(parse_json(server::ollama_error(error), "error")["error"].is_string());
  }
  for (const std::string& name : ignored.names())
    for (const char c : name) expect(c > ' ' && c <= '~');  // it is sent in a header
  return 0;
}

}  // namespace heddle
