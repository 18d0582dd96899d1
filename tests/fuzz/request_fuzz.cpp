// Bodies of requests: read or refused with a 400 that is valid JSON itself, and what is read is within its bounds.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"
#include "server/api/anthropic/anthropic.h"
#include "server/api/api_error.h"
#include "server/api/completions/completions.h"
#include "server/api/embeddings.h"
#include "server/api/llama_cpp/llama_completion.h"
#include "server/api/openai/openai_chat.h"
#include "server/api/tokenize.h"
#include "tests/fuzz/target.h"
#include "tests/text/small_vocabulary.h"

namespace heddle {
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
void require_generation(const server::GenerationRequest& generation, const server::StreamOptions& options,
                        uint32_t vocabulary) {
  engine::validate(generation.sampling, vocabulary);
  require_ids(generation.stop_tokens, vocabulary);
  require(generation.n >= 1 && generation.best_of >= generation.n);
  require(options.stream || !options.include_usage);
  for (const std::string& stop : generation.stop_strings) require(!stop.empty());
}
void require_chat(const server::ChatRequest& request) {
  const Json messages = parse_json(request.conversation.messages, "messages");
  require(messages.is_array() && !messages.empty());
  for (const Json& message : messages) require(message["role"].is_string() && message["content"].is_string());
  const std::string& variables = request.conversation.variables;
  if (!variables.empty()) require(parse_json(variables, "variables").is_object());
}

void require_message(const server::MessageRequest& request, const server::RequestRules& rules) {
  const Json messages = parse_json(request.conversation.messages, "messages");
  require(messages.is_array() && !messages.empty());
  for (const Json& message : messages)
    require(message["role"].is_string() && (message["content"].is_string() || message.contains("tool_calls")));
  require_generation(request.generation, {}, rules.vocabulary);
}

void read(uint8_t what, std::string_view body, const server::RequestRules& rules) {
  switch (what % 16) {
    case 0: {
      const auto request = server::read_chat(body, rules);
      require_chat(request);
      return require_generation(request.generation, request.stream, rules.vocabulary);
    }
    case 1:
      return require_chat(server::read_template(body, rules));
    case 2: {
      const auto request = server::read_completion(body, rules);
      require_prompts(request.prompts, rules.vocabulary);
      return require_generation(request.generation, request.stream, rules.vocabulary);
    }
    case 3:
      return require_prompts(server::read_embedding(body, rules).inputs, rules.vocabulary);
    case 4:
      server::read_tokenize(body, rules);
      return;
    case 6: {
      const auto request = server::read_llama_completion(body, rules);
      require(!request.prompts.empty());
      for (const auto& prompt : request.prompts) server::encode_mixed(rules.tokenizer, prompt);
      return require_generation(request.generation, {}, rules.vocabulary);
    }
    case 7: {
      const auto request = server::read_infill(body, rules);
      require(request.completion.prompts.size() == 1);
      return require_generation(request.completion.generation, {}, rules.vocabulary);
    }
    case 8:
      return require_message(server::read_create_message(body, rules), rules);
    case 9:
      return require_message(server::read_count_tokens(body, rules), rules);
    default:
      require_ids(server::read_detokenize(body, rules).tokens, uint32_t(rules.tokenizer.size()));
  }
}

}  // namespace

// The first byte says which request it is.
FUZZ_TARGET(request) {
  static const text::Tokenizer tokenizer = text::Tokenizer::from_vocabulary(test::byte_level_vocabulary());
  if (size == 0) return 0;
  try {
    read(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1}, {tokenizer, 260});
  } catch (const server::ApiError& error) {
    require(error.status == 400);
    require(parse_json(server::openai_error(error), "error")["error"]["message"].is_string());
    require(parse_json(server::anthropic_error(error), "error")["error"]["message"].is_string());
  }
  return 0;
}

}  // namespace heddle
