// What a service knows: who may, what is served, what is under way; and its routes.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "server/service/calls.h"
#include "server/service/exchange.h"
#include "server/service/keys.h"
#include "server/service/service.h"
#include "server/service/workers.h"
#include "server/status/traffic.h"

namespace heddle::server {

class Service::State {
 public:
  explicit State(ServiceOptions options);
  ~State();

  void serve(Served served);
  void drain();
  Traffic& traffic() { return *traffic_; }
  void handle(HttpRequest request, std::shared_ptr<Answer> answer);
  void admit(const HttpRequest& head) const;
  void refuse(HttpRequest head, std::shared_ptr<Answer> answer, const ApiError& why);

 private:
  using Page = void (State::*)(Exchange&) const;  // answers at once
  using MakeCall = void (*)(const Call&);
  struct Route {
    std::string_view method = "GET";
    std::string_view path;  // one that ends with a slash: and what follows
    bool for_all = false;   // without a key
    Page page = nullptr;    // this, or a call
    MakeCall call = nullptr;
    bool new_work = false;  // refused while draining
    bool traced = false;    // has a place for a trace
  };
  struct Found {
    const Route* route = nullptr;
    std::string allowed;  // methods of that path; empty: there is no such path
  };
  static std::span<const Route> routes();
  static Found find(const HttpRequest& request);

  void dispatch(const std::shared_ptr<Exchange>& exchange);
  void no_route(Exchange& exchange, std::string allowed) const;
  void call(const std::shared_ptr<Exchange>& exchange, const Route& route, TraceLevel trace);
  std::shared_ptr<const ServedModel> model(bool new_work = false) const;  // an ApiError 503 if there is none

  void live_page(Exchange& exchange) const;
  void ready_page(Exchange& exchange) const;
  void models_page(Exchange& exchange) const;
  void one_model_page(Exchange& exchange) const;
  void config_page(Exchange& exchange) const;
  void metrics_page(Exchange& exchange) const;

  const ServiceOptions options_;
  const Keys keys_;
  const std::shared_ptr<Traffic> traffic_;
  std::optional<Workers> workers_;

  mutable std::mutex mutex_;  // of what follows
  std::shared_ptr<const ServedModel> model_;
  bool draining_ = false;
};

}  // namespace heddle::server
