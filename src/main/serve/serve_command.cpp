// The listener starts before the model is loaded, so that early requests are told to come back.
#include "main/serve/serve_command.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <sstream>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/utf8.h"
#include "base/version.h"
#include "cuda/context.h"
#include "engine/engine_thread.h"
#include "formats/gguf.h"
#include "main/commands/commands.h"
#include "main/device/device_memory.h"
#include "main/device/open_model.h"
#include "main/device/running_model.h"
#include "main/models/named_model.h"
#include "main/process.h"
#include "main/serve/log_writer.h"
#include "server/http/http.h"
#include "server/service/service.h"

namespace heddle {
namespace {

constexpr size_t max_messages = 1000, max_log_lines = 100'000;  // that wait for a reader
constexpr double flush_seconds = 3;                             // for the last bytes of responses that are complete

// Every connection needs a descriptor: allow as many as the system permits.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

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

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

void check_serve_options(const ServeOptions& options) {
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
}

server::HttpOptions http_options(const ServeOptions& options) {
  return {.host = options.host,
          .port = options.port,
          .tls_certificate = options.tls_certificate,
          .tls_key = options.tls_key,
          .threads = options.http_threads,
          .max_body = options.max_body_mb << 20,
          .max_connections = options.max_connections};
}

// Known when the model is loaded.
struct ServedFacts {
  const ServeOptions& options;
  const RunningModel& running;
  std::string name;     // of the model in the API
  std::string address;  // "http://127.0.0.1:8080"
  uint32_t context = 0;
  double load_seconds = 0;

  uint64_t kv_tokens() const { return uint64_t(running.limits.kv_blocks) * running.limits.block_tokens; }
};

struct DeviceFacts {
  std::string name;  // "cpu", "cuda:0 NVIDIA H200"
  model::Memory memory;
  std::optional<model::Memory> draft;  // of the draft
};

DeviceFacts device_facts(const ServedFacts& facts) {
  const RunningModel& running = facts.running;
  std::optional<cuda::Context> gpu;
  if (running.gpu) gpu.emplace(*running.gpu);
  const auto memory = [&](const RunningModel& of) {
    if (of.split) return of.split->on_gpu;
    return memory_for(of.model, facts.options.device, of.limits, gpu ? &gpu->info() : nullptr);
  };
  DeviceFacts device{gpu ? fmt::format("cuda:{} {}", *running.gpu, gpu->info().name) : "cpu", memory(running), {}};
  if (running.draft) device.draft = memory(*running.draft);
  return device;
}

server::ModelFacts model_facts(const ServedFacts& facts) {
  const RunningModel& running = facts.running;
  const DeviceFacts device = device_facts(facts);
  const uint64_t draft = device.draft ? device.draft->total() : 0, own = device.memory.total();
  return {.architecture = running.model.architecture,
          .format = running.files.format,
          .quantization = running.files.type,
          .license = running.files.license,
          .parameters = uint64_t(parameters(running.model)),
          .layers = running.model.layers.size(),
          .file_bytes = running.files.bytes,
          .memory = own + draft + (running.split ? running.split->on_cpu.total() : 0),
          .gpu_memory = running.gpu ? own + draft : 0,
          .modified = running.files.modified};
}

std::string file_of(const ServeOptions& options) {
  return options.model == own_model_name ? "(in the program)" : find_model(options.model).path.string();
}

// For people, at the start; each line ends with a line break.
std::string serve_lines(const ServedFacts& facts) {
  const RunningModel& running = facts.running;
  const DeviceFacts device = device_facts(facts);
  std::string text;
  const auto row = [&](const char* name, const std::string& what) { text += fmt::format("{:<10} {}\n", name, what); };
  const auto bytes = [](uint64_t count) { return bytes_text(double(count)); };
  row("model", fmt::format("{}: {}, {:.1f} M parameters, {}", facts.name, running.model.architecture,
                           parameters(running.model) / 1e6, file_of(facts.options)));
  row("device", fmt::format("{}, {}", device.name, running.backend->describe()));
  if (running.split) row("split", running.split->text);
  row("context", fmt::format("{} tokens", facts.context));
  row("KV cache",
      fmt::format("{} tokens, {}, {}", facts.kv_tokens(), bytes(device.memory.kv), name_of(running.limits.kv)));
  row("memory", fmt::format("{}: weights {}, KV cache {}, workspace {}", bytes(device.memory.total()),
                            bytes(device.memory.weights), bytes(device.memory.kv), bytes(device.memory.workspace)));
  if (device.draft)
    row("draft",
        fmt::format("{}: {:.1f} M parameters, {}, up to {} tokens at once", running.draft->model.name,
                    parameters(running.draft->model) / 1e6, bytes(device.draft->total()), running.draft_tokens));
  row("page", facts.address + "/");
  row("ready", fmt::format("after {:.2f} s: {}/v1", facts.load_seconds, facts.address));
  return text;
}

// A JSON object for /v1/effective-config.
std::string serve_config(const ServedFacts& facts) {
  const RunningModel& running = facts.running;
  const ServeOptions& options = facts.options;
  const DeviceFacts device = device_facts(facts);
  const server::HttpOptions http;  // defaults of what has no option here
  nlohmann::ordered_json draft;    // null: there is none
  if (device.draft)
    draft = {{"name", running.draft->model.name},
             {"file", options.device.draft},
             {"tokens", running.draft_tokens},
             {"planned_memory", device.draft->total()}};
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
      {"split", running.split ? nlohmann::ordered_json(running.split->text) : nlohmann::ordered_json()},
      {"backend", running.backend->describe()},
      {"threads", running.gpu && !running.split ? 0
                  : options.device.threads      ? options.device.threads
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
        {"heartbeat_seconds", options.heartbeat_seconds},
        {"max_body_bytes", options.max_body_mb << 20},
        {"store_bytes", options.store_mb << 20},
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
      {"draft", draft},
      {"strict", options.strict},
      {"any_model", options.any_model},
      {"parse_special", options.parse_special},
      {"log_prompts", options.log_prompts},
      {"planned_memory",
       {{"weights", device.memory.weights},
        {"kv", device.memory.kv},
        {"workspace", device.memory.workspace},
        {"draft", device.draft ? device.draft->total() : 0},
        {"total", device.memory.total() + (device.draft ? device.draft->total() : 0)}}},
      {"measured", {{"load_seconds", facts.load_seconds}, {"peak_memory_bytes_at_load", peak_memory()}}},
  };
  return json.dump();
}

// Members are destroyed in reverse order: the listener goes before what its handlers use.
class Server {
 public:
  // `stuck` is set if the reader of the log keeps it from being written to its end: `out` must not be used any more.
  Server(const ServeOptions& options, std::ostream& out, std::ostream& err, bool& stuck)
      : options_(options),
        engine_options_(engine_options(options.engine)),
        err_(err),
        signals_([this] { stop(); }, [this] { reload(); }),
        messages_(err, max_messages, &stuck),
        log_(out, max_log_lines, &stuck),
        service_(service_options()),
        http_(listening(), [this](server::HttpRequest request, std::shared_ptr<server::Responder> responder) {
          service_.handle(std::move(request), std::move(responder));
        }) {}

