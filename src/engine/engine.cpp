// Requests: checked, submitted, cancelled and ended. engine_step.cpp computes them in between.
#include "engine/engine.h"

#include <algorithm>
#include <chrono>

#include "engine/engine_state.h"
#include "model/pooled.h"

namespace heddle::engine {
namespace {

constexpr uint32_t max_completions = 1024;

double steady_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

EngineOptions with_clock(EngineOptions options) {
  if (!options.now) options.now = steady_now;
  return options;
}

std::unique_ptr<Draft> make_draft(const model::Model& model, const EngineOptions& options) {
  const model::Model& draft = *options.draft->model;
  if (draft.vocabulary != model.vocabulary)
    throw Error("{}: expected a draft with the vocabulary of {} tokens that {} has, found {}", draft.name,
                model.vocabulary, model.name, draft.vocabulary);
  return std::make_unique<ModelDraft>(*options.draft, options.prefix_cache, options.now);
}

// Tokens see later ones in an encoder: a text is computed in one batch.
uint32_t largest_text(const model::Model& model, const model::Limits& limits) {
  const uint32_t context = std::min(model.context, limits.kv_blocks * limits.block_tokens);
  return model::is_causal(model) ? context : std::min(context, limits.rows);
}

// Of completions that were asked for together: what a client asks next goes before the later ones of these.
constexpr double seconds_between_completions = 10;
constexpr double draft_prior = 0.8;  // of a proposal to be right, before any was verified

}  // namespace

Engine::State::State(const model::Model& model, model::Backend& backend, const model::Limits& limits,
                     EngineOptions options)
    : model_(model),
      backend_(backend),
      limits_(limits),
      options_(with_clock(std::move(options))),
      context_(largest_text(model, limits)),
      store_(options_.store),
      beyond_(beyond_cache()),
      cache_(limits, limits.window_blocks ? model::windows_of(model) : model::Windows(),
             options_.prefix_cache && model::is_causal(model), beyond_, options_.kv_observer),
      draft_(options_.draft ? make_draft(model, options_) : make_head_draft()),
      schedule_(limits, options_, context_, model.short_text, cache_, pace_, following_pace_, draft_.get(),
                !model::is_causal(model), backend.computes_rows_in_groups()) {
  if (limits.rows < 2 || context_ == 0)
    throw Error("expected at least 2 rows and a block of KV cache for the engine, found {} rows, {} blocks",
                limits.rows, limits.kv_blocks);
  if (const uint32_t least = cache_.min_window_blocks(); limits.window_blocks > 0 && limits.window_blocks < least)
    throw Error("expected at least {} blocks of windows for batches of {} rows, found {}", least, limits.rows,
                limits.window_blocks);
  if (options_.max_prompt_logits == 0) throw Error("expected max_prompt_logits above 0, found 0");
  if (!(options_.max_stall > 0)) throw Error("expected a max_stall above 0 seconds, found {}", options_.max_stall);
  metrics_.ranks = options_.ranks;
  metrics_.blocks_all = limits.kv_blocks;
  metrics_.block_tokens = limits.block_tokens;
  metrics_.windows_all = limits.window_blocks;
  metrics_.slots_all = limits.state_slots;
}

// Version 1 of what the parts of a cache keep, and of how their texts are hashed.
BeyondCache Engine::State::beyond_cache() const {
  if (!store_) return {};
  if (backend_.kv_layout().empty()) throw Error("{} cannot keep its KV cache in a store", backend_.describe());
  const auto root = [&](bool is_long) {
    return TextHash::of(fmt::format("heddle kv 1\nlayout {}\nbytes {} {} {}\nformat {}\ntokens {}\nlong {}\n{}",
                                    backend_.kv_layout(), backend_.kv_part_bytes(model::KvPart::block),
                                    backend_.kv_part_bytes(model::KvPart::window),
                                    backend_.kv_part_bytes(model::KvPart::state), int(limits_.kv), limits_.block_tokens,
                                    is_long, options_.store_identity));
  };
  return {store_, root(false), root(true), backend_.kv_part_bytes(model::KvPart::block) == 0};
}

std::unique_ptr<Draft> Engine::State::make_head_draft() {
  if (!model::next_head(model_) || options_.max_predicted == 0) return nullptr;
  const auto settle = [this] {
    save_evicted();
    make_copies();
  };
  return std::make_unique<HeadDraft>(model_, backend_, limits_, options_.max_predicted, batch_number_, settle,
                                     options_.now);
}

void Engine::State::expect_possible(const Request& request) const {
  if (request.prompt.empty()) throw InvalidRequest("prompt", "expected a prompt, found none");
  for (const uint32_t token : request.prompt)
    if (token >= model_.vocabulary)
      throw InvalidRequest("prompt", "expected tokens below {}, the size of the vocabulary, found {} in the prompt",
                           model_.vocabulary, token);
  const bool generates = request.generates();
  if ((generates || request.prompt_logprobs || request.on_prompt_logits) && !model::generates(model_))
    throw InvalidRequest(
        "model", "{} generates no text: it is {}", model_.name,
        model_.classifier ? "a reranker, which scores documents" : "an encoder, which gives embeddings");
  if (request.prompt.size() > context_ - generates)
    throw InvalidRequest("prompt", "the prompt is too long: expected {} {} tokens, {}, found {}",
                         generates ? "fewer than" : "at most", context_,
                         context_ == model_.context ? "the model's context"
                         : context_ == limits_.rows ? "the rows of a batch"
                                                    : "the capacity of the KV cache",
                         request.prompt.size());
  expect_types(request);
  if (request.n == 0 || request.n > max_completions)
    throw InvalidRequest("n", "expected 1 to {} completions, found {}", max_completions, request.n);
  for (const auto& stop : request.stops)
    if (stop.empty()) throw InvalidRequest("stops", "expected at least one token in a stop sequence, found none");
  if (request.prompt_logprobs > model_.vocabulary)
    throw InvalidRequest("prompt_logprobs", "prompt_logprobs: expected 0 to {}, the size of the vocabulary, found {}",
                         model_.vocabulary, *request.prompt_logprobs);
  if (request.on_prompt_logits && (request.max_tokens > 0 || request.prompt_logprobs || request.embed))
    throw InvalidRequest("on_prompt_logits",
                         "on_prompt_logits: expected max_tokens of 0, and neither prompt_logprobs nor an embedding");
  if (request.embed && request.rank) throw InvalidRequest("rank", "expected an embedding or a rank, found both");
  if (request.embed && request.pool && model_.pooling == model::Pooling::rank)
    throw InvalidRequest("embed", "{} gives no embeddings: its pooling is rank, a score of two texts", model_.name);
  if (request.rank) {
    try {
      model::expect_ranks(model_);
    } catch (const Error& error) {
      throw InvalidRequest("rank", "{}", error.what());
    }
  }
  if ((request.offers || request.source) && !store_)
    throw InvalidRequest("kv_transfer_params", "kv_transfer_params: this engine keeps its KV cache to itself");
  if (request.constraint) expect_constrainable(request);
  try {
    validate(request.sampling, model_.vocabulary);
  } catch (const Error& error) {
    throw InvalidRequest("sampling", "{}", error.what());
  }
}

void Engine::State::expect_types(const Request& request) const {
  if (request.types.empty()) return;
  if (request.types.size() != request.prompt.size())
    throw InvalidRequest("types", "expected a token type for each of {} tokens, found {}", request.prompt.size(),
                         request.types.size());
  const uint32_t types = model::token_types(model_);
  for (const uint32_t type : request.types)
    if (type >= types) throw InvalidRequest("types", "expected token types below {}, found {}", types, type);
}

// Beyond the limit, a client may still queue up to its equal share of it, so that one client cannot fill the queue for
// all others. An empty queue accepts any request.
void Engine::State::expect_room(const Queue& queue, const Request& request) const {
  const size_t limit = options_.max_waiting;
  if (queue.all + request.n <= limit || (queue.all == 0 && limit > 0)) return;
  const auto found = queue.of_client.find(request.client);
  const size_t own = found == queue.of_client.end() ? 0 : found->second;
  const size_t clients = queue.of_client.size() + (found == queue.of_client.end());
  if ((own + request.n) * clients <= limit) return;
  throw Busy("{} sequences are waiting, the limit is {}: try again later", queue.all, limit);
}

RequestId Engine::State::submit(Request request, OnEvent on_event) {
  try {
    if (!stopped_.empty()) throw Stopped("{}", stopped_);
    std::unique_ptr<Task> task = prepare(std::move(request));
    expect_room(schedule_.queue(), task->request);
    const RequestId id = task->id;
    take(std::move(task), std::move(on_event));
    return id;
  } catch (...) {
    ++metrics_.refused;
    throw;
  }
}

std::unique_ptr<Task> Engine::State::prepare(Request request) const {
  expect_possible(request);
  Sampler sampler(request.sampling, model_.vocabulary);
  for (const uint32_t token : request.prompt) sampler.accept(token, Origin::prompt);
  auto task = std::make_unique<Task>(std::move(request), model_);
  task->id = ++last_id_;
  task->arrival = now();
  task->open = task->request.n;
  const Speculation wanted = task->request.speculation;
  const Speculation speculation = wanted == Speculation::automatic ? options_.speculation : wanted;
  for (uint32_t i = 0; i < task->open; ++i) {
    Sampler own = sampler;
    own.reseed(sampler.seed() + i);
    Sequence& s = *task->completions.emplace_back(std::make_unique<Sequence>(*task, i, std::move(own)));
    if (s.picking) s.picking->constrained = task->request.constraint.has_value();
    if (s.picking && !backend_.can_pick(*s.picking)) s.picking.reset();
    s.speculates = speculation != Speculation::off;
    s.always_speculates = speculation == Speculation::on;
    if (draft_) s.draft_payoff = Payoff(draft_->max_proposals(), draft_prior);
  }
  task->completions[0]->tokens = task->request.prompt;
  return task;
}

void Engine::State::take(std::unique_ptr<Task> task, OnEvent on_event) {
  if (!stopped_.empty()) throw Stopped("{}", stopped_);
  task->on_event = std::move(on_event);
  const double alone = pace_.expect(Load().with(task->prompt_tokens(), 0));
  for (const auto& s : task->completions) {
    s->deadline = task->arrival + alone - double(task->request.priority) + s->ordinal() * seconds_between_completions;
    schedule_.arrive(*s);
  }
  ++metrics_.submitted;
  ++metrics_.waiting;
  metrics_.prompt_tokens.add(double(task->prompt_tokens()));
  Task& taken = *tasks_.emplace(task->id, std::move(task)).first->second;
  if (!fetch_prompt(*taken.completions[0])) schedule_.wait(*taken.completions[0]);
  start_constraint(taken);
}

// False: there is nothing to wait for.
bool Engine::State::fetch_prompt(Sequence& s) {
  if (!store_) return false;
  s.long_text = model_.short_text && s.known() > model_.short_text;
  cache_.release(s);  // it has no blocks: this sets where its text begins
  const std::shared_ptr<KvSource>& source = s.task.request.source;
  std::vector<KvKey> keys = source ? cache_.wanted_of_prompt(s) : cache_.wanted_elsewhere(s);
  if (keys.empty()) return false;
  s.task.fetch = source ? store_->fetch(std::move(keys), s.long_text ? beyond_.long_root : beyond_.root, source)
                        : store_->fetch(std::move(keys));
  s.task.fetching_since = now();
  fetching_.push_back(s.task.id);
  return true;
}

// What does not fit into the store's memory is left out: the other process computes it.
std::shared_ptr<const KvOffer> Engine::State::offer_of(const Sequence& s) {
  auto offer = std::make_shared<KvOffer>();
  offer->root = s.long_text ? beyond_.long_root : beyond_.root;
  std::vector<KvCache::Kept> unread;
  for (const KvCache::Kept& kept : cache_.kept_of_prompt(s)) {
    if (const KvBytes bytes = store_->find(kept.key))
      offer->parts.emplace_back(kept.key, bytes);
    else
      unread.push_back(kept);
  }
  try {
    read_kept(unread, [&](const KvKey& key, const KvBytes& bytes) { offer->parts.emplace_back(key, bytes); });
  } catch (const std::exception&) {  // of the device: the next batch will say so
  }
  return offer;
}

void Engine::State::end_fetches() {
  std::erase_if(fetching_, [&](RequestId id) {
    const auto found = tasks_.find(id);
    if (found == tasks_.end() || found->second->completions[0]->state != Sequence::State::pending) return true;
    Task& task = *found->second;
    if (!task.fetch->done() && now() - task.fetching_since < options_.max_fetch_seconds) return false;
    schedule_.wait(*task.completions[0]);
    return true;
  });
}

Engine::Saving Engine::State::save_some() {
  constexpr size_t at_once = 16;
  if (!store_) return Saving::done;
  if (!store_->can_save()) return store_->lasts() ? Saving::later : Saving::done;
  try {
    save_evicted();
    const std::vector<KvCache::Kept> kept = cache_.next_unsaved(at_once);
    read_kept(kept, [&](const KvKey& key, const KvBytes& bytes) { store_->save(key, bytes); });
    return kept.empty() ? Saving::done : Saving::more;
  } catch (const std::exception&) {  // of the device: the next batch will say so
    return Saving::done;
  }
}

uint32_t Engine::State::prompt_progress(RequestId id) const {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return 0;
  return std::min(found->second->completions[0]->computed, found->second->prompt_tokens());
}

void Engine::State::cancel(RequestId id, const std::string& reason) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return;
  for (const auto& s : found->second->completions) request_end(*s, FinishReason::cancelled, reason);
}

