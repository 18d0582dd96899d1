// A random conversation, read in one of four dialects and written by the template of a model: it is rendered, or
// refused with an error that says why. The first byte says which dialect, the others make the conversation, and all
// together say which template: a mutation of one finds another. The templates are those of the tests and, where the
// reference data is there, those that models have.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "chat/constrain.h"
#include "chat/conversation.h"
#include "chat/detect.h"
#include "server/api/anthropic/anthropic.h"
#include "server/api/ollama/ollama.h"
#include "server/api/openai/openai_chat.h"
#include "server/api/responses/responses.h"
#include "tests/fuzz/conversation_input.h"
#include "tests/fuzz/target.h"
#include "tests/support/shared_data.h"
#include "tests/text/small_vocabulary.h"
#include "text/template.h"

namespace heddle {
namespace {

struct ModelTemplate {
  text::ChatTemplate text;
  std::shared_ptr<const chat::ChatFormat> format;
};

std::vector<ModelTemplate> model_templates() {
  std::vector<std::string> sources;
  std::ifstream families(HEDDLE_SOURCE_DIR "/tests/chat/fixtures/families.json");
  for (const auto& family : nlohmann::json::parse(families)) sources.push_back(family["template"]);
  if (const auto folder = test::shared_data("templates/llama.cpp-templates")) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(*folder))
      if (entry.path().extension() == ".jinja") paths.push_back(entry.path());
    std::ranges::sort(paths);
    for (const auto& path : paths) {
      std::ifstream file(path);
      sources.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  } else {
    std::fputs("conversation: the templates of models are not tried: they need the reference data\n", stderr);
  }
  std::vector<ModelTemplate> all;
  for (const std::string& source : sources) try {
      text::ChatTemplate chat_template(source);
      auto format = std::make_shared<const chat::ChatFormat>(chat::detect_format(chat_template, source));
      all.push_back({std::move(chat_template), std::move(format)});
    } catch (const Error&) {  // a template that heddle does not take
    }
  return all;
}

server::ChatRequest read_conversation(uint8_t dialect, const std::string& body, const server::RequestRules& rules) {
  static const server::ResponseStore store({});
  switch (dialect % 4) {
    case 0:
      return server::read_chat(body, rules);
    case 1:
      return server::read_create_message(body, rules);
    case 2:
      return server::read_response(body, rules, store);
    default:
      return server::read_ollama_chat(body, rules);
  }
}

void render(const ModelTemplate& model, const server::ChatRequest& request, bool constrains) {
  const server::Conversation conversation = server::conversation_of(request);
  if (conversation.messages.empty()) return;  // Ollama's request that only loads the model
  const chat::PreparedConversation ready = chat::prepare(model.format, {.messages = conversation.messages,
                                                                        .tools = conversation.tools,
                                                                        .variables = conversation.variables,
                                                                        .effort = conversation.effort});
  const text::RenderedTemplate prompt = model.text.render_ranges({.messages = ready.messages,
                                                                  .tools = ready.tools,
                                                                  .extra = ready.variables,
                                                                  .bos = "<s>",
                                                                  .eos = "</s>",
                                                                  .now = 1767225600});
  if (constrains && request.tools)
    chat::answer_grammar(*ready.format, *request.tools.tools,
                         {.in_thought = chat::opens_thought(ready.format->thought, prompt.text)});
}

}  // namespace

FUZZ_TARGET(conversation) {
  static const text::Tokenizer tokenizer = text::Tokenizer::from_vocabulary(test::byte_level_vocabulary());
  static const std::vector<ModelTemplate> templates = model_templates();
  fuzz::Choices choices(data, size);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const ModelTemplate& model = templates[std::hash<std::string_view>()(bytes) % templates.size()];
  const uint8_t dialect = choices.next();
  const std::string body = fuzz::conversation(dialect, choices);
  server::IgnoredFields ignored;
  try {
    render(model, read_conversation(dialect, body, {tokenizer, 260, &ignored}), choices.below(16) == 0);
  } catch (const server::ApiError& error) {
    if (error.status != 400) std::abort();
  } catch (const Error&) {  // of the template: ServedModel::render makes it a 400
  }
  return 0;
}

}  // namespace heddle
