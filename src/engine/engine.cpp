// Requests: taken, begun, told, ended.
#include "engine/engine.h"

#include <algorithm>
#include <chrono>

#include "engine/engine_state.h"

namespace heddle::engine {
namespace {

constexpr uint32_t most_copies = 1024;

double steady_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Engine::State::State(const model::Model& model, model::Backend& backend, const model::Limits& limits,
                     EngineOptions options)
    : model_(model),
      backend_(backend),
      limits_(limits),
      options_(std::move(options)),
      context_(std::min(model.context, limits.kv_blocks * limits.block_tokens)),
      cache_(limits, options_.prefix_cache),
      schedule_(limits, options_.max_stall, context_, cache_, pace_, run_pace_) {
  if (limits.rows < 2 || context_ == 0)
    throw Error("expected at least 2 rows and a block of KV cache for the engine, found {} rows, {} blocks",
                limits.rows, limits.kv_blocks);
  if (!(options_.max_stall > 0)) throw Error("expected a max_stall above 0 s, found {}", options_.max_stall);
  if (!options_.now) options_.now = steady_now;
  metrics_.blocks_all = limits.kv_blocks;
}

// --- requests -------------------------------------------------------------------------------------------------------
void Engine::State::expect_possible(const Request& request) const {
  if (request.prompt.empty()) throw Error("expected a prompt, found none");
  for (const uint32_t token : request.prompt)
    if (token >= model_.vocabulary)
      throw Error("expected tokens below {}, the size of the vocabulary, found {} in the prompt", model_.vocabulary,
                  token);
  if (request.prompt.size() >= context_)
    throw Error("the prompt is too long: expected fewer than {} tokens, {}, found {}", context_,
                context_ < model_.context ? "what the KV cache can hold" : "the context", request.prompt.size());
  if (request.copies == 0 || request.copies > most_copies)
    throw Error("expected 1 to {} copies, found {}", most_copies, request.copies);
  for (const auto& stop : request.stops)
    if (stop.empty()) throw Error("expected a token or more in a stop, found none");
}

RequestId Engine::State::submit(Request request, OnEvent on_event) {
  try {
    if (!stopped_.empty()) throw Error("{}", stopped_);
    expect_possible(request);
    if (schedule_.waiting() >= options_.most_waiting)
      throw Busy("{} requests wait already, as many as may: try again later", schedule_.waiting());
    Sampler sampler(request.sampling, model_.vocabulary);
    for (const uint32_t token : request.prompt) sampler.accept(token, Origin::prompt);

    auto task = std::make_unique<Task>();
    task->id = last_id_ + 1;
    task->on_event = std::move(on_event);
    task->arrival = now();
    const double alone = pace_.expect(Load().with(request.prompt.size(), 0));
    task->deadline = task->arrival + alone - double(request.priority);
    task->open = request.copies;
    task->request = std::move(request);
    const Speculation asked = task->request.speculation;
    const Speculation speculation = asked == Speculation::automatic ? options_.speculation : asked;
    for (uint32_t copy = 0; copy < task->open; ++copy) {
      Sampler own = sampler;
      own.reseed(sampler.seed() + copy);
      task->copies.push_back(std::make_unique<Sequence>(*task, copy, std::move(own)));
      task->copies.back()->speculates = speculation != Speculation::off;
      task->copies.back()->always_speculates = speculation == Speculation::on;
    }
    Sequence& first = *task->copies[0];
    first.tokens = task->request.prompt;
    tasks_.emplace(task->id, std::move(task));
    schedule_.wait(first);
  } catch (...) {
    ++metrics_.refused;
    throw;
  }
  ++metrics_.submitted;
  ++metrics_.waiting;
  return ++last_id_;
}

void Engine::State::cancel(RequestId id, std::string reason) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end() || found->second->open == 0 || found->second->cancelled) return;
  found->second->cancelled = true;
  found->second->reason = std::move(reason);
  cancelled_.push_back(id);
}

bool Engine::State::end_cancelled() {
  if (cancelled_.empty()) return false;
  for (size_t i = 0; i < cancelled_.size(); ++i) {  // those told may cancel others
    Task& task = *tasks_.at(cancelled_[i]);
    for (const auto& copy : task.copies) end(*copy, Ending::cancelled, task.reason);
  }
  cancelled_.clear();
  return true;
}