void Engine::State::finish(RequestId id, uint32_t index) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end() || index >= found->second->completions.size()) return;
  Sequence& s = *found->second->completions[index];
  if (s.generated > 0) request_end(s, FinishReason::stop, "");
}

void Engine::State::request_end(Sequence& s, FinishReason finish_reason, const std::string& reason) {
  if (s.state == Sequence::State::finished || s.requested_end) return;
  s.requested_end = {finish_reason, reason};
  ending_.push_back(&s);
}

bool Engine::State::end_requested() {
  if (ending_.empty()) return false;
  for (size_t i = 0; i < ending_.size(); ++i)  // a callback may cancel others
    end(*ending_[i], ending_[i]->requested_end->finish_reason, ending_[i]->requested_end->reason);
  ending_.clear();
  return true;
}

void Engine::State::end(Sequence& s, FinishReason finish_reason, const std::string& reason) {
  if (s.state == Sequence::State::finished) return;
  schedule_.remove(s);
  for (Slice& slice : flight_.slices) {
    if (slice.sequence != &s) continue;
    slice.sequence = nullptr;
    flight_.closing = true;
  }
  leave_step(s);
  s.state = Sequence::State::finished;
  Task& task = s.task;
  const uint32_t cached = s.cached_tokens;
  const uint32_t known_prompt = s.generated > 0 ? task.prompt_tokens() : std::min(s.computed, task.prompt_tokens());
  const bool is_whole = finish_reason != FinishReason::failed && finish_reason != FinishReason::cancelled;
  const auto offer =
      task.request.offers && store_ && s.index == 0 && is_whole ? offer_of(s) : std::shared_ptr<const KvOffer>();
  cache_.release(s);
  if (draft_) draft_->release(s);
  if (--task.open == 0) finished_.push_back(task.id);
  ++metrics_.ended(finish_reason);
  if (task.generates()) metrics_.completion_tokens.add(double(s.generated));
  const Timing timing = s.timing_at(now());
  if (task.generates()) metrics_.request_seconds.add(timing.queue + timing.prompt + timing.generating);
  if (s.generated > 0) {
    metrics_.prefill_seconds.add(timing.prompt);
    metrics_.decode_seconds.add(timing.generating);
  }
  update_gauges();
  const bool computed = finish_reason == FinishReason::stop;
  emit(task, {.request = task.id,
              .index = s.index,
              .finish_reason = finish_reason,
              .reason = reason,
              .prompt_tokens = task.prompt_tokens(),
              .cached_tokens = cached,
              .computed_tokens = known_prompt - std::min(known_prompt, cached),
              .generated = s.generated,
              .prompt_picks = s.generated == 0 ? task.results.scores() : nullptr,
              .embedding = computed && task.request.embed ? task.results.embedding() : std::vector<float>(),
              .rank_score = computed && task.request.rank ? model::rank_score(task.results.labels()) : 0,
              .timing = timing,
              .steps = s.steps,
              .offer = offer});
}

