// GET routes about the server, and Prometheus' text format.
#include "server/status/status.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/utf8.h"
#include "base/version.h"
#include "server/api/openai/openai.h"
#include "server/http/query.h"
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
  if (const std::string failure = call.service.models().fault(); !failure.empty())
    return send_health(call, "failed", failure);
  if (call.service.retired()) return send_health(call, "draining");
  send_health(call, call.service.models().empty() ? "loading" : "ok");
}

void show_version(const Call& call) { call.exchange->send_json(OrderedJson{{"version", version}}.dump()); }

void show_load(const Call& call) {
  const size_t all = call.service.traffic().in_progress();
  call.exchange->send_json(OrderedJson{{"server_load", all - std::min<size_t>(all, 1)}}.dump());
}

void show_config(const Call& call) {
  const ServiceOptions& options = call.service.options();
  const ListedModel model = call.describe(query_value(call.exchange->request().query, "model").value_or(""));
  const std::string config = model.model ? model.model->served().config : "";
  OrderedJson page{{"version", version}, {"model", OrderedJson::parse(model_json(model))}};
  page["config"] = OrderedJson::parse(config.empty() ? "{}" : config);
  page["service"] = {{"api_keys", call.service.keys()->size()},
                     {"cors_origin", options.cors_origin.empty() ? OrderedJson() : OrderedJson(options.cors_origin)},
                     {"log_prompts", options.log_prompts}};
  const auto seconds = [](double value) { return value < ModelsOptions::forever ? OrderedJson(value) : OrderedJson(); };
  page["models"] = {{"all", call.service.models().size()},
                    {"max_loaded", options.models.max_loaded},
                    {"keep_alive_seconds", seconds(options.models.keep_alive)},
                    {"load_seconds", options.models.load_seconds}};
  page["limits"] = OrderedJson::parse(sampling_limits());
  page["measured"] = model.model ? measured(*model.model, call.service.traffic().counts()) : OrderedJson();
  call.exchange->send_json(page.dump());
}

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Metrics of one name are one family. With `model`, its name is a label of each metric.
class Families {
 public:
  void of_model(std::string_view model) { model_ = model; }
  void counter(const engine::MetricName& name, uint64_t value) {
    add(name, MetricType::Counter).counter.value = double(value);
  }
  void gauge(const engine::MetricName& name, uint64_t value) {
    add(name, MetricType::Gauge).gauge.value = double(value);
  }
  void histogram(const engine::MetricName& name, const engine::Histogram& from) {
    ClientMetric::Histogram& to = add(name, MetricType::Histogram).histogram;
    to.sample_count = from.count();
    to.sample_sum = from.sum();
    uint64_t below = 0;
    for (size_t i = 0; i < from.counts().size(); ++i) {
      below += from.counts()[i];
      const bool last = i == from.bounds().size();
      to.bucket.push_back({below, last ? std::numeric_limits<double>::infinity() : from.bounds()[i]});
    }
  }
  ClientMetric& add(const engine::MetricName& name, MetricType type) {
    auto family = std::ranges::find(all_, name.name, &MetricFamily::name);
    if (family == all_.end())
      family = all_.insert(all_.end(), {std::string(name.name), std::string(name.help), type, {}});
    ClientMetric& metric = family->metric.emplace_back();
    if (!model_.empty() && name.label != "model_name") metric.label.push_back({"model", std::string(model_)});
    if (!name.label.empty()) metric.label.push_back({std::string(name.label), std::string(name.value)});
    return metric;
  }
  const std::vector<MetricFamily>& all() const { return all_; }

 private:
  std::vector<MetricFamily> all_;
  std::string_view model_;
};

