#include "server/service/text_job.h"

#include <algorithm>
#include <numeric>

#include "server/service/random_id.h"

namespace heddle::server {
namespace {

AnswerRules rules_for(const text::Tokenizer& tokenizer, const Generation& generation) {
  AnswerRules rules{.tokenizer = tokenizer, .stops = generation.stops, .end_tokens = generation.stop_ids};
  const std::vector<text::TokenId>& own = tokenizer.end_tokens();
  if (!generation.ignore_eos) rules.end_tokens.insert(rules.end_tokens.end(), own.begin(), own.end());
  rules.reports = generation.sampling.logprobs.has_value();
  return rules;
}

ReplyHead head_for(bool chat, const ServedModel& model) {
  return {random_id(chat ? "chatcmpl-" : "cmpl-"), unix_time(), model.served().name};
}

}  // namespace

TextJob::TextJob(std::shared_ptr<Exchange> its_exchange, std::shared_ptr<const ServedModel> its_model, TextTask task)
    : EngineJob(std::move(its_exchange), std::move(its_model)),
      task_(std::move(task)),
      rules_(rules_for(model().tokenizer(), task_.generation)),
      reply_(exchange(), head_for(task_.chat, model()),
             {.chat = task_.chat,
              .stream = task_.generation.stream,
              .usage = task_.generation.include_usage,
              .reports = rules_.reports},
             task_.prompts.size() * task_.best_of) {
  check(!task_.generation.stream || task_.best_of == task_.generation.n, "what is streamed is given");
  const size_t count = task_.prompts.size() * task_.best_of;
  answers_.reserve(count);
  for (size_t i = 0; i < count; ++i) answers_.emplace_back(rules_);
  begun_.resize(count);
}

void TextJob::begin() {
  const Generation& generation = task_.generation;
  engine::Request request{.sampling = generation.sampling,
                          .n = task_.best_of,
                          .priority = generation.priority,
                          .speculation = generation.speculation,
                          .reuse = generation.reuse};
  for (const text::TokenId id : rules_.end_tokens) request.stops.push_back({id});
  request.trace = task_.trace == TraceLevel::step;
  if (task_.echo) request.prompt_logprobs = generation.sampling.logprobs;
  // the best ones are found by their probability
  if (task_.best_of > generation.n && !request.sampling.logprobs) request.sampling.logprobs = 0;
  std::vector<engine::Request> requests(task_.prompts.size(), request);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = task_.prompts[i];
    requests[i].max_tokens =
        generation.max_tokens.value_or(uint32_t(model().served().context - task_.prompts[i].size()));
  }
  submit(std::move(requests));
}

void TextJob::told(size_t which, const engine::Event& event) {
  const auto index = uint32_t(number(which, event.index));
  AnswerText& answer = answers_[index];
  if (!begun_[index]) first_of(which, index, event);
  if (event.finish_reason != engine::FinishReason::none) return end(index, event);
  if (!first_token_) first_token_ = exchange().seconds();
  if (answer.over()) return;
  reply_.add(index, answer.push(event.pick));
  if (!answer.over()) return;
  reply_.end(index, "stop");
  // tokens that end an answer the engine knows itself
  if (answer.met_stop_text()) model().engine().finish(event.request, event.index);
}

// An answer of a chat is a text of its own, a completion goes on from its prompt.
void TextJob::first_of(size_t which, uint32_t index, const engine::Event& event) {
  begun_[index] = true;
  if (task_.chat) return;
  const std::span<const text::TokenId> prompt = task_.prompts[which];
  if (!task_.echo) {
    answers_[index].follow(prompt.last(1));
    return;
  }
  Piece piece{.text = answers_[index].follow(prompt)};
  if (rules_.reports && event.prompt_picks) {
    for (const engine::Pick& pick : *event.prompt_picks) piece.reports.push_back(report_of(rules_.tokenizer, pick));
    if (!piece.reports.empty()) piece.reports[0].has_chance = false;
  }
  reply_.add(index, std::move(piece));
}

void TextJob::end(uint32_t index, const engine::Event& event) {
  AnswerText& answer = answers_[index];
  if (!answer.over()) {
    reply_.add(index, answer.finish());
    if (event.finish_reason != engine::FinishReason::cancelled)
      reply_.end(index, answer.over() || event.finish_reason == engine::FinishReason::stop ? "stop" : "length");
  }
  if (event.index == 0) cached_ += event.cached_tokens;
  if (!queue_) queue_ = event.timing.queue;
  if (task_.trace != TraceLevel::none) traces_.push_back({index, event.timing, event.steps});
}

// So far: an answer that was begun counts, whether it came to its end or not.
Usage TextJob::usage() const {
  Usage usage{.cached = cached_};
  for (const AnswerText& answer : answers_) usage.completion += answer.made();
  for (size_t i = 0; i < task_.prompts.size(); ++i)
    if (begun_[number(i, 0)]) usage.prompt += task_.prompts[i].size();
  return usage;
}

std::vector<uint32_t> TextJob::kept() const {
  std::vector<uint32_t> all(answers_.size());
  std::iota(all.begin(), all.end(), 0u);
  const uint32_t copies = task_.generation.n;
  if (task_.best_of == copies) return all;
  std::vector<uint32_t> best;
  for (auto group = all.begin(); group != all.end(); group += task_.best_of) {
    std::stable_sort(group, group + task_.best_of, [&](uint32_t a, uint32_t b) {
      return answers_[a].mean_log_probability() > answers_[b].mean_log_probability();
    });
    best.insert(best.end(), group, group + copies);
  }
  return best;
}

void TextJob::all_ended() {
  std::vector<AnswerTrace> traces = traces_;
  std::sort(traces.begin(), traces.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  reply_.finish(usage(), trace_json(task_.trace, task_.preparation, traces, exchange().seconds()), kept());
}

void TextJob::summarize(LogEntry& entry) const {
  entry.model = model().served().name;
  entry.user = task_.generation.user;
  entry.tokens = usage();
  entry.queue = queue_;
  entry.first_token = first_token_;
  for (const uint32_t index : kept()) {
    if (!reply_.finish_of(index).empty()) entry.finishes.push_back(reply_.finish_of(index));
    if (exchange().logs_prompts()) entry.texts.push_back(reply_.text_of(index));
  }
}

}  // namespace heddle::server
