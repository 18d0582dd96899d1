// The handlers of Anthropic's API, and its errors.
#include "server/api/anthropic/anthropic.h"

#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "server/api/json.h"
#include "server/service/service_state.h"
#include "server/status/status.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

std::string_view anthropic_type(unsigned status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 500:
      return "api_error";
    case 503:
      return "overloaded_error";
    default:
      return "invalid_request_error";
  }
}

Ordered anthropic_model(const ListedModel& model) {
  const std::string name = replace_invalid_utf8(model.card.name);
  return {{"type", "model"},
          {"id", name},
          {"display_name", name},
          {"created_at",
           iso_time(std::chrono::system_clock::from_time_t(model.created ? model.created : model.card.facts.modified))},
          {"max_input_tokens", model.card.context},
          {"max_tokens", model.card.context},
          {"capabilities", nullptr},
          {"lifecycle", "active"},
          {"line", nullptr},
          {"deprecated_at", nullptr},
          {"retires_at", nullptr}};
}

}  // namespace

std::string anthropic_error(const ApiError& error) {
  std::string out = fmt::format(R"({{"type":"error","error":{{"type":"{}","message":)", anthropic_type(error.status));
  // by these words clients know that the conversation has to be shortened
  if (error.excess)
    append_json(out,
                fmt::format("prompt is too long: {} tokens > {} maximum", error.excess->prompt, error.excess->context));
  else
    append_json(out, std::string_view(error.what()));
  out += R"(},"request_id":)";
  if (error.request_id.empty())
    out += "null";
  else
    append_json(out, error.request_id);
  return out += "}";
}

void create_message(const Call& call) {
  PreparationTimer timer(*call.exchange);
  MessageRequest request = call.read(read_create_message);
  generate_chat(call, request, timer, [&](const GenerationRequest& generation, const ChatReply& reply) {
    return std::make_unique<MessageWriter>(*call.exchange, MessageHead{random_id("msg_"), call.model->card().name},
                                           request.options, generation, reply);
  });
}

void count_message_tokens(const Call& call) {
  const MessageRequest request = call.read(read_count_tokens);
  call.expect_model(request.model);
  call.exchange->send_json(fmt::format(R"({{"input_tokens":{}}})", render_chat(call, request, nullptr).tokens.size()));
}

void list_anthropic_models(const Call& call) {
  Ordered all = Ordered::array();
  for (const ListedModel& model : call.service.models().list()) all.push_back(anthropic_model(model));
  const Ordered list{
      {"data", all}, {"has_more", false}, {"first_id", all.front()["id"]}, {"last_id", all.back()["id"]}};
  call.exchange->send_json(list.dump());
}

void show_anthropic_model(const Call& call) { call.exchange->send_json(anthropic_model(model_in_path(call)).dump()); }

}  // namespace heddle::server