// --- a step ---------------------------------------------------------------------------------------------------------
bool Engine::State::step() {
  const double start = now();
  telling_ = 0;
  bool worked = end_cancelled();
  if (run_ && go_on()) {
    worked = true;
  } else if (const auto plan = schedule_.plan(); !plan.empty()) {
    worked = true;
    if (!run_off(plan) && compute(plan)) pace_.learn(schedule_.load(), now() - start - telling_);
  }
  if (worked) metrics_.step_seconds.add(now() - start - telling_);
  tidy();
  return worked;
}

void Engine::State::end(Sequence& s, Ending ending, const std::string& reason) {
  if (s.state == Sequence::State::over) return;
  schedule_.remove(s);
  leave_run(s);
  s.state = Sequence::State::over;
  cache_.release(s);
  Task& task = s.task;
  if (--task.open == 0) over_.push_back(task.id);
  ++metrics_.ended(ending);
  tell(task, {.request = task.id,
              .copy = s.copy,
              .ending = ending,
              .reason = reason,
              .prompt = task.prompt(),
              .reused = s.reused,
              .made = s.made});
}

void Engine::State::tell(Task& task, const Event& event) {
  const double start = now();
  try {
    if (task.on_event) task.on_event(event);
  } catch (const std::exception& error) {
    cancel(task.id, fmt::format("its callback threw: {}", error.what()));
  } catch (...) {
    cancel(task.id, "its callback threw something that is no exception");
  }
  telling_ += now() - start;
}

// --- what went wrong ------------------------------------------------------------------------------------------------
void Engine::State::fail(Task& task, const std::string& reason) {
  for (const auto& copy : task.copies) {
    if (copy->state != Sequence::State::over) cache_.forget(*copy);
    end(*copy, Ending::failed, reason);
  }
}

void Engine::State::fault(const std::string& reason) {
  ++metrics_.faults;
  if (!backend_.usable()) stopped_ = reason.empty() ? "the device has failed" : reason;
  for (Sequence* s : in_batch_) fail(s->task, reason);
  if (stopped_.empty()) return;
  for (const auto& [id, task] : tasks_) fail(*task, stopped_);
}

void Engine::State::count_batch(size_t rows, size_t sequences) {
  ++metrics_.steps;
  metrics_.step_rows.add(double(rows));
  metrics_.step_sequences.add(double(sequences));
}

void Engine::State::tidy() {
  for (const RequestId id : over_) tasks_.erase(id);
  over_.clear();
  std::erase_if(cancelled_, [&](RequestId id) { return !tasks_.contains(id); });
  metrics_.waiting = schedule_.waiting();
  metrics_.running = schedule_.running().size();
  metrics_.preemptions = schedule_.preemptions();
  metrics_.blocks_cached = cache_.blocks().cached();
  metrics_.blocks_in_use = cache_.blocks().all() - cache_.blocks().free();
}

void Engine::State::check_invariants() const {
  std::vector<const Sequence*> all;
  size_t waiting = 0, running = 0;
  for (const auto& [id, task] : tasks_) {
    uint32_t open = 0;
    for (const auto& copy : task->copies) {
      all.push_back(copy.get());
      open += copy->state != Sequence::State::over;
      waiting += copy->state == Sequence::State::waiting;
      running += copy->state == Sequence::State::running;
      const bool holds = copy->state == Sequence::State::running;
      check(holds || (copy->blocks.empty() && copy->computed == 0), "only who runs holds blocks");
      check(!holds || task->cancelled || copy->behind() > 0, "there is always a token to compute");
    }
    check(open == task->open && open > 0, "as many copies have ended as were counted");
  }
  check(waiting == schedule_.waiting() && running == schedule_.running().size(), "all who wait or run are scheduled");
  cache_.check_holders(all);
}

Engine::Engine(const model::Model& model, model::Backend& backend, const model::Limits& limits, EngineOptions options)
    : state_(std::make_unique<State>(model, backend, limits, std::move(options))) {}
Engine::~Engine() = default;

RequestId Engine::submit(Request request, OnEvent on_event) {
  return state_->submit(std::move(request), std::move(on_event));
}
void Engine::cancel(RequestId id) { state_->cancel(id, "cancelled"); }
bool Engine::step() { return state_->step(); }
bool Engine::idle() const { return state_->idle(); }
const std::string& Engine::stopped() const { return state_->stopped_; }
const Metrics& Engine::metrics() const { return state_->metrics_; }
void Engine::check_invariants() const { state_->check_invariants(); }

}  // namespace heddle::engine
