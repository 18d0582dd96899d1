// Events are handled between steps, not within them: whatever showing a text throws reaches the caller.
#include "main/commands/generate.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/error.h"
#include "main/progress.h"

namespace heddle {
namespace {

using text::TokenId;
using End = Generated::End;

const char* words_of(End end) {
  switch (end) {
    case End::end_token:
      return "the model ended";
    case End::stop_string:
      return "a stop string came";
    case End::complete:
      return "the text is complete";
    case End::max_tokens:
      return "as many as asked for";
    case End::context:
      return "the context is full";
    case End::interrupted:
      return "interrupted";
  }
  return "";
}

double per_second(uint32_t tokens, double seconds) { return tokens == 0 ? 0 : double(tokens) / seconds; }

// A request under way: its events, and its end where something else ends before it.
class UnderWay {
 public:
  UnderWay(engine::Engine& engine, engine::Request request)
      : engine_(engine),
        id_(engine.submit(std::move(request), [this](const engine::Event& event) { events_.push_back(event); })) {}
  ~UnderWay() {
    engine_.cancel(id_);
    while (!engine_.idle()) engine_.step();
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

  engine::RequestId id() const { return id_; }
  std::vector<engine::Event> step() {
    engine_.step();
    return std::exchange(events_, {});
  }

 private:
  engine::Engine& engine_;
  std::vector<engine::Event> events_;
  engine::RequestId id_;
};

}  // namespace

std::string figures(const Generated& g) {
  std::string prompt = fmt::format("prompt {} tokens", g.prompt);
  if (g.cached) prompt += fmt::format(" ({} cached)", g.cached);
  if (g.computed + g.cached < g.prompt) prompt += fmt::format(" ({} computed)", g.computed);
  std::string draft;
  if (g.drafted) draft = fmt::format("; draft: {} of {} accepted", g.drafted->accepted, g.drafted->proposed);
  return fmt::format("{}, {:.1f} tok/s; generated {} tokens, {:.1f} tok/s ({}){}; seed {}", prompt,
                     per_second(g.computed, g.prompt_seconds), g.generated,
                     per_second(g.generated, g.generating_seconds), words_of(g.end), draft, g.seed);
}

engine::EngineOptions single_user(const RunningModel& running) {
  engine::EngineOptions options{.speculation = engine::Speculation::off};
  running.set_draft(options);
  if (running.drafts()) options.speculation = engine::Speculation::automatic;
  // On a CPU a batch takes half a second, so that Ctrl-C is heard; how a prompt is cut does not show in the text. On a
  // GPU it might, and the largest batch takes less.
  if (running.gpu) options.max_stall = INFINITY;
  return options;
}

void compute_logits(engine::Engine& engine, std::vector<TokenId> text, uint32_t from,
                    const std::function<void(uint32_t, std::span<const float>)>& each,
                    const std::function<void(uint32_t)>& progress) {
  UnderWay under_way(
      engine,
      {.prompt = std::move(text), .max_tokens = 0, .reuse = false, .on_prompt_logits = each, .logits_from = from});
  for (std::vector<engine::Event> events; events.empty();) {
    events = under_way.step();
    if (progress) progress(engine.prompt_progress(under_way.id()));
    if (!events.empty() && events[0].finish_reason == engine::FinishReason::failed) throw Error("{}", events[0].reason);
  }
}

Generator::Generator(const RunningModel& running)
    : running_(running), engine_(running.model, *running.backend, running.limits, single_user(running)) {}

void Generator::expect_fits(size_t tokens) const { engine_.expect_possible({.prompt = std::vector<TokenId>(tokens)}); }

Generated Generator::generate(std::span<const TokenId> prompt, const GenerateRequest& request) {
  engine::Request wanted =
      completion_request(running_, prompt, request.sampling, request.constraint, request.max_tokens);
  Generated result{.prompt = uint32_t(prompt.size()), .seed = *wanted.sampling.seed};
  text::CompletionText text = completion_text(running_, request.stop_strings, request.constraint.has_value());
  const auto show = [&](const std::string& piece) {
    if (piece.empty()) return;
    result.text += piece;
    if (request.show) request.show(piece);
  };

  const uint64_t proposed = engine_.metrics().draft_proposed, accepted = engine_.metrics().draft_accepted;
  ProgressLine progress(request.progress);
  UnderWay under_way(engine_, std::move(wanted));
  std::optional<engine::Event> end;
  while (!end) {
    if (request.interrupted && *request.interrupted) engine_.cancel(under_way.id());
    for (const engine::Event& event : under_way.step()) {
      if (event.finish_reason != engine::FinishReason::none) {
        end = event;
        break;
      }
      progress.clear();
      if (request.picked) request.picked(event.pick);
      show(text.push(event.pick.id));
      if (text.end() != text::CompletionText::End::none) engine_.finish(under_way.id(), 0);
    }
    if (!end && text.tokens() == 0)
      progress.count("prompt", engine_.prompt_progress(under_way.id()), result.prompt, "tokens");
  }
  if (end->finish_reason == engine::FinishReason::failed) throw Error("{}", end->reason);
  result.end = end_of(*end, text);
  show(text.finish());
  result.cached = end->cached_tokens;
  result.computed = end->computed_tokens;
  result.generated = end->generated;
  if (running_.drafts())
    result.drafted = {engine_.metrics().draft_proposed - proposed, engine_.metrics().draft_accepted - accepted};
  result.prompt_seconds = end->timing.queue + end->timing.prompt;
  result.generating_seconds = end->timing.generating;
  length_ = result.cached + result.computed + result.generated;
  return result;
}

}  // namespace heddle
