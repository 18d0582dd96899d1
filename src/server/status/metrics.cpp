// GET /metrics: the counters of the service and the engine.
#include <prometheus/text_serializer.h>

#include <limits>

#include "base/version.h"
#include "server/service/service_state.h"
#include "server/status/status.h"

namespace heddle::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Metrics of one name are one family; they come one after the other.
class Families {
 public:
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
    if (all_.empty() || all_.back().name != name.name)
      all_.push_back({std::string(name.name), std::string(name.help), type, {}});
    ClientMetric& metric = all_.back().metric.emplace_back();
    if (!name.label.empty()) metric.label.push_back({std::string(name.label), std::string(name.value)});
    return metric;
  }
  const std::vector<MetricFamily>& all() const { return all_; }

 private:
  std::vector<MetricFamily> all_;
};

}  // namespace

std::string metrics_text(const TrafficCounts& traffic, const std::optional<engine::Metrics>& engine,
                         std::string_view model) {
  Families families;
  ClientMetric& info = families.add({"heddle_info", "Always 1; version and model are its labels", "version", version},
                                    MetricType::Gauge);
  info.label.push_back({"model", std::string(model)});
  info.gauge.value = 1;
  for (const auto& [route_and_status, count] : traffic.responses) {
    const auto& [path, status] = route_and_status;
    ClientMetric& metric = families.add(
        {"heddle_http_requests_total", "HTTP requests by path and response status", "path", path}, MetricType::Counter);
    metric.label.push_back({"status", std::to_string(status)});
    metric.counter.value = double(count);
  }
  families.counter({"heddle_http_response_bytes_total", "Bytes of response bodies", {}, {}}, traffic.bytes);
  families.gauge({"heddle_http_requests_open", "HTTP requests in progress", {}, {}}, traffic.in_progress);
  families.gauge({"heddle_http_streams_open", "Streamed responses in progress", {}, {}}, traffic.streams);
  if (engine) engine::for_each(*engine, families);
  return prometheus::TextSerializer().Serialize(families.all());
}

void show_metrics(const Call& call) {
  std::optional<engine::Metrics> engine;
  if (call.model) engine = call.model->engine().metrics();
  const std::string_view name = call.model ? std::string_view(call.model->served().name) : "";
  call.exchange->send({.type = "text/plain; version=0.0.4; charset=utf-8",
                       .body = metrics_text(call.service.traffic().counts(), engine, name)});
}

}  // namespace heddle::server
