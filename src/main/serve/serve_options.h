// What `heddle serve` can be told.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "main/device/device_options.h"
#include "main/serve/engine_options.h"
#include "main/serve/kv_event_options.h"

namespace CLI {
class App;
}

namespace heddle {

struct ServeOptions {
  std::vector<std::string> models;  // one that is loaded at the start, or several that are loaded for requests
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::string alias;                  // name of the model in the API; empty: its file name
  std::vector<std::string> api_keys;  // with those of the file; empty: no authentication
  std::string api_key_file;
  std::string tls_certificate, tls_key;
  std::string cors_origin;
  uint32_t max_queue = 1024;
  uint32_t kv_tokens = 0;  // 0: see tokens_for_many() in device_memory.cpp
  double drain_delay = 0, drain_seconds = 30, heartbeat_seconds = 5;
  uint64_t max_body_mb = 16;
  KvEventChoices events;
  uint64_t store_mb = 64;   // for responses of /v1/responses
  uint32_t models_max = 0;  // in memory at a time; 0: as many as are served, up to four
  std::string keep_alive;   // a duration; empty: models stay until others need their memory
  double load_seconds = 600;
  uint32_t max_connections = 10'000;
  uint32_t http_threads = 2;
  bool any_model = false, strict = false, parse_special = false, metrics_open = false;
  bool log_prompts = false, no_log = false;
  EngineChoices engine;
  DeviceOptions device;
};

void describe_serve_options(CLI::App& command, ServeOptions& options);
// Throws an Error that names the option that cannot be followed.
void check_serve_options(const ServeOptions& options);

// `given` and those of the file, if there is one: one key per line; empty lines and lines that begin with # are
// ignored. Throws an Error for a file without a key, and for a key that no client could send, without showing the key.
// Warns on `err` if other users can read the file.
std::vector<std::string> api_keys(const std::vector<std::string>& given, const std::string& file, std::ostream& err);

}  // namespace heddle
