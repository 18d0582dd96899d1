#include "server/status/status.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/utf8.h"
#include "base/version.h"
#include "server/service/service_state.h"

namespace heddle::server {
namespace {

using OrderedJson = nlohmann::ordered_json;

void send_health(const Call& call, std::string_view status, std::string_view reason = {}) {
  OrderedJson body{{"status", status}};
  if (!reason.empty()) body["reason"] = replace_invalid_utf8(reason);
  HttpResponse response{.body = body.dump()};
  if (status != "ok") {
    response.status = 503;
    response.headers.push_back({"Retry-After", "5"});
  }
  call.exchange->send(std::move(response));
}

// "a%2Fb" -> "a/b": names of models may have slashes, and clients escape them.
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

OrderedJson model_json(const ServedModel& model) {
  const Served& served = model.served();
  return {{"id", replace_invalid_utf8(served.name)},
          {"object", "model"},
          {"created", model.created()},
          {"owned_by", "heddle"},
          {"meta",
           {{"context", served.context},
            {"vocabulary", served.vocabulary},
            {"width", served.width},
            {"chat", !served.chat_template.empty()}}}};
}

OrderedJson quantiles(const engine::Histogram& seconds) {
  return {{"median_ms", seconds.quantile(0.5) * 1e3},
          {"p99_ms", seconds.quantile(0.99) * 1e3},
          {"mean_ms", seconds.mean() * 1e3},
          {"count", seconds.count()}};
}

OrderedJson measured(const ServedModel& model, const TrafficCounts& traffic) {
  const engine::Metrics metrics = model.engine().metrics();
  const double between = metrics.between_tokens_seconds.mean();
  uint64_t responses = 0;
  for (const auto& [route_and_status, count] : traffic.responses) responses += count;
  return {{"seconds", model.seconds()},
          {"http_requests", responses},
          {"requests", metrics.submitted},
          {"waiting", metrics.waiting},
          {"running", metrics.running},
          {"generated_tokens", metrics.generated},
          {"prompt_tokens_computed", metrics.prompt_computed},
          {"prompt_tokens_cached", metrics.prompt_cached},
          // over all steps, and of one stream
          {"tokens_per_second",
           metrics.step_seconds.sum() > 0 ? double(metrics.generated) / metrics.step_seconds.sum() : 0},
          {"tokens_per_second_of_a_stream", between > 0 ? 1 / between : 0},
          {"queue", quantiles(metrics.queue_seconds)},
          {"time_to_first_token", quantiles(metrics.first_token_seconds)},
          {"time_between_tokens", quantiles(metrics.between_tokens_seconds)},
          {"step", quantiles(metrics.step_seconds)},
          {"sequences_per_step", metrics.step_sequences.mean()},
          {"kv_blocks",
           {{"in_use", metrics.blocks_in_use}, {"cached", metrics.blocks_cached}, {"all", metrics.blocks_all}}},
          {"preemptions", metrics.preemptions}};
}

}  // namespace

void show_live(const Call& call) { send_health(call, "ok"); }

void show_ready(const Call& call) {
  if (const std::string failure = call.model ? call.model->engine().stopped() : ""; !failure.empty())
    return send_health(call, "failed", failure);
  if (call.service.draining()) return send_health(call, "draining");
  send_health(call, call.model ? "ok" : "loading");
}

void list_models(const Call& call) {
  const OrderedJson list{{"object", "list"}, {"data", OrderedJson::array({model_json(*call.model)})}};
  call.exchange->send_json(list.dump());
}

void show_model(const Call& call) {
  const std::string name = unescaped(std::string_view(call.exchange->request().path).substr(models_path.size()));
  const std::string& served = call.model->served().name;
  if (name != served) throw model_not_found(name, served);
  call.exchange->send_json(model_json(*call.model).dump());
}

void show_config(const Call& call) {
  const ServiceOptions& options = call.service.options();
  const std::string& config = call.model->served().config;
  OrderedJson page{{"version", version}, {"model", model_json(*call.model)}};
  page["config"] = OrderedJson::parse(config.empty() ? "{}" : config);
  page["service"] = {{"api_keys", options.keys.size()},
                     {"cors_origin", options.cors_origin.empty() ? OrderedJson() : OrderedJson(options.cors_origin)},
                     {"log_prompts", options.log_prompts}};
  page["measured"] = measured(*call.model, call.service.traffic().counts());
  call.exchange->send_json(page.dump());
}

}  // namespace heddle::server