  int run() {
    err_ << fmt::format("{:<10} {}\n", "listening", http_.address()) << std::flush;
    if (!is_loopback(options_.host) && options_.api_keys.empty() && options_.api_key_file.empty())
      err_ << "warning: " << options_.host
           << " may be reached from other machines, and there is no --api-key: anyone who reaches it may use it"
           << std::endl;
    load();
    wait();
    return end();
  }

 private:
  server::HttpOptions listening() {
    server::HttpOptions with = http_options(options_);
    with.admit = [this](const server::HttpRequest& head) { service_.admit(head); };
    with.refuse = [this](server::HttpRequest head, std::shared_ptr<server::Responder> responder,
                         const server::ApiError& why) { service_.refuse(std::move(head), std::move(responder), why); };
    with.on_no_descriptor = [this] { on_no_descriptor(); };
    return with;
  }
  server::ServiceOptions service_options() {
    server::ServiceOptions with{.keys = api_keys(options_.api_keys, options_.api_key_file, err_),
                                .cors_origin = options_.cors_origin,
                                .metrics_open = options_.metrics_open,
                                .strict = options_.strict,
                                .any_model = options_.any_model,
                                .parse_special = options_.parse_special,
                                .store_bytes = options_.store_mb << 20,
                                .log_prompts = options_.log_prompts,
                                .heartbeat_seconds = options_.heartbeat_seconds,
                                .max_body = http_options(options_).max_body};
    if (!options_.no_log) with.log = [this](std::string line) { log_.write(std::move(line)); };
    with.lost_lines = [this] { return log_.lost(); };
    return with;
  }

