#include "server/api/chat/chat.h"

#include "server/api/chat/chat_writer.h"
#include "server/api/json_text.h"
#include "server/api/prompts.h"
#include "server/service/call.h"
#include "server/service/generation_job.h"

namespace heddle::server {

void chat_completions(const Call& call) {
  PreparationTimer timer(*call.exchange);
  ChatRequest request = call.read(read_chat);
  call.expect_model(request.model);
  timer.parsed();
  const std::string prompt = call.model->render(request.conversation);
  timer.rendered();
  // the template writes BOS itself
  request.generation.prompts.push_back(call.model->tokenizer().encode(prompt, {.add_special = false}));
  timer.encoded();
  expect_fits(*call.model, "messages", request.generation.prompts[0].size(), request.generation.max_tokens);
  auto writer = std::make_unique<ChatWriter>(*call.exchange, openai_head("chatcmpl-", *call.model), request.stream,
                                             request.generation);
  generate(call, std::move(request.generation), std::move(writer), timer.times());
}

void apply_template(const Call& call) {
  const ChatRequest request = call.read(read_template);
  call.expect_model(request.model);
  std::string out = R"({"prompt":)";
  append_json(out, call.model->render(request.conversation));
  call.exchange->send_json(out += "}");
}

}  // namespace heddle::server
