// The engine requests that one HTTP request needs: all or none are accepted, they are cancelled together, and the
// response is complete when the last has ended.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/service/exchange.h"
#include "server/service/service.h"

namespace heddle::server {

// The engine keeps it alive until the last of its requests has ended.
class EngineJob : public std::enable_shared_from_this<EngineJob> {
 public:
  // `prompt_field`: the field of the body that the prompts came from, for errors.
  EngineJob(std::shared_ptr<Exchange> exchange, std::shared_ptr<const ServedModel> model, std::string prompt_field);
  virtual ~EngineJob() = default;

  // Submits the requests, up to 64 completions at a time, or up to 512 texts that fill two batches. Throws an ApiError
  // if the engine refuses one of the first; those before it are cancelled then.
  void submit(std::vector<engine::Request> requests);

 protected:
  virtual void on_accepted() {}  // first, once the engine has taken the first of the requests
  // Called one after the other, never before submit() returns and never after an error.
  virtual void on_event(size_t request, const engine::Event& event) = 0;  // a token, or an end other than a failure
  virtual void on_end() = 0;                                              // after the last event: respond
  virtual void on_error(const ApiError& error) = 0;                       // respond with it
  virtual void summarize(LogEntry& entry) const = 0;                      // before the response, whichever it is
  // Whether a completion has ended for this job, so that it does not matter how the engine ends it.
  virtual bool is_finished(size_t /*request*/, uint32_t /*index*/) const { return false; }

  Exchange& exchange() const { return *exchange_; }
  const ServedModel& model() const { return *model_; }

 private:
  bool may_submit(const engine::Request& request) const;  // the engine has few of this job
  void submit_next(bool even_if_full);                    // throws what the engine throws
  void submit_some();
  void receive(size_t request, const engine::Event& event);
  void handle(size_t request, const engine::Event& event);
  void fail(const ApiError& error);
  void cancel_all();
  ApiError refusal(const Error& error) const;

  const std::shared_ptr<Exchange> exchange_;
  const std::shared_ptr<const ServedModel> model_;
  const std::string prompt_field_;

  std::mutex mutex_;                     // guards the members up to the next mutex
  std::deque<engine::Request> waiting_;  // not yet given to the engine
  size_t submitted_ = 0;                 // requests
  size_t open_ = 0;                      // completions that the engine has not ended
  size_t open_tokens_ = 0;               // of their prompts
  std::vector<size_t> prompt_tokens_;    // of each request that was submitted
  bool ended_ = false;

  // Cancellation has a mutex of its own: a client may go away in the middle of a write to it, which happens under the
  // other one. No other mutex of the service is taken under this one.
  std::mutex ids_mutex_;
  std::vector<engine::RequestId> ids_;
  bool cancelled_ = false;
};

}  // namespace heddle::server
