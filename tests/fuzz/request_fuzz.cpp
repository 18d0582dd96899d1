// Bodies of requests: read or refused with a 400 that is valid JSON itself, and what is read is within its bounds.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"
#include "server/api/api_error.h"
#include "server/api/requests.h"
#include "tests/text/small_vocabulary.h"

using namespace heddle;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void require_ids(const std::vector<uint32_t>& ids, uint32_t bound) {
  require(std::all_of(ids.begin(), ids.end(), [bound](uint32_t id) { return id < bound; }));
}
void require_prompts(const std::vector<server::Prompt>& prompts, uint32_t bound) {
  require(!prompts.empty());
  for (const server::Prompt& prompt : prompts)
    if (const auto* ids = std::get_if<std::vector<text::TokenId>>(&prompt)) {
      require(!ids->empty());
      require_ids(*ids, bound);
    }
}
void require_generation(const server::Generation& generation, uint32_t vocabulary) {
  engine::validate(generation.sampling, vocabulary);
  require_ids(generation.stop_ids, vocabulary);
  require(generation.n >= 1 && (generation.stream || !generation.include_usage));
  for (const std::string& stop : generation.stops) require(!stop.empty());
}
void require_chat(const server::ChatRequest& request) {
  const Json messages = parse_json(request.messages, "messages");
  require(messages.is_array() && !messages.empty());
  for (const Json& message : messages) require(message["role"].is_string() && message["content"].is_string());
  if (!request.extra.empty()) require(parse_json(request.extra, "extra").is_object());
}

void read(uint8_t what, std::string_view body, const server::RequestRules& rules) {
  switch (what % 6) {
    case 0: {
      const auto request = server::chat_request(body, rules);
      require_chat(request);
      return require_generation(request.generation, rules.vocabulary);
    }
    case 1:
      return require_chat(server::template_request(body, rules));
    case 2: {
      const auto request = server::completion_request(body, rules);
      require_prompts(request.prompts, rules.vocabulary);
      require(request.best_of >= request.generation.n);
      return require_generation(request.generation, rules.vocabulary);
    }
    case 3:
      return require_prompts(server::embedding_request(body, rules).inputs, rules.vocabulary);
    case 4:
      server::tokenize_request(body, rules);
      return;
    default:
      require_ids(server::detokenize_request(body, rules).tokens, uint32_t(rules.tokenizer.size()));
  }
}

}  // namespace

// The first byte says which request it is.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const text::Tokenizer tokenizer = text::Tokenizer::from_vocabulary(test::byte_level_vocabulary());
  if (size == 0) return 0;
  try {
    read(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1}, {tokenizer, 260});
  } catch (const server::ApiError& error) {
    require(error.status == 400);
    require(parse_json(server::error_json(error), "error")["error"]["message"].is_string());
  }
  return 0;
}
