#include "library/generation.h"

#include "base/error.h"
#include "base/json.h"
#include "library/calls.h"
#include "library/prompt.h"
#include "main/device/completion.h"
#include "main/device/constraint.h"

namespace heddle::library {
namespace {

heddle_finish finish_of(CompletionEnd end) {
  switch (end) {
    case CompletionEnd::max_tokens:
      return HEDDLE_FINISH_LENGTH;
    case CompletionEnd::context:
      return HEDDLE_FINISH_CONTEXT;
    case CompletionEnd::interrupted:
      return HEDDLE_FINISH_CANCELLED;
    default:
      return HEDDLE_FINISH_STOP;
  }
}

}  // namespace

std::shared_ptr<Generation> Generation::start(std::shared_ptr<SharedModel> model, const GenerationRequest& request) {
  std::shared_ptr<grammar::CompiledGrammar> compiled;
  if (request.grammar) compiled = compile_constraint(request.grammar->name, request.grammar->source);
  engine::Request wanted;
  std::shared_ptr<Generation> generation;
  model->with([&](const RunningModel& running) {
    engine::validate(request.sampling, running.model.vocabulary);
    wanted = completion_request(running, prompt_tokens(running, request), request.sampling,
                                constraint_for(running, compiled), request.max_tokens);
    generation = std::shared_ptr<Generation>(
        new Generation(model, completion_text(running, request.stop, compiled != nullptr), *wanted.sampling.seed));
  });
  generation->id_ =
      model->submit(std::move(wanted), [generation](const engine::Event& event) { generation->on_event(event); });
  return generation;
}

void Generation::on_event(const engine::Event& event) try {
  bool finish = false;
  {
    const std::lock_guard lock(mutex_);
    if (event.finish_reason != engine::FinishReason::none) {
      end(event);
    } else if (!cancelled_ && text_.end() == text::CompletionText::End::none) {
      std::string text = text_.push(event.pick.id);
      pieces_.push_back({std::move(text), {event.pick.id}});
      finish = text_.end() != text::CompletionText::End::none;
    }
  }
  arrived_.notify_all();
  if (finish) model_->finish(event.request);
} catch (const std::exception& error) {  // no memory: the engine cancels what throws
  const std::lock_guard lock(mutex_);
  failure_ = error.what();
  throw;
}

void Generation::end(const engine::Event& event) {
  ended_ = true;
  if (event.finish_reason == engine::FinishReason::failed) failure_ = event.reason;
  if (std::string rest = text_.finish(); !rest.empty() && !cancelled_) pieces_.push_back({std::move(rest), {}});
  result_.finish = finish_of(end_of(event, text_));
  if (text_.stop_string()) stop_ = *text_.stop_string();
  result_.prompt_tokens = event.prompt_tokens;
  result_.cached_tokens = event.cached_tokens;
  result_.prompt_seconds = event.timing.queue + event.timing.prompt;
  result_.generating_seconds = event.timing.generating;
}

const heddle_piece* Generation::next() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return ended_ || !pieces_.empty(); });
  if (pieces_.empty()) {
    if (!failure_.empty()) throw Error("{}", failure_);
    if (!taken_) complete();
    return nullptr;
  }
  current_ = std::move(pieces_.front());
  pieces_.pop_front();
  all_.text += current_.text;
  all_.tokens.insert(all_.tokens.end(), current_.tokens.begin(), current_.tokens.end());
  piece_ = {.text = current_.text.c_str(),
            .length = current_.text.size(),
            .tokens = current_.tokens.data(),
            .token_count = current_.tokens.size()};
  return &piece_;
}

void Generation::complete() {
  taken_ = true;
  if (cancelled_) result_.finish = HEDDLE_FINISH_CANCELLED;
  result_.text = all_.text.c_str();
  result_.length = all_.text.size();
  result_.tokens = all_.tokens.data();
  result_.token_count = all_.tokens.size();
  result_.stop = stop_.empty() || cancelled_ ? nullptr : stop_.c_str();
}

void Generation::cancel() {
  {
    const std::lock_guard lock(mutex_);
    if (ended_ && pieces_.empty()) return;
    cancelled_ = true;
    pieces_.clear();
  }
  model_->cancel(id_);
}

const heddle_result* Generation::result() const {
  const std::lock_guard lock(mutex_);
  return taken_ ? &result_ : nullptr;
}

}  // namespace heddle::library

using namespace heddle::library;

heddle_status heddle_generation_start(heddle_model* model, const heddle_request* request,
                                      heddle_generation** generation, heddle_error* error) {
  return guarded(error, HEDDLE_INVALID, [&] {
    heddle_generation*& to = expect_given(generation, "generation");
    auto started = std::make_unique<heddle_generation>();
    started->shared = Generation::start(expect_given(model, "model").shared, read_request(request));
    to = started.release();
  });
}

heddle_status heddle_generation_next(heddle_generation* generation, const heddle_piece** piece, heddle_error* error) {
  if (!generation || !piece)
    return guarded(error, HEDDLE_INVALID, [&] {
      expect_given(generation, "generation");
      expect_given(piece, "piece");
    });
  return guarded(error, HEDDLE_FAILED, [&] { *piece = generation->shared->next(); });
}

void heddle_generation_cancel(heddle_generation* generation) {
  if (generation) guarded(nullptr, HEDDLE_FAILED, [&] { generation->shared->cancel(); });
}

const heddle_result* heddle_generation_get_result(const heddle_generation* generation) {
  return generation ? generation->shared->result() : nullptr;
}

void heddle_generation_free(heddle_generation* generation) {
  heddle_generation_cancel(generation);
  delete generation;
}

heddle_status heddle_generate(heddle_model* model, const heddle_request* request, heddle_on_piece on_piece, void* data,
                              heddle_generation** generation, heddle_error* error) {
  heddle_generation* started = nullptr;
  heddle_status status = heddle_generation_start(model, request, &started, error);
  if (status != HEDDLE_OK) return status;
  const heddle_piece* piece = nullptr;
  while ((status = heddle_generation_next(started, &piece, error)) == HEDDLE_OK && piece)
    if (on_piece && on_piece(data, piece) != 0) heddle_generation_cancel(started);
  if (status != HEDDLE_OK || !generation) {
    heddle_generation_free(started);
    return status;
  }
  *generation = started;
  return HEDDLE_OK;
}
