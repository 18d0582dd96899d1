// Chat templates and the tokens with a meaning in a chat.
#include "server/service/served_model.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "chat/conversation.h"
#include "chat/detect.h"
#include "server/api/json.h"

namespace heddle::server {

int64_t unix_time() { return std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()); }

ServedModel::ServedModel(Served served)
    : served_(std::move(served)),
      constraints_(std::make_unique<Constraints>(served_.tokenizer, served_.card.vocabulary)),
      created_(unix_time()) {
  if (served_.card.chat_template.empty()) {
    no_template_ = "the model has no chat template: use /v1/completions";
    return;
  }
  try {
    template_.emplace(served_.card.chat_template);
    chat_format_ =
        std::make_shared<const chat::ChatFormat>(chat::detect_format(*template_, served_.card.chat_template));
  } catch (const Error& error) {  // completions work all the same
    no_template_ = fmt::format("the model's chat template cannot be used: {}", error.what());
  }
}

namespace {

// Cuts what the template writes behind the content of the last message, so that the answer goes on with it.
void end_within_last(const Conversation& conversation, text::RenderedTemplate& prompt) {
  const Json messages = Json::parse(conversation.messages);
  const Json& last = messages.back();
  const std::string place = element(conversation.field, messages.size() - 1);
  if (last["role"] != "assistant" || !last.contains("content") || !last["content"].is_string() ||
      last.contains("tool_calls"))
    throw bad_field("continue_final_message", "continue_final_message: expected a text of the assistant at {}", place);
  const auto& whole = last["content"].get_ref<const std::string&>();
  constexpr std::string_view blank = " \t\r\n";
  const size_t begin = std::min(whole.find_first_not_of(blank), whole.size());
  // templates often strip a text, so that the blanks around it may not be there
  const std::string content = whole.substr(begin, whole.find_last_not_of(blank) + 1 - begin);
  if (content.empty())
    throw bad_field("continue_final_message", "continue_final_message: expected a text at {}, found none", place);
  const size_t at = prompt.text.rfind(content), end = at + content.size();
  const auto holds = [&](const text::TextRange& range) { return range.begin <= at && end <= range.end; };
  if (at == prompt.text.npos || std::ranges::none_of(prompt.given, holds))
    throw bad_field("continue_final_message",
                    "continue_final_message: the model's chat template does not write the text of {} as it is", place);
  size_t kept = end;  // with the blanks, where they are
  for (size_t i = whole.find_last_not_of(blank) + 1; i < whole.size() && prompt.text[kept] == whole[i]; ++i) ++kept;
  text::TextRanges given;
  text::add_ranges(given, prompt.given, 0, kept, 0);
  prompt.given = std::move(given);
  prompt.text.resize(kept);
}

}  // namespace

RenderedChat ServedModel::render(const Conversation& conversation) const {
  if (!template_) throw bad_field(conversation.field, "{}", no_template_);
  const auto text_of = [&](std::optional<text::TokenId> id) {
    return id ? std::string(tokenizer().text(*id)) : std::string();
  };
  try {
    chat::PreparedConversation prepared = chat::prepare(chat_format_, {.messages = conversation.messages,
                                                                       .tools = conversation.tools,
                                                                       .variables = conversation.variables,
                                                                       .effort = conversation.effort});
    text::RenderedTemplate prompt = template_->render_ranges(
        {.messages = std::move(prepared.messages),
         .tools = std::move(prepared.tools),
         .extra = std::move(prepared.variables),
         .bos = text_of(tokenizer().bos()),
         .eos = text_of(tokenizer().eos()),
         .add_generation_prompt = conversation.add_generation_prompt && !conversation.continues_last,
         .now = unix_time()});
    if (conversation.continues_last) end_within_last(conversation, prompt);
    return {std::move(prompt.text), std::move(prompt.given), std::move(prepared.format)};
  } catch (const ApiError&) {
    throw;
  } catch (const text::TemplateRefused& error) {
    throw bad_field(conversation.field, "the model's chat template refuses: {}", error.what());
  } catch (const Error& error) {
    throw bad_field(conversation.field, "the model's chat template failed: {}", error.what());
  }
}

ChatTokens ServedModel::chat_tokens(const chat::ChatFormat& format, bool calls) const {
  ChatTokens tokens;
  tokens.ends = tokenizer().end_tokens();
  const std::vector<std::string> marks = format.marks();
  const auto is_mark = [&](std::string_view text) {
    return std::any_of(marks.begin(), marks.end(),
                       [&](const std::string& mark) { return mark.find(text) != mark.npos; });
  };
  for (text::TokenId id = 0; id < tokenizer().size() && !marks.empty(); ++id)
    if (tokenizer().is_special(id) && !tokenizer().bytes(id).empty() && is_mark(tokenizer().bytes(id)))
      tokens.shown.push_back(id);
  if (format.calls.kind == chat::CallFormat::Kind::harmony)  // ends a message, of which an answer may have several
    std::erase_if(tokens.ends, [&](text::TokenId id) { return tokenizer().bytes(id) == "<|end|>"; });
  if (calls)
    for (const std::string& text : format.calls.end_tokens)
      if (const auto id = tokenizer().find(text)) tokens.ends.push_back(*id);
  return tokens;
}

}  // namespace heddle::server
