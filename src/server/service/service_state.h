// What a service knows while it runs: its options, the model, and the requests in progress.
#pragma once
#include <memory>
#include <mutex>
#include <optional>

#include "server/service/api_keys.h"
#include "server/service/routes.h"
#include "server/service/service.h"
#include "server/service/workers.h"
#include "server/status/traffic.h"

namespace heddle::server {

class ServiceState {
 public:
  explicit ServiceState(ServiceOptions options);
  ~ServiceState();

  void serve(Served served);
  void drain();
  void handle(HttpRequest request, std::shared_ptr<Responder> responder);
  void admit(const HttpRequest& head) const;
  void refuse(HttpRequest head, std::shared_ptr<Responder> responder, const ApiError& why);

  const ServiceOptions& options() const { return options_; }
  Traffic& traffic() const { return *traffic_; }
  std::shared_ptr<const ServedModel> model() const;  // null while it is being loaded
  bool draining() const;
  // See Call::on_worker.
  void on_worker(const std::shared_ptr<Exchange>& exchange, size_t bytes, std::function<void()> work);

 private:
  void dispatch(const std::shared_ptr<Exchange>& exchange);
  void call(const std::shared_ptr<Exchange>& exchange, const Route& route, TraceLevel trace);
  void no_route(Exchange& exchange, std::string allowed) const;

  const ServiceOptions options_;
  const ApiKeys keys_;
  const std::shared_ptr<Traffic> traffic_;
  std::optional<Workers> workers_;

  mutable std::mutex mutex_;  // guards the members below
  std::shared_ptr<const ServedModel> model_;
  bool draining_ = false;
};

}  // namespace heddle::server