// After each step, and before the end of a completion is told, so that its receiver finds the gauges without it.
void Engine::State::update_gauges() {
  metrics_.waiting = schedule_.waiting() + fetching_.size();
  metrics_.running = schedule_.running().size();
  metrics_.preemptions = schedule_.preemptions();
  metrics_.draft_faults = draft_ ? draft_->faults() : 0;
  metrics_.blocks_cached = cache_.blocks().cached();
  metrics_.blocks_in_use = cache_.blocks().count() - cache_.blocks().free();
  metrics_.windows_cached = cache_.windows().cached();
  metrics_.windows_in_use = cache_.windows().count() - cache_.windows().free();
  metrics_.slots_in_use = cache_.slots().count() - cache_.slots().free();
  metrics_.snapshots = cache_.slots().snapshots();
  metrics_.snapshots_taken = cache_.slots().kept();
  metrics_.snapshots_found = cache_.snapshots_found();
  metrics_.snapshots_dropped = cache_.slots().dropped();
  if (store_) metrics_.store = store_->metrics();
  metrics_.restored = cache_.restored();
}

// The request wanted nothing but its prompt, which is computed.
void Engine::State::end_after_prompt(Task& task) {
  for (const auto& s : task.completions) {
    if (s->requested_end) continue;
    if (s->state == Sequence::State::pending) s->share_prompt(*task.completions[0]);
    metrics_.prompt_cached += s->cached_tokens;
    end(*s, task.request.embed || task.request.rank ? FinishReason::stop : FinishReason::length);
  }
}

