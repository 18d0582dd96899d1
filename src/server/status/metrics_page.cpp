#include "server/status/metrics_page.h"

#include <prometheus/text_serializer.h>

#include <limits>

#include "base/version.h"

namespace heddle::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Builds families; those of one name follow each other.
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

std::string metrics_page(const TrafficCounts& traffic, const std::optional<engine::Metrics>& engine,
                         std::string_view model) {
  Families families;
  ClientMetric& info = families.add({"heddle_info", "Always 1: what runs", "version", version}, MetricType::Gauge);
  info.label.push_back({"model", std::string(model)});
  info.gauge.value = 1;
  for (const auto& [which, count] : traffic.answered) {
    const auto& [path, status] = which;
    ClientMetric& metric = families.add(
        {"heddle_http_requests_total", "Requests over HTTP, by what came of them", "path", path}, MetricType::Counter);
    metric.label.push_back({"status", std::to_string(status)});
    metric.counter.value = double(count);
  }
  families.counter({"heddle_http_answer_bytes_total", "Bytes of bodies of answers", {}, {}}, traffic.bytes);
  families.gauge({"heddle_http_requests_open", "Requests not answered yet", {}, {}}, traffic.under_way);
  families.gauge({"heddle_http_streams_open", "Streams that have begun and not ended", {}, {}}, traffic.streams);
  if (engine) engine::for_each(*engine, families);
  return prometheus::TextSerializer().Serialize(families.all());
}

}  // namespace heddle::server
