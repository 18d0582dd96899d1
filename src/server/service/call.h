// A request on its way to the handler of its route.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "server/service/exchange.h"
#include "server/service/served_model.h"
#include "server/status/trace.h"

namespace heddle::server {

class ServiceState;

// Handlers throw an ApiError for what cannot be done. Whatever else they throw is a fault of the server.
struct Call {
  ServiceState& service;
  std::shared_ptr<Exchange> exchange;
  std::shared_ptr<const ServedModel> model;  // null only while it is loaded, for routes that do not need it
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

}  // namespace heddle::server
