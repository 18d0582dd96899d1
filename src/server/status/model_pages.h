// What a client may ask about the model and the server, as JSON text.
#pragma once
#include <string>

#include "server/service/served_model.h"
#include "server/status/traffic.h"

namespace heddle::server {

std::string models_page(const ServedModel& model);  // /v1/models
std::string model_page(const ServedModel& model);   // /v1/models/NAME

// What is in force, with what was measured since the model was loaded.
std::string config_page(const ServedModel& model, const ServiceOptions& options, const TrafficCounts& traffic);

}  // namespace heddle::server
