// A client may go away while its answer is being written, in the middle of a call to it: so what is done then takes a
// mutex of its own.
#include "server/service/engine_job.h"

#include "server/service/refusals.h"

namespace heddle::server {
namespace {

// Answers under way for one HTTP request: enough for a batch, and others get in between.
constexpr size_t window = 64;

// Why the engine did not take a request, for the client.
ApiError not_taken(const engine::EngineThread& engine, const Error& error) {
  if (dynamic_cast<const engine::Busy*>(&error)) return busy(error.what(), engine.metrics());
  if (dynamic_cast<const engine::Stopped*>(&error)) return server_fault(error.what());
  return bad_field("", "{}", error.what());
}

}  // namespace

EngineJob::EngineJob(std::shared_ptr<Exchange> exchange, std::shared_ptr<const ServedModel> model)
    : exchange_(std::move(exchange)), model_(std::move(model)) {}

void EngineJob::submit(std::vector<engine::Request> requests) {
  exchange_->when_given_up([weak = weak_from_this()](GivenUp) {
    if (const auto job = weak.lock()) job->cancel_all();
  });
  const std::lock_guard lock(mutex_);
  waiting_.assign(std::make_move_iterator(requests.begin()), std::make_move_iterator(requests.end()));
  try {
    fill();
  } catch (const Error& error) {
    over_ = true;
    cancel_all();
    throw not_taken(model_->engine(), error);
  }
}

// Those that the engine has no room for now come when others of these have ended. What was begun is not given up
// because others came meanwhile: the next one waits beside as many as may.
void EngineJob::fill() {
  try {
    while (!waiting_.empty() && open_ < window) take_next(begun_ > 0 && open_ == 0);
  } catch (const engine::Busy&) {
    if (open_ == 0) throw;
  }
}

void EngineJob::take_next(bool even_if_full) {
  const auto tell = [job = shared_from_this(), which = begun_](const engine::Event& event) {
    job->on_event(which, event);
  };
  const uint32_t copies = waiting_.front().n;
  const engine::RequestId id = model_->engine().submit(waiting_.front(), tell, even_if_full);
  waiting_.pop_front();
  ++begun_;
  open_ += copies;
  const std::lock_guard lock(ids_mutex_);
  ids_.push_back(id);
  if (cancelled_) model_->engine().cancel(id);
}

void EngineJob::on_event(size_t which, const engine::Event& event) {
  const std::lock_guard lock(mutex_);
  if (over_) return;
  try {
    handle(which, event);
  } catch (const std::exception& error) {
    fail(server_fault(error.what()));
  }
}

void EngineJob::handle(size_t which, const engine::Event& event) {
  const bool gone = event.finish_reason != engine::FinishReason::none && exchange_->given_up() == GivenUp::gone;
  if (event.finish_reason == engine::FinishReason::failed) return fail(server_fault(event.reason));
  if (event.finish_reason == engine::FinishReason::cancelled && !gone && !is_over(which, event.index))
    return fail(unavailable("the server is about to end, and the request was given up"));
  told(which, event);
  if (over_ || event.finish_reason == engine::FinishReason::none) return;
  --open_;
  if (gone)
    waiting_.clear();
  else
    go_on();
  if (over_ || open_ > 0) return;
  over_ = true;
  summarize(exchange_->log());
  if (gone)
    exchange_->end_gone();
  else
    all_ended();
}

void EngineJob::go_on() {
  try {
    fill();
  } catch (const Error& error) {
    fail(not_taken(model_->engine(), error));
  }
}

void EngineJob::fail(const ApiError& error) {
  over_ = true;
  cancel_all();
  summarize(exchange_->log());
  exchange_->fail(error);
}

void EngineJob::cancel_all() {
  const std::lock_guard lock(ids_mutex_);
  cancelled_ = true;
  for (const engine::RequestId id : ids_) model_->engine().cancel(id);
}

}  // namespace heddle::server