  void load() {
    const auto start = Clock::now();
    DeviceOptions device = options_.device;
    device.cache_tokens = options_.kv_tokens;
    device.many = true;
    try {
      running_ = open_running(options_.model, device, &err_, options_.engine.rows);
      engine_options_.max_waiting = options_.max_queue;
      engine_options_.draft = running_->draft_model();
      engine_.emplace(running_->model, *running_->backend, running_->limits, engine_options_);
      thread_.emplace(*engine_);
    } catch (const std::bad_alloc&) {
      throw Error("{}: out of memory: the system has not enough for the model, its KV cache and its workspace",
                  file_of(options_));
    }
    ServedFacts facts{.options = options_,
                      .running = *running_,
                      .name = options_.alias.empty() ? running_->model.name : options_.alias,
                      .address = http_.address()};
    facts.context = engine_->context();
    facts.load_seconds = seconds_since(start);
    service_.serve({.name = facts.name,
                    .tokenizer = running_->tokenizer(),
                    .chat_template = running_->chat_template,
                    .context = facts.context,
                    .vocabulary = running_->model.vocabulary,
                    .width = model::embedding_width(running_->model),
                    .engine = *thread_,
                    .config = serve_config(facts),
                    .facts = model_facts(facts),
                    .generates = model::generates(running_->model),
                    .embeds = running_->model.pooling != model::Pooling::rank,
                    .embeds_tokens = running_->model.pooling == model::Pooling::none,
                    .ranks = running_->ranks(),
                    .rerank_template = running_->rerank_template,
                    .token_types = model::token_types(running_->model),
                    .state_width = running_->model.width});
    std::string lines = serve_lines(facts);
    lines.pop_back();
    const std::lock_guard lock(mutex_);
    messages_.write(std::move(lines));
    loaded_ = true;
  }

  void on_no_descriptor() {
    service_.connection_refused();
    const auto now = Clock::now();
    const std::lock_guard lock(mutex_);
    if (!loaded_ || now < next_warning_) return;
    next_warning_ = now + std::chrono::seconds(5);
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    messages_.write(
        fmt::format("warning: connections are refused: the process may have {} open files, and has them (ulimit -n)",
                    limit.rlim_cur));
  }

  // Called by a signal: API keys and certificates are read again. What cannot be read stays as it is.
  void reload() {
    {
      const std::lock_guard lock(mutex_);
      if (!loaded_) return;  // the files were read a moment ago
    }
    const auto attempt = [this](const char* what, auto&& read) {
      try {
        read();
        messages_.write(fmt::format("reloaded: {}", what));
      } catch (const std::exception& error) {
        messages_.write(fmt::format("not reloaded: {}: {}", what, error.what()));
      }
    };
    if (!options_.api_key_file.empty())
      attempt("API keys", [this] {
        std::ostringstream warnings;
        service_.set_keys(api_keys(options_.api_keys, options_.api_key_file, warnings));
        if (std::string text = warnings.str(); !text.empty()) messages_.write(text.substr(0, text.size() - 1));
      });
    if (!options_.tls_certificate.empty()) attempt("TLS certificate", [this] { http_.reload_tls(); });
    if (options_.api_key_file.empty() && options_.tls_certificate.empty())
      messages_.write("reloaded: nothing: there is neither --api-key-file nor --tls-cert");
  }

  // Called by a signal.
  void stop() {
    const std::lock_guard lock(mutex_);
    if (!loaded_) {
      err_ << "stopped while loading the model" << std::endl;
      ::_exit(0);  // loading cannot be interrupted, and no request was accepted yet
    }
    stops_ = true;
    changed_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    while (!stops_ && thread_->stopped().empty()) changed_.wait_for(lock, std::chrono::milliseconds(500));
  }

  // Finishes running requests, for --drain-seconds.
  int end() {
    const std::string fault = thread_->stopped();
    if (!fault.empty()) messages_.write("the device failed: " + fault);
    messages_.write(fmt::format("stopping: {} requests running, up to {} s for them", service_.in_progress(),
                                options_.drain_seconds));
    service_.drain();
    http_.drain();
    const bool all = soon(options_.drain_seconds, [this] { return service_.to_drain() == 0; });
    const size_t cut = service_.to_drain();
    if (!all) service_.cancel_all();
    http_.stop_accepting();
    soon(flush_seconds, [this] { return service_.in_progress() == 0 && http_.connections() == 0; });
    messages_.write(all ? "stopped" : fmt::format("stopped: {} requests were cut off", cut));
    return all && fault.empty() ? 0 : 1;
  }

  template <class Condition>
  static bool soon(double seconds, Condition condition) {
    for (const auto start = Clock::now(); !condition(); std::this_thread::sleep_for(std::chrono::milliseconds(10)))
      if (seconds_since(start) > seconds) return false;
    return true;
  }

