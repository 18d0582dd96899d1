#include "server/service/engine_job.h"

namespace heddle::server {
namespace {

// Completions of one HTTP request in the engine at a time: enough to fill a batch, and other requests get their turn.
constexpr size_t max_open = 64;
// Short texts that are only read, for embeddings and ranks, may be more: as many as fill the batch that is computed and
// the next one. The engine's queue has room for 1024, so the client's other requests are not refused because of them.
constexpr size_t max_open_batches = 2, max_open_texts = 512;

}  // namespace

EngineJob::EngineJob(std::shared_ptr<Exchange> exchange, std::shared_ptr<const ServedModel> model,
                     std::string prompt_field)
    : exchange_(std::move(exchange)), model_(std::move(model)), prompt_field_(std::move(prompt_field)) {}

void EngineJob::submit(std::vector<engine::Request> requests) {
  exchange_->on_cancel([weak = weak_from_this()] {
    if (const auto job = weak.lock()) job->cancel_all();
  });
  uint32_t ordinal = 0;
  for (engine::Request& request : requests) {
    request.client = exchange_->client();
    request.ordinal = ordinal;
    ordinal += request.n;
  }
  const std::lock_guard lock(mutex_);
  waiting_.assign(std::make_move_iterator(requests.begin()), std::make_move_iterator(requests.end()));
  try {
    submit_some();
  } catch (const Error& error) {
    ended_ = true;
    cancel_all();
    throw refusal(error);
  }
  on_accepted();
}

// Why the engine refused a request, for the client.
ApiError EngineJob::refusal(const Error& error) const {
  if (dynamic_cast<const engine::Busy*>(&error)) return busy(error.what(), model_->engine().metrics());
  if (const auto* invalid = dynamic_cast<const engine::InvalidRequest*>(&error))
    return bad_field(invalid->field == "prompt" ? prompt_field_ : invalid->field == "n" ? "n" : "", "{}", error.what());
  return server_fault(error.what());
}

// Requests that do not fit into the queue now are submitted when others of this job have ended. A job that has begun is
// not dropped because the queue has filled up since: its next request is accepted even then.
void EngineJob::submit_some() {
  try {
    while (!waiting_.empty() && may_submit(waiting_.front())) submit_next(submitted_ > 0 && open_ == 0);
  } catch (const engine::Busy&) {
    if (open_ == 0) throw;
  }
}

bool EngineJob::may_submit(const engine::Request& request) const {
  if (open_ < max_open) return true;
  return !request.generates() && open_ < max_open_texts &&
         open_tokens_ < max_open_batches * model_->engine().max_rows();
}

void EngineJob::submit_next(bool even_if_full) {
  const auto on_event = [job = shared_from_this(), request = submitted_](const engine::Event& event) {
    job->receive(request, event);
  };
  const uint32_t completions = waiting_.front().n;
  const size_t tokens = waiting_.front().prompt.size();
  const engine::RequestId id = model_->engine().submit(waiting_.front(), on_event, even_if_full);
  waiting_.pop_front();
  ++submitted_;
  open_ += completions;
  open_tokens_ += completions * tokens;
  prompt_tokens_.push_back(tokens);
  const std::lock_guard lock(ids_mutex_);
  ids_.push_back(id);
  if (cancelled_) model_->engine().cancel(id);
}

void EngineJob::receive(size_t request, const engine::Event& event) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  try {
    handle(request, event);
  } catch (const std::exception& error) {
    fail(server_fault(error.what()));
  }
}

void EngineJob::handle(size_t request, const engine::Event& event) {
  using engine::FinishReason;
  const bool is_end = event.finish_reason != FinishReason::none;
  const bool client_gone = is_end && exchange_->cancelled() == Cancelled::client_gone;
  if (event.finish_reason == FinishReason::failed) return fail(server_fault(event.reason));
  if (event.finish_reason == FinishReason::cancelled && !client_gone && !is_finished(request, event.index))
    return fail(exchange_->cancelled() == Cancelled::asked
                    ? cancelled_by_request()
                    : unavailable("the request was cancelled because the server is shutting down"));
  on_event(request, event);
  if (!is_end) return;
  --open_;
  open_tokens_ -= prompt_tokens_[request];
  if (client_gone) waiting_.clear();
  try {
    submit_some();
  } catch (const Error& error) {
    return fail(refusal(error));
  }
  if (open_ > 0) return;
  ended_ = true;
  summarize(exchange_->log());
  if (client_gone)
    exchange_->end_cancelled();
  else
    on_end();
}

void EngineJob::fail(const ApiError& error) {
  ended_ = true;
  cancel_all();
  summarize(exchange_->log());
  on_error(error);
}

void EngineJob::cancel_all() {
  const std::lock_guard lock(ids_mutex_);
  cancelled_ = true;
  for (const engine::RequestId id : ids_) model_->engine().cancel(id);
}

}  // namespace heddle::server
