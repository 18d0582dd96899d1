// Unknown fields are refused and not ignored: loading and saving a file loses nothing.
#include "main/chat/conversation.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/template.h"

namespace heddle {
namespace {

constexpr int file_version = 1;

nlohmann::ordered_json message_json(const std::vector<Message>& messages) {
  auto list = nlohmann::ordered_json::array();
  for (const Message& message : messages) {
    const size_t invalid = find_invalid_utf8(message.content);
    if (invalid != std::string::npos)
      throw Error("the {} message: expected UTF-8, found another byte at offset {}", message.role, invalid);
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  return list;
}

// A required text member of a JSON object.
std::string text_of(const Json& object, const char* key, const std::string& where) {
  const auto member = object.find(key);
  if (member == object.end()) throw Error("{}: expected the field {}, found none", where, key);
  if (!member->is_string()) throw Error("{}: {}: expected a text, found {}", where, key, member->type_name());
  return member->get<std::string>();
}

void expect_fields(const Json& object, std::initializer_list<const char*> known, const std::string& where) {
  if (!object.is_object()) throw Error("{}: expected an object, found {}", where, object.type_name());
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw Error("{}: expected the fields {}, found {}", where, fmt::join(known, ", "), in_quotes(key));
}

}  // namespace

int64_t now_in_seconds() { return std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()); }

text::RenderedTemplate chat_prompt(const RunningModel& running, const std::vector<Message>& messages, int64_t now) {
  return chat_prompt(running, ConversationTexts{.messages = message_json(messages).dump()}, now);
}

text::RenderedTemplate chat_prompt(const RunningModel& running, ConversationTexts conversation, int64_t now) {
  if (running.chat_template.empty())
    throw Error("{}: the model has no chat template; heddle run continues a text without one", running.model.name);
  const text::Tokenizer& tokenizer = running.tokenizer();
  text::TemplateInput input;
  input.messages = std::move(conversation.messages);
  input.extra = std::move(conversation.variables);
  if (tokenizer.bos()) input.bos = tokenizer.text(*tokenizer.bos());
  if (tokenizer.eos()) input.eos = tokenizer.text(*tokenizer.eos());
  input.now = now;
  return text::ChatTemplate(running.chat_template).render_ranges(input);
}

std::vector<text::TokenId> chat_ids(const RunningModel& running, const std::vector<Message>& messages, int64_t now,
                                    std::string_view begun, bool parse_special) {
  return chat_ids(running, chat_prompt(running, messages, now), begun, parse_special);
}

std::vector<text::TokenId> chat_ids(const RunningModel& running, const text::RenderedTemplate& prompt,
                                    std::string_view begun, bool parse_special) {
  text::EncodeOptions options{.add_special = false};  // the template adds BOS itself
  if (!parse_special) options.plain = prompt.given;
  return running.tokenizer().encode(prompt.text + std::string(begun), options);
}

void save_conversation(const std::filesystem::path& path, const SavedConversation& conversation) {
  nlohmann::ordered_json file;
  file["version"] = file_version;
  file["model"] = replace_invalid_utf8(conversation.model);
  file["messages"] = message_json(conversation.messages);
  OutputFile out(path);
  out.write(file.dump(2) + "\n");
  out.commit();
}

SavedConversation load_conversation(const std::filesystem::path& path) {
  const std::string where = path.string();
  const Json file = parse_json(MappedFile(path).text(), where);
  expect_fields(file, {"version", "model", "messages"}, where);
  const auto version = file.find("version");
  if (version == file.end() || *version != file_version)
    throw Error("{}: version: expected {}, found {}", where, file_version,
                version == file.end() ? "none" : in_quotes(version->dump()));
  SavedConversation conversation{.model = text_of(file, "model", where)};
  const auto messages = file.find("messages");
  if (messages == file.end() || !messages->is_array())
    throw Error("{}: messages: expected a list, found {}", where,
                messages == file.end() ? "none" : messages->type_name());
  for (const Json& message : *messages) {
    const std::string place = fmt::format("{}: messages[{}]", where, conversation.messages.size());
    expect_fields(message, {"role", "content"}, place);
    Message read{.role = text_of(message, "role", place), .content = text_of(message, "content", place)};
    const bool system = read.role == "system" && conversation.messages.empty();
    if (!system && read.role != "user" && read.role != "assistant")
      throw Error("{}: role: expected user or assistant (or system, in the first), found {}", place,
                  in_quotes(read.role));
    conversation.messages.push_back(std::move(read));
  }
  return conversation;
}

}  // namespace heddle