// The names that dashboards and routers for vLLM look for, with the same values as ours.
void add_vllm_metrics(Families& families, const engine::Metrics& metrics, std::string_view model) {
  const auto named = [&](std::string_view name, std::string_view help) {
    return engine::MetricName{name, help, "model_name", model};
  };
  families.gauge(named("vllm:num_requests_running", "Completions in progress"), metrics.running);
  families.gauge(named("vllm:num_requests_waiting", "Completions that wait in the queue"), metrics.waiting);
  const double used = metrics.blocks_all ? double(metrics.blocks_in_use) / double(metrics.blocks_all) : 0;
  for (const std::string_view name : {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"})
    families.add(named(name, "Part of the KV cache in use, 0 to 1"), MetricType::Gauge).gauge.value = used;
  ClientMetric& config = families.add({"vllm:cache_config_info", "Always 1; the KV cache is in its labels",
                                       "block_size", std::to_string(metrics.block_tokens)},
                                      MetricType::Gauge);
  config.label.push_back({"num_gpu_blocks", std::to_string(metrics.blocks_all)});
  config.gauge.value = 1;
  ClientMetric& lora =
      families.add({"vllm:lora_requests_info", "There are no adapters", "max_lora", "0"}, MetricType::Gauge);
  lora.label.push_back({"running_lora_adapters", ""});
  lora.label.push_back({"waiting_lora_adapters", ""});
  families.counter(named("vllm:num_preemptions_total", "Sequences preempted because the KV cache was full"),
                   metrics.preemptions);
  const uint64_t prompt_tokens = metrics.prompt_computed + metrics.prompt_cached;
  families.counter(named("vllm:prompt_tokens_total", "Prompt tokens, computed and cached"), prompt_tokens);
  families.counter(named("vllm:generation_tokens_total", "Tokens generated"), metrics.generated);
  for (const std::string_view name : {"vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"})
    families.counter(named(name, "Prompt tokens looked up in the prefix cache"), prompt_tokens);
  for (const std::string_view name : {"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"})
    families.counter(named(name, "Prompt tokens found in the prefix cache"), metrics.prompt_cached);
  families.counter(named("vllm:spec_decode_num_draft_tokens_total", "Tokens proposed by speculative decoding"),
                   metrics.proposed);
  families.counter(named("vllm:spec_decode_num_accepted_tokens_total", "Proposed tokens that were accepted"),
                   metrics.accepted);
  using engine::FinishReason;
  const auto finished = [&](FinishReason reason) { return metrics.finished[size_t(reason)]; };
  const std::pair<const char*, uint64_t> reasons[] = {
      {"stop", finished(FinishReason::stop)},
      {"length", finished(FinishReason::length) + finished(FinishReason::context)},
      {"abort", finished(FinishReason::cancelled)},
      {"error", finished(FinishReason::failed)}};
  for (const auto& [reason, count] : reasons) {
    ClientMetric& metric =
        families.add(named("vllm:request_success_total", "Completions that ended, by reason"), MetricType::Counter);
    metric.label.push_back({"finished_reason", reason});
    metric.counter.value = double(count);
  }
  families.histogram(named("vllm:time_to_first_token_seconds", "Time from submission to the first token"),
                     metrics.first_token_seconds);
  for (const std::string_view name : {"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"})
    families.histogram(named(name, "Time between two tokens of a completion"), metrics.between_tokens_seconds);
  families.histogram(named("vllm:e2e_request_latency_seconds", "Time from submission to the end of a completion"),
                     metrics.request_seconds);
  families.histogram(named("vllm:request_queue_time_seconds", "Time from submission to the first computed token"),
                     metrics.queue_seconds);
  families.histogram(
      named("vllm:request_prefill_time_seconds", "Time from the first computed token to the first token"),
      metrics.prefill_seconds);
  families.histogram(named("vllm:request_decode_time_seconds", "Time from the first token to the end of a completion"),
                     metrics.decode_seconds);
  families.histogram(named("vllm:iteration_tokens_total", "Tokens computed in a batch"), metrics.step_rows);
  families.histogram(named("vllm:request_prompt_tokens", "Tokens of a prompt"), metrics.prompt_tokens);
  families.histogram(named("vllm:request_generation_tokens", "Tokens of a completion"), metrics.completion_tokens);
}

}  // namespace

std::string metrics_text(const TrafficCounts& traffic, const std::vector<ModelMetrics>& models) {
  Families families;
  const engine::MetricName info{"heddle_info", "Always 1; version and model are its labels", "version", version};
  if (models.empty()) families.gauge(info, 1);
  for (const ModelMetrics& model : models) {
    families.of_model(model.name);
    families.gauge(info, 1);
  }
  families.of_model({});
  for (const auto& [route_and_status, count] : traffic.responses) {
    const auto& [path, status] = route_and_status;
    ClientMetric& metric = families.add(
        {"heddle_http_requests_total", "HTTP requests by path and response status", "path", path}, MetricType::Counter);
    metric.label.push_back({"status", std::to_string(status)});
    metric.counter.value = double(count);
  }
  families.counter({"heddle_http_connections_refused_total",
                    "Connections that were closed at once, because there was no descriptor for them",
                    {},
                    {}},
                   traffic.connections_refused);
  families.counter(
      {"heddle_log_lines_lost_total", "Lines of the log that were dropped because its reader is too slow", {}, {}},
      traffic.log_lines_lost);
  families.counter({"heddle_http_response_bytes_total", "Bytes of response bodies", {}, {}}, traffic.bytes);
  families.gauge({"heddle_http_requests_open", "HTTP requests in progress", {}, {}}, traffic.in_progress);
  families.gauge({"heddle_http_streams_open", "Streamed responses in progress", {}, {}}, traffic.streams);
  for (const ModelMetrics& model : models) {
    families.of_model(model.name);
    families.gauge({"heddle_model_loaded", "1 if the model is in memory, otherwise 0", {}, {}},
                   model.status == ModelStatus::loaded);
    families.counter({"heddle_model_loads_total", "Times the model was loaded", {}, {}}, model.loads);
    families.counter({"heddle_model_load_failures_total", "Times the model could not be loaded", {}, {}},
                     model.failures);
    families.counter({"heddle_model_unloads_total", "Times the model was unloaded", {}, {}}, model.unloads);
    families.gauge({"heddle_model_waiting", "HTTP requests that wait for the model to be loaded", {}, {}},
                   model.waiting);
    if (model.engine) engine::for_each(*model.engine, families);
    if (model.engine) add_vllm_metrics(families, *model.engine, model.name);
  }
  return prometheus::TextSerializer().Serialize(families.all());
}

void show_metrics(const Call& call) {
  std::vector<ModelMetrics> models;
  for (const ListedModel& model : call.service.models().list()) {
    ModelMetrics one{.name = model.card.name,
                     .status = model.status,
                     .loads = model.loads,
                     .failures = model.failures,
                     .unloads = model.unloads,
                     .waiting = model.waiting};
    if (model.model) one.engine = model.model->engine().metrics();
    models.push_back(std::move(one));
  }
  call.exchange->send(
      {.type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_text(call.service.counts(), models)});
}

void show_traces(const Call& call) { call.exchange->send_json(call.service.traffic().traces()); }

}  // namespace heddle::server
