// The routes of a service, and those of them that are answered at once: its health, and what it has to say of itself.
#include <array>

#include "base/error.h"
#include "server/api/json_text.h"
#include "server/service/refusals.h"
#include "server/service/service_state.h"
#include "server/status/metrics_page.h"
#include "server/status/model_pages.h"

namespace heddle::server {
namespace {

constexpr std::string_view models_path = "/v1/models/";

void send_health(Exchange& exchange, std::string_view word, std::string_view reason = {}) {
  HttpResponse response{.body = "{\"status\":"};
  append_json(response.body, word);
  if (!reason.empty()) {
    response.body += ",\"reason\":";
    append_json(response.body, reason);
  }
  response.body += "}";
  if (word != "ok") {
    response.status = 503;
    response.headers.push_back({"Retry-After", "5"});
  }
  exchange.send(std::move(response));
}

// "a%2Fb": names of models have slashes, and clients escape them.
std::string unescaped(std::string_view text) {
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    c = char(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool escape = text[at] == '%' && at + 2 < text.size() && digit(text[at + 1]) >= 0 && digit(text[at + 2]) >= 0;
    out += escape ? char(digit(text[at + 1]) * 16 + digit(text[at + 2])) : text[at];
    if (escape) at += 2;
  }
  return out;
}

}  // namespace

std::span<const Service::State::Route> Service::State::routes() {
  constexpr auto page = [](std::string_view path, Page its_page) { return Route{.path = path, .page = its_page}; };
  constexpr auto for_all = [](std::string_view path, Page its_page) {
    return Route{.path = path, .for_all = true, .page = its_page};
  };
  constexpr auto words = [](std::string_view path, MakeCall its_call) {
    return Route{.method = "POST", .path = path, .call = its_call};
  };
  constexpr auto work = [](std::string_view path, MakeCall its_call) {
    return Route{.method = "POST", .path = path, .call = its_call, .new_work = true};
  };
  constexpr auto traced = [](std::string_view path, MakeCall its_call) {
    return Route{.method = "POST", .path = path, .call = its_call, .new_work = true, .traced = true};
  };
  static constexpr std::array all{
      traced("/v1/chat/completions", chat_call),
      traced("/v1/completions", completion_call),
      work("/v1/embeddings", embedding_call),
      words("/tokenize", tokenize_call),
      words("/detokenize", detokenize_call),
      words("/apply-template", template_call),
      page("/v1/models", &State::models_page),
      page(models_path, &State::one_model_page),
      page("/v1/effective-config", &State::config_page),
      page("/metrics", &State::metrics_page),
      for_all("/health/live", &State::live_page),
      for_all("/health/ready", &State::ready_page),
      for_all("/health", &State::ready_page),
  };
  return all;
}

void Service::State::live_page(Exchange& exchange) const { send_health(exchange, "ok"); }

void Service::State::ready_page(Exchange& exchange) const {
  bool draining;
  std::shared_ptr<const ServedModel> served;
  {
    const std::lock_guard lock(mutex_);
    draining = draining_;
    served = model_;
  }
  if (const std::string failure = served ? served->engine().stopped() : ""; !failure.empty())
    return send_health(exchange, "failed", failure);
  if (draining) return send_health(exchange, "draining");
  if (!served) return send_health(exchange, "loading");
  send_health(exchange, "ok");
}

void Service::State::models_page(Exchange& exchange) const { exchange.send_json(server::models_page(*model())); }

void Service::State::one_model_page(Exchange& exchange) const {
  const auto served = model();
  const std::string name = unescaped(std::string_view(exchange.request().path).substr(models_path.size()));
  if (name != served->served().name) throw model_not_found(name, served->served().name);
  exchange.send_json(server::model_page(*served));
}

void Service::State::config_page(Exchange& exchange) const {
  exchange.send_json(server::config_page(*model(), options_, traffic_->counts()));
}

void Service::State::metrics_page(Exchange& exchange) const {
  std::shared_ptr<const ServedModel> served;
  {
    const std::lock_guard lock(mutex_);
    served = model_;
  }
  std::optional<engine::Metrics> engine;
  if (served) engine = served->engine().metrics();
  exchange.send({.type = std::string(metrics_type),
                 .body = server::metrics_page(traffic_->counts(), engine, served ? served->served().name : "")});
}

}  // namespace heddle::server