void Engine::State::emit(Task& task, const Event& event) {
  const double start = now();
  try {
    if (task.on_event) task.on_event(event);
  } catch (const std::exception& error) {
    cancel(task.id, fmt::format("its callback threw: {}", error.what()));
  } catch (...) {
    cancel(task.id, "its callback threw something other than an exception");
  }
  step_.emitting += now() - start;
}

void Engine::State::fail(Task& task, const std::string& reason) {
  for (const auto& s : task.completions) {
    if (s->state != Sequence::State::finished) cache_.forget(*s);
    end(*s, FinishReason::failed, reason);
  }
}

void Engine::State::fault(const std::string& reason) {
  ++metrics_.faults;
  if (!backend_.usable()) stopped_ = reason.empty() ? "the device has failed" : reason;
  for (const Slice& slice : flight_.slices)
    if (slice.sequence) fail(slice.sequence->task, reason);
  flight_.launched = flight_.taken;  // the results of batches in flight are invalid
  if (stopped_.empty()) return;
  for (const auto& [id, task] : tasks_) fail(*task, stopped_);
}

void Engine::State::remove_ended() {
  std::erase_if(ending_, [](const Sequence* s) { return s->state == Sequence::State::finished; });
  for (const RequestId id : finished_) tasks_.erase(id);
  finished_.clear();
}

