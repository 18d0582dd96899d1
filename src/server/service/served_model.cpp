#include "server/service/served_model.h"

#include "server/service/refusals.h"

namespace heddle::server {

int64_t unix_time() { return std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()); }

ServedModel::ServedModel(Served served) : served_(std::move(served)), created_(unix_time()) {
  if (served_.chat_template.empty()) {
    no_chat_ = "the model has no chat template: use /v1/completions";
    return;
  }
  try {
    chat_.emplace(served_.chat_template);
  } catch (const Error& error) {  // texts can be completed all the same
    no_chat_ = fmt::format("the model's chat template cannot be used: {}", error.what());
  }
}

void ServedModel::expect_named(const std::string& name) const {
  if (!name.empty() && name != served_.name) throw model_not_found(name, served_.name);
}

std::string ServedModel::render(const ChatRequest& request) const {
  if (!chat_) throw bad_field("messages", "{}", no_chat_);
  const auto text_of = [&](std::optional<text::TokenId> id) {
    return id ? std::string(tokenizer().text(*id)) : std::string();
  };
  try {
    return chat_->render({.messages = request.messages,
                          .extra = request.extra,
                          .bos = text_of(tokenizer().bos()),
                          .eos = text_of(tokenizer().eos()),
                          .add_generation_prompt = request.add_generation_prompt,
                          .now = unix_time()});
  } catch (const text::TemplateRefused& error) {
    throw bad_field("messages", "the model's chat template refuses: {}", error.what());
  } catch (const Error& error) {
    throw bad_field("messages", "the model's chat template failed: {}", error.what());
  }
}

}  // namespace heddle::server
