// The listener first, then the model: who asks meanwhile is told that it is being loaded.
#include "main/serve/serve_command.h"

#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <optional>
#include <ostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"
#include "engine/engine_thread.h"
#include "formats/gguf.h"
#include "main/device/running_model.h"
#include "main/serve/api_keys.h"
#include "main/serve/log_writer.h"
#include "main/serve/serve_report.h"
#include "main/serve/stop_signals.h"
#include "server/http/origins.h"
#include "server/http/server.h"
#include "server/service/service.h"

namespace heddle {
namespace {

constexpr double farewell = 3;  // seconds for the last bytes of answers that are made

// As many descriptors as the system lets a process have: every connection needs one.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

void expect_possible(const ServeOptions& options) {
  if (!(options.drain_seconds >= 0))
    throw Error("--drain-seconds: expected 0 or more seconds, found {}", options.drain_seconds);
  if (options.max_body_mb == 0 || options.max_body_mb > 4096)
    throw Error("--max-body-mb: expected 1 to 4096 megabytes, found {}", options.max_body_mb);
  if (options.http_threads == 0 || options.http_threads > 256)
    throw Error("--http-threads: expected 1 to 256, found {}", options.http_threads);
  if (options.max_connections == 0) throw Error("--max-connections: expected at least one, found 0");
  if (options.tls_certificate.empty() != options.tls_key.empty())
    throw Error("{}: expected {} with it, found none", options.tls_key.empty() ? "--tls-cert" : "--tls-key",
                options.tls_key.empty() ? "--tls-key" : "--tls-cert");
  if (!options.cors_origin.empty() && options.cors_origin != "*" && !server::is_origin(options.cors_origin))
    throw Error("--cors: expected * or an origin such as https://example.org, found {}",
                in_quotes(options.cors_origin));
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

// Members in the order in which they need each other: what stands last is given up first.
class Server {
 public:
  Server(const ServeOptions& options, std::ostream& out, std::ostream& err)
      : options_(options),
        engine_options_(engine_options(options.engine)),
        err_(err),
        signals_([this] { stop(); }),
        log_(out),
        service_(service_options()),
        http_(listening(), [this](server::HttpRequest request, std::shared_ptr<server::Responder> responder) {
          service_.handle(std::move(request), std::move(responder));
        }) {}

  int run() {
    err_ << fmt::format("{:<10} {}\n", "listening", http_.address()) << std::flush;
    if (!is_loopback(options_.host) && options_.api_keys.empty() && options_.api_key_file.empty())
      err_ << "warning: " << options_.host
           << " may be reached from other machines, and there is no --api-key: whoever reaches it may use it"
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
    return with;
  }
  server::ServiceOptions service_options() {
    server::ServiceOptions with{.keys = api_keys(options_.api_keys, options_.api_key_file, err_),
                                .cors_origin = options_.cors_origin,
                                .log_prompts = options_.log_prompts};
    if (!options_.no_log) with.log = [this](std::string line) { log_.write(std::move(line)); };
    return with;
  }

  void load() {
    const auto start = Clock::now();
    DeviceOptions device = options_.device;
    device.cache_tokens = options_.kv_tokens;
    device.many = true;
    running_ = open_running(options_.model, device, &err_, options_.engine.rows);
    engine_options_.max_waiting = options_.max_queue;
    engine_.emplace(running_->model, *running_->backend, running_->limits, engine_options_);
    thread_.emplace(*engine_);
    ServedFacts facts{.options = options_,
                      .running = *running_,
                      .name = options_.alias.empty() ? model_id(options_.model) : options_.alias,
                      .address = http_.address()};
    facts.context = uint32_t(std::min<uint64_t>(running_->model.context, facts.kv_tokens()));
    facts.load_seconds = seconds_since(start);
    service_.serve({.name = facts.name,
                    .tokenizer = running_->tokenizer(),
                    .chat_template = running_->chat_template,
                    .context = facts.context,
                    .vocabulary = running_->model.vocabulary,
                    .width = running_->model.width,
                    .engine = *thread_,
                    .config = serve_config(facts)});
    const std::lock_guard lock(mutex_);
    err_ << serve_lines(facts) << std::flush;
    loaded_ = true;
  }

  // By a signal.
  void stop() {
    const std::lock_guard lock(mutex_);
    if (!loaded_) {
      err_ << "stopped while the model was loaded" << std::endl;
      ::_exit(0);  // loading cannot be interrupted, and nobody was promised anything
    }
    stops_ = true;
    changed_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    while (!stops_ && thread_->stopped().empty()) changed_.wait_for(lock, std::chrono::milliseconds(500));
  }

  // Answers what is under way, for a while.
  int end() {
    const std::string fault = thread_->stopped();
    if (!fault.empty()) err_ << "the device has failed: " << fault << std::endl;
    err_ << fmt::format("ending: {} requests under way, up to {} s for them\n", service_.in_progress(),
                        options_.drain_seconds)
         << std::flush;
    service_.drain();
    http_.stop_accepting();
    const bool all = soon(options_.drain_seconds, [this] { return service_.in_progress() == 0; });
    const size_t cut = service_.in_progress();
    if (!all) service_.cancel_all();
    soon(farewell, [this] { return service_.in_progress() == 0 && http_.connections() == 0; });
    err_ << (all ? "ended" : fmt::format("ended: {} requests were cut off", cut)) << std::endl;
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
  StopSignals signals_;  // before anything that has a thread: none of them is to be ended by a signal
  LogWriter log_;
  std::unique_ptr<RunningModel> running_;
  std::optional<engine::Engine> engine_;
  std::optional<engine::EngineThread> thread_;
  server::Service service_;
  server::HttpServer http_;
};

}  // namespace

void describe_serve(CLI::App& program, std::ostream& out, std::ostream& err, int& status) {
  const auto options = std::make_shared<ServeOptions>();
  CLI::App* command = program.add_subcommand("serve", "Serve a model: an API that clients of OpenAI's can use");
  describe_model(*command, options->model);
  const auto option = [command](const char* name, auto& value, const char* text, const char* type) {
    command->add_option(name, value, text)->type_name(type)->capture_default_str();
  };
  option("--host", options->host, "The address to listen on; 0.0.0.0 or :: for all of this machine", "ADDRESS");
  option("--port", options->port, "0: any that is free", "N");
  option("--alias", options->alias, "What clients call the model; without it, its own name", "NAME");
  command
      ->add_option("--api-key", options->api_keys,
                   "A key that clients may show; may be repeated; without any, all are served")
      ->type_name("KEY")
      ->allow_extra_args(false);
  option("--api-key-file", options->api_key_file, "Keys, one in each line; lines that begin with # are not", "F");
  option("--tls-cert", options->tls_certificate, "Serve HTTPS with this certificate, and those it depends on", "F.pem");
  option("--tls-key", options->tls_key, "The key of the certificate", "F.pem");
  option("--cors", options->cors_origin, "Pages of this origin, or of all (*), may use it from a browser", "ORIGIN");
  describe_device(*command, options->device);
  option("--kv-tokens", options->kv_tokens,
         "Tokens of the KV cache, of all requests together; 0: on a GPU what is free, on the CPU 8 contexts or a "
         "quarter of what is free",
         "N");
  describe_engine(*command, options->engine);
  option("--max-queue", options->max_queue, "Requests that may wait; more are refused with 429", "N");
  option("--max-body-mb", options->max_body_mb, "Longer requests are refused with 413", "MB");
  option("--max-connections", options->max_connections, "More are refused with 503", "N");
  option("--http-threads", options->http_threads, "That read requests and write answers", "N");
  option("--drain-seconds", options->drain_seconds, "After a first SIGTERM or SIGINT, for what is under way", "S");
  command->add_flag("--log-prompts", options->log_prompts, "Write prompts and answers to the log, too");
  command->add_flag("--no-log", options->no_log, "Do not write a line for each request to standard output");
  command->footer(
      "SIGTERM and SIGINT end it: no new requests, those under way are answered. The exit status is then 0, or 1 if\n"
      "--drain-seconds did not suffice and some were cut off. A second signal ends it at once, with 1.");
  command->callback([options, &out, &err, &status] { status = serve(*options, out, err); });
}

std::string model_id(const std::string& path) {
  if (path.empty()) return "weft";
  std::filesystem::path file = std::filesystem::absolute(path).lexically_normal();
  if (!file.has_filename()) file = file.parent_path();  // "folder/"
  const std::string name = file.filename().string();
  std::string_view id = formats::gguf_model_name(name);
  if (id.ends_with(".gguf")) id.remove_suffix(5);
  return std::string(id);
}

int serve(const ServeOptions& options, std::ostream& out, std::ostream& err) {
  expect_possible(options);
  raise_descriptor_limit();
  std::signal(SIGPIPE, SIG_IGN);  // whoever read the log may have gone
  return Server(options, out, err).run();
}

}  // namespace heddle
