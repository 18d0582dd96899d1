// The listener starts before the model is loaded, so that early requests are told to come back.
#include "main/serve/serve_command.h"

#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>

#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "main/commands/commands.h"
#include "main/device/device_memory.h"
#include "main/device/open_model.h"
#include "main/models/named_model.h"
#include "main/process.h"
#include "main/serve/engine_model.h"
#include "main/serve/log_writer.h"
#include "main/serve/served_names.h"
#include "server/events/event_publisher.h"
#include "server/http/http.h"
#include "server/service/service.h"

namespace heddle {
namespace {

constexpr size_t max_messages = 1000, max_log_lines = 100'000;  // that wait for a reader
constexpr double flush_seconds = 3;                             // for the last bytes of responses that are complete
constexpr double fault_flush_seconds = 1;                       // the same after a fault, when a group ends in 10 s

// Every connection needs a descriptor: allow as many as the system permits.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
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

uint32_t max_models_loaded(const ServeOptions& options, size_t models) {
  return options.models_max ? options.models_max : uint32_t(std::min<size_t>(models, 4));
}

double keep_alive_seconds(const ServeOptions& options) {
  if (options.keep_alive.empty()) return server::ModelsOptions::forever;
  const auto seconds = read_duration(options.keep_alive);
  if (!seconds)
    throw Error("--keep-alive: expected a duration such as 10m, 90s or 1h30m, or -1 for good, found {}",
                in_quotes(options.keep_alive));
  return *seconds < 0 ? server::ModelsOptions::forever : *seconds;
}

void expect_different_names(const std::vector<server::Loadable>& all) {
  std::set<std::string> names;
  for (const server::Loadable& one : all)
    if (!names.insert(one.card.name).second)
      throw Error("expected models with different names, found two that are called {}", in_quotes(one.card.name));
}

// Of all models.
DeviceOptions serving_device(const ServeOptions& options) {
  DeviceOptions device = options.device;
  device.cache_tokens = options.kv_tokens;
  device.many = true;
  leave_room_for_store(options.engine.kv, device);
  return device;
}

// Members are destroyed in reverse order: the listener goes before what its handlers use.
class Server {
 public:
  // `stuck` is set if the reader of the log keeps it from being written to its end: `out` must not be used any more.
  Server(const ServeOptions& options, std::ostream& out, std::ostream& err, bool& stuck)
      : options_(options),
        err_(err),
        signals_([this] { stop(); }, [this] { reload(); }),
        messages_(err, max_messages, &stuck),
        log_(out, max_log_lines, &stuck),
        models_(served_names(options)),
        device_(serving_device(options)),
        store_(device_.ranks.asked() ? nullptr : make_store(options.engine.kv, store_failures())),
        transfer_(make_transfer(options.engine.kv)),
        cpu_memory_(usable_on_cpu(device_)),
        service_(service_options()),
        http_(listening(), [this](server::HttpRequest request, std::shared_ptr<server::Responder> responder) {
          service_.handle(std::move(request), std::move(responder));
        }) {}

  int run() {
    check_events(options_.events, models_.size(), !options_.engine.no_prefix_cache);
    err_ << fmt::format("{:<10} {}\n", "listening", http_.address()) << std::flush;
    if (transfer_) err_ << fmt::format("{:<10} {}\n", "transfers", transfer_->address()) << std::flush;
    if (!is_loopback(options_.host) && options_.api_keys.empty() && options_.api_key_file.empty())
      err_ << "warning: " << options_.host
           << " may be reached from other machines, and there is no --api-key: anyone who reaches it may use it"
           << std::endl;
    if (!options_.events.endpoint.empty()) publish_events();
    if (models_.size() == 1 && options_.keep_alive.empty())
      serve_one();
    else
      serve_several();
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
    with.models = {.max_loaded = max_loaded(),
                   .keep_alive = keep_alive_seconds(options_),
                   .load_seconds = options_.load_seconds,
                   .max_waiting = options_.max_queue,
                   .say = [this](std::string line) { messages_.write(std::move(line)); }};
    return with;
  }

