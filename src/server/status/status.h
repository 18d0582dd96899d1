// GET /health..., /v1/models..., /v1/effective-config and /metrics: the state of the server and its model.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "engine/metrics.h"
#include "server/status/traffic.h"

namespace heddle::server {

struct Call;

constexpr std::string_view models_path = "/v1/models/";  // followed by a model's name

void show_live(const Call& call);     // 200 as long as the process responds
void show_ready(const Call& call);    // 200 if requests are taken, 503 with the reason otherwise
void list_models(const Call& call);   // the model that is served
void show_model(const Call& call);    // the same by name
void show_config(const Call& call);   // the settings in force, and what was measured since the model was loaded
void show_metrics(const Call& call);  // metrics_text()

// Prometheus' text format. `engine`: absent before the model is loaded.
std::string metrics_text(const TrafficCounts& traffic, const std::optional<engine::Metrics>& engine,
                         std::string_view model);

}  // namespace heddle::server
