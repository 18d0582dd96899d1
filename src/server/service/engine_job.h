// Requests to the engine for one HTTP request: taken all or none, given up together, and told when all is over.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "server/service/exchange.h"
#include "server/service/served_model.h"

namespace heddle::server {

// The engine keeps it alive while it has something to tell.
class EngineJob : public std::enable_shared_from_this<EngineJob> {
 public:
  EngineJob(std::shared_ptr<Exchange> exchange, std::shared_ptr<const ServedModel> model);
  virtual ~EngineJob() = default;

  // Gives the engine the requests, some at a time. Throws an ApiError if one of the first is not taken; those before it
  // are cancelled then.
  void submit(std::vector<engine::Request> requests);

 protected:
  // One call after the other, not before the first requests are taken, and not after fail(). Of the request `which`: a
  // token, or the end of a copy, which has not failed.
  virtual void told(size_t which, const engine::Event& event) = 0;
  // Whether it is over already, so that it does not matter that the engine was stopped.
  virtual bool is_over(size_t /*which*/, uint32_t /*copy*/) const { return false; }
  virtual void all_ended() = 0;                       // after the last told(): the answer
  virtual void summarize(LogEntry& entry) const = 0;  // before the answer, whichever it is

  void fail(const ApiError& error);  // answers so, and cancels all
  Exchange& exchange() const { return *exchange_; }
  const ServedModel& model() const { return *model_; }

 private:
  void take_next(bool even_if_full);  // of those that wait; throws what the engine throws
  void fill();
  void on_event(size_t which, const engine::Event& event);
  void handle(size_t which, const engine::Event& event);
  void go_on();
  void cancel_all();

  const std::shared_ptr<Exchange> exchange_;
  const std::shared_ptr<const ServedModel> model_;

  std::mutex mutex_;                     // of all up to the next mutex
  std::deque<engine::Request> waiting_;  // for their turn
  size_t begun_ = 0, open_ = 0;          // requests given to the engine; copies whose end was not told
  bool over_ = false;

  std::mutex ids_mutex_;  // of what follows; who holds it asks for no other of the service
  std::vector<engine::RequestId> ids_;
  bool cancelled_ = false;
};

}  // namespace heddle::server
