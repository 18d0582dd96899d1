// generate(): from a request that any protocol has read, through the engine, to the events that its writer turns into a
// response.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "server/api/generation.h"
#include "server/service/engine_job.h"
#include "server/service/service_state.h"
#include "text/completion_text.h"
#include "text/tokenizer.h"

namespace heddle::server {
namespace {

using text::CompletionText;

TokenLogprob logprob_of(const text::Tokenizer& tokenizer, text::TokenId id, float log_probability) {
  // a model may have logits for more tokens than the vocabulary has
  return {id < tokenizer.size() ? std::string(tokenizer.bytes(id)) : std::string(), log_probability, id};
}

TokenLogprobs logprobs_of(const text::Tokenizer& tokenizer, const engine::Pick& pick) {
  TokenLogprobs logprobs{.token = logprob_of(tokenizer, pick.id, pick.log_probability)};
  logprobs.in_text = pick.id < tokenizer.size() && !tokenizer.is_special(pick.id);
  logprobs.top.reserve(pick.top.size());
  for (const engine::TokenLogprob& top : pick.top)
    logprobs.top.push_back(logprob_of(tokenizer, top.id, top.log_probability));
  return logprobs;
}

struct Completion {
  CompletionText text;
  std::vector<TokenLogprobs> pending;  // of tokens with text that is not shown yet
  uint32_t reported = 0;               // tokens with log-probabilities that were given out
  std::vector<text::TokenId> ids;      // where they are asked for: of tokens with text that is not shown yet
  uint32_t reported_ids = 0;           // that were given out
  CompletionCost cost;
  double log_probability = 0;  // of all its tokens together
  bool begun = false;
  std::optional<Finish> finish;
  TextDelta held;      // its text, where it may not be among the best
  std::string logged;  // its text, where that is logged

  double mean_log_probability() const { return text.tokens() ? log_probability / text.tokens() : 0; }
};

// By vLLM's names. Blocks are found by content: their numbers count them.
std::string transfer_json(const engine::KvAddress& address, const engine::KvOffer& offer) {
  std::vector<size_t> blocks(offer.blocks());
  std::iota(blocks.begin(), blocks.end(), 0u);
  return Json{{"do_remote_prefill", true},          {"do_remote_decode", false},
              {"remote_engine_id", address.engine}, {"remote_request_id", address.request},
              {"remote_block_ids", blocks},         {"remote_host", address.host},
              {"remote_port", address.port}}
      .dump();
}

class GenerationJob : public EngineJob {
 public:
  GenerationJob(const Call& call, GenerationRequest request, std::unique_ptr<GenerationWriter> writer,
                const Preparation& preparation)
      : EngineJob(call.exchange, call.model, request.prompt_field),
        request_(std::move(request)),
        end_tokens_(request_.stop_tokens),
        writer_(std::move(writer)),
        trace_(call.trace),
        preparation_(preparation) {
    const std::vector<text::TokenId>& own =
        request_.end_tokens ? *request_.end_tokens : model().tokenizer().end_tokens();
    if (!request_.ignore_eos) end_tokens_.insert(end_tokens_.end(), own.begin(), own.end());
    const size_t count = request_.prompts.size() * request_.best_of;
    completions_.reserve(count);
    for (size_t i = 0; i < count; ++i)
      completions_.push_back(
          {.text = {model().tokenizer(), end_tokens_, request_.stop_strings, request_.shown_tokens}});
  }

  void begin();  // throws an ApiError if the constraint cannot be kept, or the engine does not take it

 private:
  engine::Constrained compile() const;
  std::shared_ptr<grammar::TokenMasks> compile_masks() const;
  void on_accepted() override { writer_->on_accepted(); }
  void on_event(size_t request, const engine::Event& event) override;
  bool is_finished(size_t request, uint32_t index) const override {
    return completions_[number(request, index)].finish.has_value();
  }
  void on_end() override;
  void on_error(const ApiError& error) override { writer_->on_error(error); }
  void summarize(LogEntry& entry) const override;

