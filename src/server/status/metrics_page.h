// /metrics: what the engine and the service count, as Prometheus reads it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "engine/metrics.h"
#include "server/status/traffic.h"

namespace heddle::server {

// `engine`: nothing before the model is loaded.
std::string metrics_page(const TrafficCounts& traffic, const std::optional<engine::Metrics>& engine,
                         std::string_view model);

inline constexpr std::string_view metrics_type = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace heddle::server