  void publish_events() {
    events_.emplace(event_options(options_.events, [this](std::string line) { messages_.write(std::move(line)); }));
    err_ << fmt::format("{:<10} {} {}{}\n", "KV events", server::listens_on(options_.events.endpoint) ? "at" : "to",
                        events_->endpoint(),
                        options_.events.replay.empty() ? "" : ", replayed at " + events_->replay_endpoint())
         << std::flush;
  }

  void serve_one() {
    const ServedName& model = models_.front();
    model_ = std::make_unique<EngineModel>(options_, device_, model.model, model.name, &err_, beyond());
    service_.serve(model_->served(), model.others);
    say_ready(model_->lines(), fmt::format("after {:.2f} s: ", model_->load_seconds()));
  }

  void serve_several() {
    std::vector<server::Loadable> all;
    std::string lines;
    for (const ServedName& model : models_) {
      server::Loadable one{.card = {.name = model.name}, .names = model.others};
      try {
        one.card = model_card(model.model, model.name, options_.device.context);
        lines += fmt::format("{:<10} {}: {}, {}, {}\n", "model", one.card.name, one.card.facts.architecture,
                             one.card.facts.quantization, bytes_text(double(one.card.facts.file_bytes)));
      } catch (const Error& error) {
        if (models_.size() == 1) throw;
        if (one.card.name.empty()) one.card.name = model.model;
        one.problem = error.what();
        lines += fmt::format("{:<10} {}: cannot be served: {}\n", "warning", one.card.name, one.problem);
      }
      one.load = [this, model = model.model, name = one.card.name](const std::vector<server::ModelFacts>& loaded) {
        return load(model, name, loaded);
      };
      all.push_back(std::move(one));
    }
    expect_different_names(all);
    lines += fmt::format("{:<10} up to {} at a time, {}", "loaded", max_loaded(),
                         options_.keep_alive.empty() ? "until others need their memory"
                                                     : "for " + options_.keep_alive + " after the last request");
    const std::string first = all.front().card.name;
    service_.serve(std::move(all));
    if (models_.size() == 1) service_.load(first);
    say_ready(lines, "");
  }
  uint32_t max_loaded() const { return max_models_loaded(options_, models_.size()); }

  // `lines`: without a line break at the end.
  void say_ready(const std::string& lines, const std::string& after) {
    const std::lock_guard lock(mutex_);
    messages_.write(
        fmt::format("{}\n{:<10} {}/\n{:<10} {}{}/v1", lines, "page", http_.address(), "ready", after, http_.address()));
    loaded_ = true;
  }

