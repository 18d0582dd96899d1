// The inside of the service: what a handler is called with, what a route is, and the state behind both: the options,
// the model, the requests in progress, API keys and workers. The table of routes is in routes.cpp.
#pragma once
#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/api/api_error.h"
#include "server/api/json.h"
#include "server/api/responses/response_store.h"
#include "server/service/exchange.h"
#include "server/service/models.h"
#include "server/service/service.h"
#include "server/status/status.h"

namespace heddle::server {

class ServiceState;

// What a handler gets. It throws an ApiError to refuse the request; any other exception is a fault of the server.
struct Call {
  ServiceState& service;
  std::shared_ptr<Exchange> exchange;
  std::shared_ptr<const ServedModel> model;  // of routes that need one
  TraceLevel trace = TraceLevel::none;

  // Reads the body by read(body, rules), or by read(body, ignored) where it does not depend on the model, then frees
  // it.
  template <class Read>
  auto read(Read&& read) const {
    IgnoredFields ignored;
    IgnoredFields* const taken = is_strict() ? nullptr : &ignored;
    auto request = [&] {
      if constexpr (std::is_invocable_v<Read, std::string, IgnoredFields*>) {
        return read(exchange->request().body, taken);
      } else {
        RequestRules rules = model->rules();
        rules.ignored = taken;
        rules.unloads_models = unloads_models();
        return read(exchange->request().body, rules);
      }
    }();
    exchange->free_body();
    tell_ignored(ignored);
    return request;
  }
  // Throws an ApiError 404 unless this means the model, or is empty, or the server takes any name.
  void expect_model(const std::string& name) const;
  // Of routes that need the list of models alone: the model that a name means. Throws an ApiError 404 if there is none.
  ListedModel describe(std::string_view name) const;
  // Continues on a worker thread, where work may take long. Throws an ApiError 429 if too much work waits there.
  // `bytes`: memory that is held until then.
  void on_worker(size_t bytes, std::function<void()> work) const;

 private:
  bool is_strict() const;
  bool unloads_models() const;
  void tell_ignored(const IgnoredFields& ignored) const;  // in a header of the response
};

struct Route {
  std::string_view method;
  std::string_view path;  // one that ends with a slash, but "/", stands for all paths that begin with it
  void (*handler)(const Call& call);
  struct Rules {
    bool needs_key = true;  // if the server has API keys
    // 503 until the models are known. A model: it is chosen by the field "model" of the body, or by that of the query,
    // and loaded first.
    enum class Needs { nothing, models, model } needs = Needs::model;
    bool has_body = false;       // JSON; a long one is read by a worker thread
    bool is_generation = false;  // new work for the engine: 503 while the server drains
    bool has_trace = false;      // takes X-Trace-Level
    bool generates = false;      // 400 if the model is an encoder
  } rules;
  ErrorBody error_body = openai_error;  // errors in the form of its protocol
  std::string_view id_header = {};      // has the id of the request in responses, besides X-Request-Id
  std::string_view only_with = {};      // a header, by which a protocol is told from another with the same path
};

struct FoundRoute {
  const Route* route = nullptr;
  std::string allowed;                  // the methods that the path has; empty: there is no such path
  ErrorBody error_body = openai_error;  // of the routes of this path, or of those nearest to it
};
FoundRoute find_route(const HttpRequest& request);

// API keys, compared in a time that reveals nothing about them.
class ApiKeys {
 public:
  explicit ApiKeys(const std::vector<std::string>& keys);  // empty: no authentication. Throws an Error for an empty key

  // By "Authorization: Bearer KEY", "x-api-key: KEY" or "api-key: KEY".
  bool allow(const HttpRequest& request) const;
  size_t size() const { return digests_.size(); }
  static uint64_t client(const HttpRequest& request);  // a number for its key

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest(std::string_view key);

  std::vector<Digest> digests_;
};

// A few threads for work that would block the network threads: templates and long texts. The queue is bounded.
class Workers {
 public:
  // Limits of the queue: the number of tasks, and their bytes together.
  Workers(size_t threads, size_t max_waiting, size_t max_bytes);
  ~Workers() { stop(); }

  void stop();  // runs what waits; nothing is taken after this
  // False: the queue is full. One task is taken whatever its size. `task` must not throw.
  bool push(size_t bytes, std::function<void()> task);

 private:
  struct Task {
    size_t bytes;
    std::function<void()> run;
  };
  void run();

  const size_t max_waiting_, max_bytes_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Task> waiting_;
  size_t bytes_ = 0;  // of the tasks that wait; one large task may take it above the limit
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

// Everything that handlers may ask of the service; Service is its public face.
class ServiceState {
 public:
  explicit ServiceState(ServiceOptions options);
  ~ServiceState();

  void retire();
  void drain();
  void set_keys(const std::vector<std::string>& keys);
  void handle(HttpRequest request, std::shared_ptr<Responder> responder);
  void admit(const HttpRequest& head) const;
  void refuse(HttpRequest head, std::shared_ptr<Responder> responder, const ApiError& why);

  const ServiceOptions& options() const { return options_; }
  Traffic& traffic() const { return *traffic_; }
  TrafficCounts counts() const;  // of the traffic, and of lost lines
  std::shared_ptr<const ApiKeys> keys() const;
  Models& models() { return *models_; }
  bool retired() const;  // or draining
  bool draining() const;
  std::shared_ptr<ResponseStore> responses() const { return responses_; }
  // See Call::on_worker.
  void on_worker(const std::shared_ptr<Exchange>& exchange, size_t bytes, std::function<void()> work);

 private:
  void dispatch(const std::shared_ptr<Exchange>& exchange);
  void call(const std::shared_ptr<Exchange>& exchange, const Route& route, TraceLevel trace);
  void call_with(std::shared_ptr<const ServedModel> model, const std::shared_ptr<Exchange>& exchange,
                 const Route& route, TraceLevel trace);
  std::string asked_model(const Exchange& exchange, const Route& route) const;
  void no_route(Exchange& exchange, std::string allowed) const;
  void send_heartbeats(const std::stop_token& stop) const;

  const ServiceOptions options_;
  const std::shared_ptr<Traffic> traffic_;
  const std::shared_ptr<ResponseStore> responses_;
  Workers workers_;
  std::optional<Models> models_;

  mutable std::mutex mutex_;  // guards the members below
  std::shared_ptr<const ApiKeys> keys_;
  bool retired_ = false, draining_ = false;

  std::jthread heartbeats_;  // ends first
};

}  // namespace heddle::server
