#include "main/serve/kv_event_options.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle {

void describe_events(CLI::App& command, KvEventChoices& choices) {
  const auto option = [&command](const char* name, auto& value, const char* text, const char* type) {
    command.add_option(name, value, text)->type_name(type);
  };
  option("--kv-events", choices.endpoint,
         "Publish which blocks the KV cache has, in vLLM's format, for routers: tcp://*:5557 listens, "
         "tcp://HOST:5557 connects",
         "ENDPOINT");
  option("--kv-events-topic", choices.topic, "Topic of these events; default: an empty one", "TEXT");
  option("--kv-events-replay", choices.replay, "Where events can be asked for again, such as tcp://*:5558", "ENDPOINT");
  option("--kv-events-format", choices.format,
         "How an event is written: map, as vLLM does since 0.24, or array, as it did before", "FORMAT");
}

void check_events(const KvEventChoices& choices, size_t models, bool prefix_cache) {
  if (choices.format != "map" && choices.format != "array")
    throw Error("--kv-events-format: expected map or array, found {}", in_quotes(choices.format));
  if (choices.endpoint.empty()) {
    if (!choices.topic.empty()) throw Error("--kv-events-topic: expected --kv-events with it, found none");
    if (!choices.replay.empty()) throw Error("--kv-events-replay: expected --kv-events with it, found none");
    return;
  }
  if (models != 1)
    throw Error("--kv-events: expected one model, found {}: their blocks could not be told apart", models);
  if (!prefix_cache) throw Error("--kv-events: expected a prefix cache, found --no-prefix-cache");
}

server::EventOptions event_options(const KvEventChoices& choices, std::function<void(std::string)> warn) {
  return {.endpoint = choices.endpoint,
          .topic = choices.topic,
          .replay = choices.replay,
          .format = choices.format == "map" ? server::EventFormat::map : server::EventFormat::array,
          .warn = std::move(warn)};
}

}  // namespace heddle
