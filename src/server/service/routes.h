// What a handler gets, and what a route is. The table of routes is in routes.cpp.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/api/api_error.h"
#include "server/service/exchange.h"
#include "server/service/served_model.h"
#include "server/status/trace.h"

namespace heddle::server {

class ServiceState;

// Handlers throw an ApiError for what cannot be done. Whatever else they throw is a fault of the server.
struct Call {
  ServiceState& service;
  std::shared_ptr<Exchange> exchange;
  std::shared_ptr<const ServedModel> model;  // null while it is being loaded, for routes that do not need it
  TraceLevel trace = TraceLevel::none;

  // Reads the body by read(body, rules), then frees it.
  template <class Read>
  auto read(Read&& read) const {
    auto request = read(exchange->request().body, model->rules());
    exchange->free_body();
    return request;
  }
  // Throws an ApiError 404 unless this is the model's name, or empty.
  void expect_model(const std::string& name) const;
  // Continues on a worker thread, where it may take its time. Throws an ApiError 429 if too much waits there. `bytes`:
  // memory that is held until then.
  void on_worker(size_t bytes, std::function<void()> work) const;
};

struct Route {
  std::string_view method;
  std::string_view path;  // one that ends with a slash stands for all paths that begin with it
  void (*handler)(const Call& call);
  struct Rules {
    bool needs_key = true;       // if the server has API keys
    bool needs_model = true;     // 503 while the model is being loaded
    bool has_body = false;       // JSON; a long one is read by a worker thread
    bool is_generation = false;  // new work for the engine: 503 while the server drains
    bool has_trace = false;      // takes X-Trace-Level
  } rules;
  ErrorBody error_body = openai_error;  // errors in the form of its protocol
};

struct FoundRoute {
  const Route* route = nullptr;
  std::string allowed;  // the methods that the path has; empty: there is no such path
};
FoundRoute find_route(const HttpRequest& request);

}  // namespace heddle::server
