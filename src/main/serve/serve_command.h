// heddle serve: a model behind an OpenAI-compatible API, until a signal ends it.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "main/device/device_options.h"
#include "main/serve/engine_options.h"

namespace CLI {
class App;
}

namespace heddle {

struct ServeOptions {
  std::string model;
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  std::string alias;                  // the model's id in the API; empty: model_id()
  std::vector<std::string> api_keys;  // with those of the file; none: everybody may
  std::string api_key_file;
  std::string tls_certificate, tls_key;
  std::string cors_origin;
  uint32_t max_queue = 1024;
  uint32_t kv_tokens = 0;  // 0: what is of use and can be spared
  double drain_seconds = 30;
  uint64_t max_body_mb = 16;
  uint32_t max_connections = 10'000;
  uint32_t http_threads = 2;
  bool log_prompts = false, no_log = false;
  EngineChoices engine;
  DeviceOptions device;
};
void describe_serve(CLI::App& program, std::ostream& out, std::ostream& err, int& status);

// What happens goes to `err`, a line of JSON for each request to `out`. Returns after SIGINT or SIGTERM: 0 if all that
// was under way was answered, 1 if something was cut off.
int serve(const ServeOptions& options, std::ostream& out, std::ostream& err);

// A model's id in the API: the name of its file without ".gguf" (and without the number of a part), or of its folder.
// Names in the metadata are not used: several files may have the same.
std::string model_id(const std::string& path);

}  // namespace heddle