  // A model beside others, within the memory that these leave.
  std::unique_ptr<server::LoadedModel> load(const std::string& model, const std::string& name,
                                            const std::vector<server::ModelFacts>& loaded) {
    DeviceOptions device = device_;
    device.beside_others = !loaded.empty();
    device.shares = uint32_t(std::max<size_t>(1, max_loaded() - std::min<size_t>(max_loaded(), loaded.size())));
    uint64_t cpu = 0, gpu = 0;  // that others have
    for (const server::ModelFacts& other : loaded) {
      cpu += other.memory - other.gpu_memory;
      gpu += other.gpu_memory;
    }
    // weights in files are counted as free by the system, so those of models in memory are subtracted here
    const auto left = [&](uint64_t limit, uint64_t used) {
      if (limit && used >= limit) throw server::NoRoom("{}: the other models have all memory", name);
      return limit ? limit - used : 0;
    };
    device.cpu_memory = left(cpu_memory_, cpu);
    device.gpu_memory = left(options_.device.gpu_memory, gpu);
    std::ostringstream log;
    const auto say_log = [&] {
      if (std::string text = log.str(); !text.empty()) messages_.write(text.substr(0, text.size() - 1));
    };
    try {
      auto opened = std::make_unique<EngineModel>(options_, device, model, name, &log, beyond());
      say_log();
      return opened;
    } catch (const TooLittleMemory& error) {
      if (loaded.empty()) throw;
      throw server::NoRoom("{}", error.what());
    } catch (const Error&) {
      say_log();
      throw;
    }
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

  EngineModel::Beyond beyond() {
    return {.store = store_.get(),
            .on_store_failure = store_failures(),
            .transfer = transfer_.get(),
            .observer = events_ ? &events_->observer() : nullptr};
  }
  // On a thread of the store.
  std::function<void(const std::string&)> store_failures() {
    return [this](const std::string& what) { on_store_failure(what); };
  }
  void on_store_failure(const std::string& what) {
    const auto now = Clock::now();
    const std::lock_guard lock(mutex_);
    if (now < next_store_warning_) return;
    next_store_warning_ = now + std::chrono::seconds(5);
    messages_.write("warning: KV store: " + what);
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
    while (!stops_ && fault().empty()) changed_.wait_for(lock, std::chrono::milliseconds(500));
  }

  // Ranks may be lost while no request runs.
  std::string fault() const {
    const std::string of_requests = service_.fault();
    return of_requests.empty() && model_ ? model_->fault() : of_requests;
  }

  // Finishes running requests, for --drain-seconds.
  int end() {
    const std::string fault = this->fault();
    if (!fault.empty()) messages_.write("the device failed: " + fault);
    if (fault.empty() && options_.drain_delay > 0) {
      messages_.write(
          fmt::format("stopping: not ready any more, requests are accepted for {} s", options_.drain_delay));
      service_.retire();
      http_.retire();
      soon(options_.drain_delay, [this] { return !this->fault().empty(); });
    }
    messages_.write(fmt::format("stopping: {} requests running, up to {} s for them", service_.in_progress(),
                                options_.drain_seconds));
    service_.drain();
    http_.drain();
    const bool all = soon(options_.drain_seconds, [this] { return service_.to_drain() == 0; });
    const size_t cut = service_.to_drain();
    if (!all) service_.cancel_all();
    http_.stop_accepting();
    soon(fault.empty() ? flush_seconds : fault_flush_seconds,
         [this] { return service_.in_progress() == 0 && http_.connections() == 0; });
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
  std::ostream& err_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool loaded_ = false, stops_ = false;
  StopSignals signals_;       // before anything that has a thread
  LogWriter messages_, log_;  // to err_, where the server runs, and to standard output
  Clock::time_point next_warning_ = Clock::now(), next_store_warning_ = Clock::now();
  const std::vector<ServedName> models_;
  const DeviceOptions device_;                             // of all models
  const std::unique_ptr<tiers::TieredStore> store_;        // the same; null: there is none, or several ranks have one
  const std::unique_ptr<tiers::TransferServer> transfer_;  // the same; null: there is none
  const uint64_t cpu_memory_;                              // for all models; 0: unknown
  std::optional<server::EventPublisher> events_;
  std::unique_ptr<EngineModel> model_;  // if there is one
  server::Service service_;
  server::HttpServer http_;
};

}  // namespace

void describe_serve(CLI::App& program, std::ostream& out, std::ostream& err, int& status) {
  const auto options = std::make_shared<ServeOptions>();
  CLI::App* command = program.add_subcommand("serve", "Serve models through an OpenAI-compatible API");
  describe_serve_options(*command, *options);
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
  std::vector<std::string> names = options.models;
  names.push_back(options.device.draft);
  for (const std::string& name : names)
    if (name != own_model_name && store::find_remote_name(name)) find_model(name);
  if (options.device.ranks.asked()) {
    if (served_names(options).size() != 1 || !options.keep_alive.empty())
      throw Error("several ranks serve one model, which stays in memory: expected one, and no --keep-alive");
    if (follows(options.device))
      return follow_ranks(options.models.front(), serving_device(options), err, options.engine.rows);
  }
  raise_descriptor_limit();
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the log that goes away does not stop the server
  err.tie(nullptr);               // or a message would wait for the reader of standard output
  bool stuck = false;
  const int status = Server(options, out, err, stuck).run();
  if (stuck) ::_exit(status);  // a thread waits for the reader of the log, and would keep the process waiting, too
  return status;
}

}  // namespace heddle