  size_t number(size_t request, uint32_t index) const { return request * request_.best_of + index; }
  bool chooses_best() const { return request_.best_of > request_.n; }
  void begin_text(size_t request, uint32_t index, const engine::Event& event);
  TextDelta delta(Completion& completion, std::string text) const;
  void emit(uint32_t index, TextDelta delta);
  void finish(uint32_t index, Finish finish);
  void end(uint32_t index, const engine::Event& event);
  std::vector<uint32_t> chosen() const;
  Usage usage() const;

  const GenerationRequest request_;
  std::vector<text::TokenId> end_tokens_;
  std::vector<Completion> completions_;  // best_of for each prompt
  const std::unique_ptr<GenerationWriter> writer_;
  uint64_t cached_tokens_ = 0;
  std::string kv_transfer_;                    // for the response
  std::optional<double> first_token_, queue_;  // seconds
  const TraceLevel trace_;
  const Preparation preparation_;
  std::vector<CompletionTrace> traces_;
};

std::shared_ptr<grammar::TokenMasks> GenerationJob::compile_masks() const {
  if (request_.answer) try {
      return model().constraints().compile({request_.answer->key, request_.answer->make, request_.shown_tokens});
    } catch (const ApiError&) {
      throw;
    } catch (const Error& error) {
      throw ApiError(400, "invalid_value", request_.answer->field, "{}: {}", request_.answer->field, error.what());
    }
  try {
    return model().constraints().compile(request_.constraint->source);
  } catch (const Error& error) {
    throw constraint_refused(*request_.constraint, error);
  }
}

engine::Constrained GenerationJob::compile() const {
  engine::Constrained compiled{.masks = compile_masks()};
  if (request_.answer) compiled.budget = request_.answer->budget;
  const std::vector<text::TokenId>& own = request_.end_tokens ? *request_.end_tokens : model().tokenizer().end_tokens();
  const auto has_logits = [&](text::TokenId id) { return id < model().card().vocabulary; };
  const bool marks = !request_.shown_tokens.empty();
  compiled.tokenize = [&tokenizer = model().tokenizer(), marks](std::string_view text) -> std::vector<text::TokenId> {
    try {
      return tokenizer.encode(text, {.add_special = false, .parse_special = marks});
    } catch (const Error&) {  // the vocabulary has no token for it: nothing is proposed
      return {};
    }
  };
  if (!request_.ignore_eos) std::copy_if(own.begin(), own.end(), std::back_inserter(compiled.end_tokens), has_logits);
  return compiled;
}

void GenerationJob::begin() {
  const uint32_t vocabulary = model().card().vocabulary;
  engine::Request request{.sampling = request_.sampling,
                          .n = request_.best_of,
                          .priority = request_.priority,
                          .speculation = request_.speculation,
                          .reuse = request_.reuse};
  if (request_.remote_decode || request_.remote_prefill) {
    if (!model().served().transfer)
      throw ApiError(400, "invalid_value", "kv_transfer_params",
                     "kv_transfer_params: expected a server with --kv-transfer, found one without");
    request.offers = request_.remote_decode;
    if (request_.remote_prefill) request.source = model().served().transfer->source(*request_.remote_prefill);
  }
  request.sampling.dry_breakers = text::dry_breaker_tokens(request_.dry_sequence_breakers, model().tokenizer());
  std::erase_if(request.sampling.dry_breakers, [&](const std::vector<text::TokenId>& ids) {
    return std::any_of(ids.begin(), ids.end(), [&](text::TokenId id) { return id >= vocabulary; });
  });
  for (const text::TokenId id : end_tokens_) request.stops.push_back({id});
  if (request_.constraint || request_.answer) request.constraint = compile();
  request.trace = trace_ == TraceLevel::step;
  if (request_.echo) request.prompt_logprobs = request_.sampling.logprobs;
  // the best completions are found by their probability
  if (chooses_best() && !request.sampling.logprobs) request.sampling.logprobs = 0;
  std::vector<engine::Request> requests(request_.prompts.size(), request);
  uint32_t clamped = engine::no_limit;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = request_.prompts[i];
    const auto room = uint32_t(model().context() - request_.prompts[i].size());
    requests[i].max_tokens = std::min(request_.max_tokens.value_or(room), room);
    if (request_.max_tokens.value_or(0) > room) clamped = std::min(clamped, room);
  }
  if (clamped != engine::no_limit) exchange().add_header("X-Heddle-Clamped", fmt::format("max_tokens={}", clamped));
  submit(std::move(requests));
}

void GenerationJob::on_event(size_t request, const engine::Event& event) {
  const auto index = uint32_t(number(request, event.index));
  Completion& completion = completions_[index];
  if (!completion.begun) {
    begin_text(request, index, event);
    if (request_.constraint && !request_.answer) completion.text.keep_first();
  }
  if (event.finish_reason != engine::FinishReason::none) return end(index, event);
  if (!first_token_) first_token_ = exchange().seconds();
  if (completion.finish) return;
  completion.log_probability += event.pick.log_probability;
  if (request_.token_ids) completion.ids.push_back(event.pick.id);
  if (request_.sampling.logprobs) completion.pending.push_back(logprobs_of(model().tokenizer(), event.pick));
  emit(index, delta(completion, completion.text.push(event.pick.id)));
  if (completion.text.end() == CompletionText::End::end_token) return finish(index, {Finish::Reason::end_token});
  if (!completion.text.stop_string()) return;
  finish(index, {Finish::Reason::stop_string, *completion.text.stop_string()});
  model().engine().finish(event.request, event.index);  // it knows the end tokens, but no texts
}

void GenerationJob::begin_text(size_t request, uint32_t index, const engine::Event& event) {
  Completion& completion = completions_[index];
  completion.begun = true;
  if (!request_.continues_prompt) return;
  const std::span<const text::TokenId> prompt = request_.prompts[request];
  if (!request_.echo) {
    completion.text.follow(prompt.last(1));
    return;
  }
  TextDelta echo{.text = completion.text.follow(prompt)};
  if (request_.sampling.logprobs && event.prompt_picks) {
    for (const engine::Pick& pick : *event.prompt_picks)
      echo.logprobs.push_back(logprobs_of(model().tokenizer(), pick));
    if (!echo.logprobs.empty()) echo.logprobs[0].has_logprob = false;
  }
  emit(index, std::move(echo));
}

// The text that may be shown now, with the log-probabilities of its tokens.
TextDelta GenerationJob::delta(Completion& completion, std::string text) const {
  TextDelta delta{.text = std::move(text)};
  if (request_.token_ids) {
    const auto end = completion.ids.begin() + (completion.text.shown_tokens() - completion.reported_ids);
    delta.tokens.assign(completion.ids.begin(), end);
    completion.ids.erase(completion.ids.begin(), end);
    completion.reported_ids = completion.text.shown_tokens();
  }
  if (!request_.sampling.logprobs) return delta;
  const auto next = completion.pending.begin() + (completion.text.shown_tokens() - completion.reported);
  delta.logprobs.assign(std::make_move_iterator(completion.pending.begin()), std::make_move_iterator(next));
  completion.pending.erase(completion.pending.begin(), next);
  completion.reported = completion.text.shown_tokens();
  return delta;
}

void GenerationJob::emit(uint32_t index, TextDelta delta) {
  if (delta.empty()) return;
  Completion& completion = completions_[index];
  if (exchange().logs_prompts()) completion.logged += delta.text;
  if (!chooses_best()) return writer_->on_text(index, std::move(delta));
  completion.held.text += delta.text;
  std::move(delta.logprobs.begin(), delta.logprobs.end(), std::back_inserter(completion.held.logprobs));
}

void GenerationJob::finish(uint32_t index, Finish finish) {
  completions_[index].finish = std::move(finish);
  if (!chooses_best()) writer_->on_finish(index, *completions_[index].finish);
}

// The engine has ended it.
void GenerationJob::end(uint32_t index, const engine::Event& event) {
  using engine::FinishReason;
  Completion& completion = completions_[index];
  if (!completion.finish) {
    emit(index, delta(completion, completion.text.finish()));
    if (const std::string* stop = completion.text.stop_string())
      finish(index, {Finish::Reason::stop_string, *stop});
    else if (event.finish_reason == FinishReason::stop)
      finish(index, {Finish::Reason::end_token});
    else if (event.finish_reason == FinishReason::length && request_.max_tokens == completion.text.tokens())
      finish(index, {Finish::Reason::max_tokens});
    else if (event.finish_reason != FinishReason::cancelled)
      finish(index, {Finish::Reason::context});
  }
  completion.cost = {.tokens = completion.text.tokens(), .cached = event.cached_tokens, .timing = event.timing};
  if (event.index == 0) cached_tokens_ += event.cached_tokens;
  if (!queue_) queue_ = event.timing.queue;
  if (event.offer) kv_transfer_ = transfer_json(model().served().transfer->offer(*event.offer), *event.offer);
  traces_.push_back({index, event.timing, event.steps});
}

// Of completions that have begun, whether or not they finished.
Usage GenerationJob::usage() const {
  Usage usage{.cached = cached_tokens_};
  usage.kv_transfer = kv_transfer_;
  for (const Completion& completion : completions_) {
    usage.completion += completion.text.tokens();
    if (!chooses_best()) usage.completions.push_back(completion.cost);
  }
  for (size_t i = 0; i < request_.prompts.size(); ++i)
    if (completions_[number(i, 0)].begun) usage.prompt += request_.prompts[i].size();
  return usage;
}

// The completions that are returned, in this order.
std::vector<uint32_t> GenerationJob::chosen() const {
  std::vector<uint32_t> all(completions_.size());
  std::iota(all.begin(), all.end(), 0u);
  if (!chooses_best()) return all;
  std::vector<uint32_t> best;
  for (auto group = all.begin(); group != all.end(); group += request_.best_of) {
    std::stable_sort(group, group + request_.best_of, [&](uint32_t a, uint32_t b) {
      return completions_[a].mean_log_probability() > completions_[b].mean_log_probability();
    });
    best.insert(best.end(), group, group + request_.n);
  }
  return best;
}

void GenerationJob::on_end() {
  if (chooses_best()) {
    uint32_t index = 0;
    for (const uint32_t one : chosen()) {
      if (!completions_[one].held.empty()) writer_->on_text(index, std::move(completions_[one].held));
      writer_->on_finish(index++, *completions_[one].finish);
    }
  }
  std::sort(traces_.begin(), traces_.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  writer_->on_end(usage(), trace_json(trace_, preparation_, traces_, exchange().seconds()));
}

void GenerationJob::summarize(LogEntry& entry) const {
  entry.user = request_.user;
  entry.tokens = usage();
  entry.queue = queue_;
  entry.first_token = first_token_;
  entry.trace = trace_json(TraceLevel::request, preparation_, traces_, exchange().seconds());
  for (const uint32_t index : chosen()) {
    const Completion& completion = completions_[index];
    if (completion.finish) entry.finish_reasons.push_back(std::string(openai_name(*completion.finish)));
    if (exchange().logs_prompts()) entry.completions.push_back(completion.logged);
  }
}

}  // namespace

ApiError constraint_refused(const ConstraintField& constraint, const Error& error) {
  const std::string_view what = error.what();  // may begin with a JSON pointer
  return {400, "invalid_value", constraint.field, "{}{}{}", constraint.field, what.starts_with('#') ? "" : ": ", what};
}

void generate(const Call& call, GenerationRequest request, std::unique_ptr<GenerationWriter> writer,
              const Preparation& preparation) {
  const bool takes_long = request.constraint || request.answer || !request.dry_sequence_breakers.empty();
  const auto job = std::make_shared<GenerationJob>(call, std::move(request), std::move(writer), preparation);
  if (!takes_long) return job->begin();
  // Breakers are looked for in every token of the vocabulary, and constraints compiled: too long for a network thread.
  call.on_worker(0, [job] { job->begin(); });
}

}  // namespace heddle::server
