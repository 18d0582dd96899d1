// Bodies of POST /v1/responses, beside a store with a response: read or refused with a 400 that is valid JSON itself.
// What is read can be rendered and kept, its oldest messages can be left out, and its items are read again as they were
// kept.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"
#include "server/api/responses/responses.h"
#include "tests/fuzz/target.h"
#include "tests/text/small_vocabulary.h"

namespace heddle {
namespace {

void require_kept(bool condition) {
  if (!condition) std::abort();
}

void expect_messages(const std::string& messages) {
  for (const Json& message : parse_json(messages, "messages")) {
    require_kept(message["role"].is_string());
    require_kept(message["content"].is_string() || (message["role"] == "assistant" && message.contains("tool_calls")));
  }
}

void expect_response(const server::ResponsesRequest& request, const server::RequestRules& rules) {
  expect_messages(request.conversation.messages);
  engine::validate(request.generation.sampling, rules.vocabulary);
  require_kept(parse_json(request.response.dump(), "response").is_object());
  if (request.tools) require_kept(parse_json(request.tools.json, "tools").is_array());
  for (const size_t count : {size_t(0), size_t(2), request.messages.size()})
    expect_messages(server::prompt_messages(request.instructions, server::without_oldest(request.messages, count)));
  server::ResponseStore store({});
  std::string references;
  for (const server::ResponseItem& item : request.input.items) {
    require_kept(parse_json(item.json, "item")["id"] == item.id);
    references += (references.empty() ? "" : ",") + nlohmann::json{{"id", item.id}}.dump();
  }
  const bool has_messages = !request.input.messages.empty();
  store.add({.id = "again", .json = "{}", .input = request.input.items, .output = {}, .messages = "[]"});
  if (!has_messages) return;  // thoughts without text
  try {
    server::read_response("{\"input\":[" + references + "]}", rules, store);
  } catch (const server::ApiError&) {
    std::abort();
  }
}

}  // namespace

FUZZ_TARGET(response) {
  static const text::Tokenizer tokenizer = text::Tokenizer::from_vocabulary(test::byte_level_vocabulary());
  static const server::ResponseStore& store = []() -> const server::ResponseStore& {
    static server::ResponseStore with({});
    with.add({.id = "resp_1",
              .json = "{}",
              .input = {{"msg_1", R"({"id":"msg_1","type":"message","role":"user","content":"x"})"}},
              .output = {},
              .messages = R"([{"role":"user","content":"x"}])"});
    return with;
  }();
  server::IgnoredFields ignored;
  const server::RequestRules rules{tokenizer, 260, size % 2 == 0 ? &ignored : nullptr};
  try {
    expect_response(server::read_response({reinterpret_cast<const char*>(data), size}, rules, store), rules);
  } catch (const server::ApiError& error) {
    require_kept(error.status == 400);
    require_kept(parse_json(server::openai_error(error), "error")["error"]["message"].is_string());
  }
  return 0;
}

}  // namespace heddle
