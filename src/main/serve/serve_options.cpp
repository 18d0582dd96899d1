// What `heddle serve` can be told: its options on the command line, and what is wrong with them.
#include "main/serve/serve_options.h"

#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <ostream>

#include "base/error.h"
#include "base/utf8.h"
#include "main/serve/served_names.h"
#include "server/service/service.h"

namespace heddle {
namespace {

void expect_sendable(const std::string& key, const std::string& where) {
  const bool good = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 127; });
  if (!good)
    throw Error("{}: expected a key of printable ASCII characters without spaces, found other characters", where);
}

std::vector<std::string> keys_in(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error("--api-key-file {}: cannot be read", path);
  std::vector<std::string> keys;
  size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const size_t first = line.find_first_not_of(" \t\r"), last = line.find_last_not_of(" \t\r");
    if (first == line.npos || line[first] == '#') continue;
    keys.push_back(line.substr(first, last + 1 - first));
    expect_sendable(keys.back(), path + " line " + std::to_string(number));
  }
  if (keys.empty()) throw Error("--api-key-file {}: expected one key per line, found none", path);
  return keys;
}

}  // namespace

void check_serve_options(const ServeOptions& options) {
  if (!(options.drain_delay >= 0))
    throw Error("--drain-delay: expected 0 or more seconds, found {}", options.drain_delay);
  if (!(options.drain_seconds >= 0))
    throw Error("--drain-seconds: expected 0 or more seconds, found {}", options.drain_seconds);
  if (options.max_body_mb == 0 || options.max_body_mb > 4096)
    throw Error("--max-body-mb: expected 1 to 4096 megabytes, found {}", options.max_body_mb);
  if (options.store_mb > 1 << 20)
    throw Error("--store-mb: expected 0 to {} megabytes, found {}", 1 << 20, options.store_mb);
  if (options.http_threads == 0 || options.http_threads > 256)
    throw Error("--http-threads: expected 1 to 256, found {}", options.http_threads);
  if (options.max_connections == 0) throw Error("--max-connections: expected at least one, found 0");
  if (options.tls_certificate.empty() != options.tls_key.empty())
    throw Error("{}: expected {} with it, found none", options.tls_key.empty() ? "--tls-cert" : "--tls-key",
                options.tls_key.empty() ? "--tls-key" : "--tls-cert");
  if (!options.cors_origin.empty() && options.cors_origin != "*" && !server::is_origin(options.cors_origin))
    throw Error("--cors: expected * or an origin such as https://example.org, found {}",
                in_quotes(options.cors_origin));
  if (!(options.heartbeat_seconds >= 0))
    throw Error("--heartbeat: expected 0 or more seconds, found {}", options.heartbeat_seconds);
  if (options.max_queue == 0) throw Error("--max-queue: expected at least 1, found 0");
  if (!(options.load_seconds > 0)) throw Error("--load-seconds: expected more than 0, found {}", options.load_seconds);
}

std::vector<std::string> api_keys(const std::vector<std::string>& given, const std::string& file, std::ostream& err) {
  std::vector<std::string> keys = given;
  for (const std::string& key : given) expect_sendable(key, "--api-key");
  if (file.empty()) return keys;
  for (std::string& key : keys_in(file)) keys.push_back(std::move(key));
  struct stat about {};
  if (::stat(file.c_str(), &about) == 0 && (about.st_mode & (S_IRGRP | S_IROTH)))
    err << "warning: " << file << " is readable by other users: chmod 600 keeps its keys secret" << std::endl;
  return keys;
}

void describe_serve_options(CLI::App& command, ServeOptions& options) {
  describe_models_to_serve(command, options.models);
  const auto option = [&command](const char* name, auto& value, const char* text, const char* type) {
    command.add_option(name, value, text)->type_name(type);
  };
  option("--host", options.host, "Address to listen on; 0.0.0.0 or ::: all interfaces", "ADDRESS");
  option("--port", options.port, "Port to listen on; 0: any free one", "N");
  option("--alias", options.alias, "Name of the model in the API; default: its file name", "NAME");
  command.add_option("--api-key", options.api_keys, "API key that clients must send; repeatable; default: no key")
      ->type_name("KEY")
      ->allow_extra_args(false);
  option("--api-key-file", options.api_key_file, "File of API keys, one per line; # begins a comment line", "F");
  option("--tls-cert", options.tls_certificate, "Serve HTTPS with this certificate chain", "F.pem");
  option("--tls-key", options.tls_key, "Private key of the certificate", "F.pem");
  option("--cors", options.cors_origin, "Origin whose pages may use the API from a browser; *: all", "ORIGIN");
  describe_device(command, options.device);
  describe_draft(command, options.device);
  describe_ranks(command, options.device.ranks);
  option("--kv-tokens", options.kv_tokens,
         "Tokens of the KV cache, shared by all requests; 0: on a GPU the free memory, on the CPU 8 contexts or a "
         "quarter of the free memory",
         "N");
  describe_engine(command, options.engine);
  describe_kv_transfer(command, options.engine.kv);
  option("--max-queue", options.max_queue, "Maximum waiting completions; more are refused with 429", "N");
  option("--max-body-mb", options.max_body_mb, "Maximum size of a request; larger ones are refused with 413", "MB");
  option("--store-mb", options.store_mb,
         "Memory for responses of /v1/responses that clients ask for again; the oldest go first; 0: none is kept",
         "MB");
  option("--max-connections", options.max_connections, "Maximum connections; more are refused with 503", "N");
  option("--http-threads", options.http_threads, "Threads that read requests and write responses", "N");
  option("--heartbeat", options.heartbeat_seconds,
         "Seconds without a token after which a stream gets a comment; 0: never", "S");
  option("--drain-delay", options.drain_delay,
         "Time after a first SIGTERM or SIGINT in which requests are still accepted, while /health/ready gives 503: "
         "load balancers need some to notice",
         "S");
  option("--drain-seconds", options.drain_seconds, "Time for running requests after that", "S");
  describe_events(command, options.events);
  option("--models-max", options.models_max,
         "Models in memory at a time, where several are served; 0: all of them, but at most 4", "N");
  option("--keep-alive", options.keep_alive,
         "Time after its last request for which a model stays in memory, such as 10m; default: until others need it",
         "TIME");
  option("--load-seconds", options.load_seconds, "Time that a request waits for its model to be loaded", "S");
  command.add_flag("--metrics-open", options.metrics_open, "Show /metrics without an API key");
  command.add_flag("--any-model", options.any_model, "Take any name of a model in requests (gpt-4o)");
  command.add_flag("--strict", options.strict, "Refuse fields of requests that have no effect");
  command.add_flag("--parse-special", options.parse_special,
                   "Control tokens may be written in messages; otherwise only the chat template writes them");
  command.add_flag("--log-prompts", options.log_prompts, "Also log prompts and completions");
  command.add_flag("--no-log", options.no_log, "Do not log requests to standard output");
}

}  // namespace heddle
