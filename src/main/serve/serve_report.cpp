// Every figure from one place, said in two ways.
#include "main/serve/serve_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/version.h"
#include "cuda/context.h"
#include "main/device/device_memory.h"
#include "server/http/server.h"

namespace heddle {
namespace {

struct DeviceFacts {
  std::string name;  // "cpu", "cuda:0 NVIDIA H200"
  model::Memory memory;
};

DeviceFacts device_of(const ServedFacts& facts) {
  const RunningModel& running = facts.running;
  const DeviceOptions& options = facts.options.device;
  if (!running.gpu) return {"cpu", memory_for(running.model, options, running.limits)};
  const cuda::Context context(*running.gpu);
  return {fmt::format("cuda:{} {}", *running.gpu, context.info().name),
          memory_for(running.model, options, running.limits, &context.info())};
}

std::string file_of(const ServeOptions& options) { return options.model.empty() ? "(in the program)" : options.model; }

}  // namespace

std::string serve_lines(const ServedFacts& facts) {
  const RunningModel& running = facts.running;
  const DeviceFacts device = device_of(facts);
  std::string text;
  const auto row = [&](const char* name, const std::string& what) { text += fmt::format("{:<10} {}\n", name, what); };
  const auto bytes = [](uint64_t count) { return bytes_text(double(count)); };
  row("model", fmt::format("{}: {}, {:.1f} M parameters, {}", facts.name, running.model.architecture,
                           parameters(running.model) / 1e6, file_of(facts.options)));
  row("device", fmt::format("{}, {}", device.name, running.backend->describe()));
  row("context", fmt::format("{} tokens", facts.context));
  row("KV cache",
      fmt::format("{} tokens, {}, {}", facts.kv_tokens(), bytes(device.memory.kv), name_of(running.limits.kv)));
  row("memory", fmt::format("{}: weights {}, KV cache {}, workspace {}", bytes(device.memory.total()),
                            bytes(device.memory.weights), bytes(device.memory.kv), bytes(device.memory.workspace)));
  row("ready", fmt::format("after {:.2f} s: {}/v1", facts.load_seconds, facts.address));
  return text;
}

std::string serve_config(const ServedFacts& facts) {
  const RunningModel& running = facts.running;
  const ServeOptions& options = facts.options;
  const DeviceFacts device = device_of(facts);
  const server::HttpOptions http;  // what has no option is as it is there
  const nlohmann::ordered_json json{
      {"version", version},
      {"model",
       {{"name", facts.name},
        {"architecture", running.model.architecture},
        {"file", file_of(options)},
        {"parameters", uint64_t(parameters(running.model))},
        {"vocabulary", running.model.vocabulary},
        {"context", facts.context},
        {"width", running.model.width},
        {"chat_template", !running.chat_template.empty()}}},
      {"device", device.name},
      {"backend", running.backend->describe()},
      {"threads", running.gpu              ? 0
                  : options.device.threads ? options.device.threads
                                           : hardware_threads()},
      {"exact", options.device.exact},
      {"deterministic", !running.gpu || options.device.deterministic},
      {"kv",
       {{"format", name_of(running.limits.kv)},
        {"tokens", facts.kv_tokens()},
        {"block_tokens", running.limits.block_tokens},
        {"bytes", device.memory.kv}}},
      {"rows", running.limits.rows},
      {"limits",
       {{"max_queue", options.max_queue},
        {"max_stall_ms", options.engine.max_stall},
        {"drain_seconds", options.drain_seconds},
        {"max_body_bytes", options.max_body_mb << 20},
        {"max_connections", options.max_connections}}},
      {"http",
       {{"tls", !options.tls_certificate.empty()},
        {"threads", options.http_threads},
        {"max_header_bytes", http.max_header},
        {"max_bodies_bytes", http.max_bodies},
        {"header_seconds", http.header_seconds},
        {"body_seconds", http.body_seconds},
        {"idle_seconds", http.idle_seconds},
        {"write_seconds", http.write_seconds}}},
      {"prefix_cache", !options.engine.no_prefix_cache},
      {"speculation", options.engine.speculation},
      {"log_prompts", options.log_prompts},
      {"planned_memory",
       {{"weights", device.memory.weights},
        {"kv", device.memory.kv},
        {"workspace", device.memory.workspace},
        {"total", device.memory.total()}}},
      {"measured", {{"load_seconds", facts.load_seconds}, {"peak_memory_bytes_at_load", peak_memory()}}},
  };
  return json.dump();
}

}  // namespace heddle