void Engine::State::check_invariants() const {
  std::vector<const Sequence*> all;
  size_t waiting = 0, running = 0;
  for (const auto& [id, task] : tasks_) {
    uint32_t open = 0;
    for (const auto& s : task->completions) {
      all.push_back(s.get());
      open += s->state != Sequence::State::finished;
      waiting += s->state == Sequence::State::waiting;
      running += s->state == Sequence::State::running;
      const bool runs = s->state == Sequence::State::running;
      check(runs || (s->blocks.empty() && s->computed == 0), "only running sequences hold blocks");
      check(!runs || s->requested_end || s->behind() > 0, "a running sequence has a token to compute");
    }
    check(open == task->open && open > 0, "the count of open completions is right");
  }
  check(waiting == schedule_.waiting() && running == schedule_.running().size(),
        "all waiting and running sequences are scheduled");
  cache_.check_holders(all);
  if (draft_) draft_->check_holders(all);
}

Engine::Engine(const model::Model& model, model::Backend& backend, const model::Limits& limits, EngineOptions options)
    : state_(std::make_unique<State>(model, backend, limits, std::move(options))) {}
Engine::~Engine() = default;

RequestId Engine::submit(Request request, OnEvent on_event) {
  return state_->submit(std::move(request), std::move(on_event));
}
std::unique_ptr<Task> Engine::prepare(Request request) const { return state_->prepare(std::move(request)); }
void Engine::take(std::unique_ptr<Task> task, OnEvent on_event) { state_->take(std::move(task), std::move(on_event)); }
void Engine::expect_possible(const Request& request) const { state_->expect_possible(request); }
void Engine::expect_room(const Queue& queue, const Request& request) const { state_->expect_room(queue, request); }
Queue Engine::queue() const { return state_->queue(); }
void Engine::cancel(RequestId id) { state_->cancel(id, "cancelled"); }
void Engine::finish(RequestId id, uint32_t index) { state_->finish(id, index); }
Engine::Saving Engine::save_some() { return state_->save_some(); }
bool Engine::step() { return state_->step(); }
bool Engine::idle() const { return state_->idle(); }
uint32_t Engine::prompt_progress(RequestId id) const { return state_->prompt_progress(id); }
const std::string& Engine::stopped() const { return state_->stopped_; }
uint32_t Engine::context() const { return state_->context(); }
uint32_t Engine::max_rows() const { return state_->max_rows(); }
const Metrics& Engine::metrics() const { return state_->metrics_; }
void Engine::check_invariants() const { state_->check_invariants(); }

}  // namespace heddle::engine
