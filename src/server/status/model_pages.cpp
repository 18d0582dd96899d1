#include "server/status/model_pages.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/utf8.h"
#include "base/version.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

Ordered model_json(const ServedModel& model) {
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

Ordered quantiles(const engine::Histogram& seconds) {
  return {{"median_ms", seconds.quantile(0.5) * 1e3},
          {"p99_ms", seconds.quantile(0.99) * 1e3},
          {"mean_ms", seconds.mean() * 1e3},
          {"count", seconds.count()}};
}

Ordered measured(const ServedModel& model, const TrafficCounts& traffic) {
  const engine::Metrics metrics = model.engine().metrics();
  const double between = metrics.between_tokens_seconds.mean();
  uint64_t answered = 0;
  for (const auto& [which, count] : traffic.answered) answered += count;
  return {{"seconds", model.seconds()},
          {"http_requests", answered},
          {"requests", metrics.submitted},
          {"waiting", metrics.waiting},
          {"running", metrics.running},
          {"tokens_made", metrics.generated},
          {"prompt_tokens_computed", metrics.prompt_computed},
          {"prompt_tokens_reused", metrics.prompt_reused},
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

std::string model_page(const ServedModel& model) { return model_json(model).dump(); }

std::string models_page(const ServedModel& model) {
  return Ordered{{"object", "list"}, {"data", Ordered::array({model_json(model)})}}.dump();
}

std::string config_page(const ServedModel& model, const ServiceOptions& options, const TrafficCounts& traffic) {
  const Served& served = model.served();
  Ordered page{{"version", version}, {"model", model_json(model)}};
  page["config"] = Ordered::parse(served.config.empty() ? "{}" : served.config);
  page["service"] = {{"api_keys", options.keys.size()},
                     {"cors_origin", options.cors_origin.empty() ? Ordered() : Ordered(options.cors_origin)},
                     {"log_prompts", options.log_prompts}};
  page["measured"] = measured(model, traffic);
  return page.dump();
}

}  // namespace heddle::server
