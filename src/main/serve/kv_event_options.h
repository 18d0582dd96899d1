// Options of the events that tell routers what the KV cache has.
#pragma once
#include <cstddef>
#include <functional>
#include <string>

#include "server/events/event_publisher.h"

namespace CLI {
class App;
}

namespace heddle {

struct KvEventChoices {
  std::string endpoint;  // empty: no events are published
  std::string topic;
  std::string replay;  // an endpoint; empty: there is none
  std::string format = "map";
};
void describe_events(CLI::App& command, KvEventChoices& choices);

// Throws an Error that names the option.
void check_events(const KvEventChoices& choices, size_t models, bool prefix_cache);
server::EventOptions event_options(const KvEventChoices& choices, std::function<void(std::string)> warn);

}  // namespace heddle
