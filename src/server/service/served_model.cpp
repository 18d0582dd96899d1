#include "server/service/served_model.h"

#include <chrono>

namespace heddle::server {

int64_t unix_time() { return std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()); }

ServedModel::ServedModel(Served served) : served_(std::move(served)), created_(unix_time()) {
  if (served_.chat_template.empty()) {
    no_template_ = "the model has no chat template: use /v1/completions";
    return;
  }
  try {
    template_.emplace(served_.chat_template);
  } catch (const Error& error) {  // completions work all the same
    no_template_ = fmt::format("the model's chat template cannot be used: {}", error.what());
  }
}

std::string ServedModel::render(const Conversation& conversation) const {
  if (!template_) throw bad_field(conversation.field, "{}", no_template_);
  const auto text_of = [&](std::optional<text::TokenId> id) {
    return id ? std::string(tokenizer().text(*id)) : std::string();
  };
  try {
    return template_->render({.messages = conversation.messages,
                              .extra = conversation.variables,
                              .bos = text_of(tokenizer().bos()),
                              .eos = text_of(tokenizer().eos()),
                              .add_generation_prompt = conversation.add_generation_prompt,
                              .now = unix_time()});
  } catch (const text::TemplateRefused& error) {
    throw bad_field(conversation.field, "the model's chat template refuses: {}", error.what());
  } catch (const Error& error) {
    throw bad_field(conversation.field, "the model's chat template failed: {}", error.what());
  }
}

}  // namespace heddle::server