  const ServeOptions& options_;
  engine::EngineOptions engine_options_;
  std::ostream& err_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool loaded_ = false, stops_ = false;
  StopSignals signals_;       // before anything that has a thread
  LogWriter messages_, log_;  // to err_, where the server runs, and to standard output
  Clock::time_point next_warning_ = Clock::now();
  std::unique_ptr<RunningModel> running_;
  std::optional<engine::Engine> engine_;
  std::optional<engine::EngineThread> thread_;
  server::Service service_;
  server::HttpServer http_;
};

}  // namespace

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

void describe_serve(CLI::App& program, std::ostream& out, std::ostream& err, int& status) {
  const auto options = std::make_shared<ServeOptions>();
  CLI::App* command = program.add_subcommand("serve", "Serve a model through an OpenAI-compatible API");
  describe_model(*command, options->model);
  const auto option = [command](const char* name, auto& value, const char* text, const char* type) {
    command->add_option(name, value, text)->type_name(type);
  };
  option("--host", options->host, "Address to listen on; 0.0.0.0 or ::: all interfaces", "ADDRESS");
  option("--port", options->port, "Port to listen on; 0: any free one", "N");
  option("--alias", options->alias, "Name of the model in the API; default: its file name", "NAME");
  command->add_option("--api-key", options->api_keys, "API key that clients must send; repeatable; default: no key")
      ->type_name("KEY")
      ->allow_extra_args(false);
  option("--api-key-file", options->api_key_file, "File of API keys, one per line; # begins a comment line", "F");
  option("--tls-cert", options->tls_certificate, "Serve HTTPS with this certificate chain", "F.pem");
  option("--tls-key", options->tls_key, "Private key of the certificate", "F.pem");
  option("--cors", options->cors_origin, "Origin whose pages may use the API from a browser; *: all", "ORIGIN");
  describe_device(*command, options->device);
  describe_draft(*command, options->device);
  option("--kv-tokens", options->kv_tokens,
         "Tokens of the KV cache, shared by all requests; 0: on a GPU the free memory, on the CPU 8 contexts or a "
         "quarter of the free memory",
         "N");
  describe_engine(*command, options->engine);
  option("--max-queue", options->max_queue, "Maximum waiting completions; more are refused with 429", "N");
  option("--max-body-mb", options->max_body_mb, "Maximum size of a request; larger ones are refused with 413", "MB");
  option("--store-mb", options->store_mb,
         "Memory for responses of /v1/responses that clients ask for again; the oldest go first; 0: none is kept",
         "MB");
  option("--max-connections", options->max_connections, "Maximum connections; more are refused with 503", "N");
  option("--http-threads", options->http_threads, "Threads that read requests and write responses", "N");
  option("--heartbeat", options->heartbeat_seconds,
         "Seconds without a token after which a stream gets a comment; 0: never", "S");
  option("--drain-seconds", options->drain_seconds, "Time for running requests after a first SIGTERM or SIGINT", "S");
  command->add_flag("--metrics-open", options->metrics_open, "Show /metrics without an API key");
  command->add_flag("--any-model", options->any_model, "Take any name of a model in requests (gpt-4o)");
  command->add_flag("--strict", options->strict, "Refuse fields of requests that have no effect");
  command->add_flag("--parse-special", options->parse_special,
                    "Control tokens may be written in messages; otherwise only the chat template writes them");
  command->add_flag("--log-prompts", options->log_prompts, "Also log prompts and completions");
  command->add_flag("--no-log", options->no_log, "Do not log requests to standard output");
  command->footer(
      "SIGTERM or SIGINT stops the server: it accepts no new requests and finishes the running ones. The exit status "
      "is\n"
      "0, or 1 if some were cut off after --drain-seconds. A second signal stops it at once, with status 1. SIGHUP "
      "makes "
      "it\n"
      "read --api-key-file, --tls-cert and --tls-key again.");
  command->callback([options, &out, &err, &status] { status = serve(*options, out, err); });
}

int serve(const ServeOptions& options, std::ostream& out, std::ostream& err) {
  check_serve_options(options);
  // A name that is not here is answered before the port is opened: the model may be pulled then.
  for (const std::string& name : {options.model, options.device.draft})
    if (name != own_model_name && store::find_remote_name(name)) find_model(name);
  raise_descriptor_limit();
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the log that goes away does not stop the server
  err.tie(nullptr);               // or a message would wait for the reader of standard output
  bool stuck = false;
  const int status = Server(options, out, err, stuck).run();
  if (stuck) ::_exit(status);  // a thread waits for the reader of the log, and would keep the process waiting, too
  return status;
}

}  // namespace heddle
