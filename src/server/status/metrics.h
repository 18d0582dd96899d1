// GET /metrics: the counters of the service and the engine in Prometheus' text format.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "engine/metrics.h"
#include "server/status/traffic.h"

namespace heddle::server {

struct Call;

// `engine`: absent before the model is loaded.
std::string metrics_text(const TrafficCounts& traffic, const std::optional<engine::Metrics>& engine,
                         std::string_view model);

void show_metrics(const Call& call);

}  // namespace heddle::server
