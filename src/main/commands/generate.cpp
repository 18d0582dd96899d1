// Which tokens the session has seen is remembered here, so that a longer prompt costs only what is new.
#include "main/commands/generate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "engine/sampling/device_picking.h"
#include "text/completion_text.h"

namespace heddle {
namespace {

using text::TokenId;

constexpr size_t piece_tokens = 128;  // of a prompt on the CPU: how long an interruption may have to wait

bool interrupted(const GenerateRequest& request) { return request.interrupted && *request.interrupted; }

const char* words_of(Ending ending) {
  switch (ending) {
    case Ending::model:
      return "the model ended";
    case Ending::stop_text:
      return "a stop text came";
    case Ending::tokens:
      return "as many as asked for";
    case Ending::context:
      return "the context is full";
    case Ending::interrupted:
      return "interrupted";
  }
  return "";
}

double per_second(uint32_t tokens, double seconds) { return tokens == 0 ? 0 : double(tokens) / seconds; }

// From tokens to what is shown: whole characters, and nothing of a stop text.
class Shown {
 public:
  Shown(const text::Tokenizer& tokenizer, const GenerateRequest& request, std::string& all)
      : decoder_(tokenizer), stops_(request.stops), request_(request), all_(all) {}

  bool push(TokenId id) {  // false: a stop text came
    show(stops_.push(decoder_.push(id)));
    return !stops_.found();
  }
  void finish() {
    show(stops_.push(decoder_.finish()));
    show(stops_.finish());
  }

 private:
  void show(const std::string& text) {
    if (text.empty()) return;
    all_ += text;
    if (request_.show) request_.show(text);
  }

  text::StreamDecoder decoder_;
  text::StopStrings stops_;
  const GenerateRequest& request_;
  std::string& all_;
};

}  // namespace

std::string figures(const Generated& generated) {
  const uint32_t before = generated.prompt - generated.fed;
  return fmt::format("prompt {} tokens{}, {:.1f} tok/s; generated {} tokens, {:.1f} tok/s ({}); seed {}",
                     generated.prompt, before ? fmt::format(" ({} computed before)", before) : "",
                     per_second(generated.fed, generated.feeding), generated.made,
                     per_second(generated.made, generated.making), words_of(generated.ending), generated.seed);
}

// Computes a token and picks the one after it. Where the device can pick, it goes on by itself: a step is launched
// before the token of the one before is read, so that when this ends, one more than was taken may be under way. What it
// wrote lies beyond the session's length.
class Generator::Next {
 public:
  // `most`: tokens that will be asked for, 0: any number.
  Next(Generator& generator, engine::Sampler& sampler, std::span<const TokenId> prompt, uint32_t most)
      : generator_(generator), sampler_(sampler), prompt_(prompt), most_(most ? most : UINT32_MAX) {}

  engine::Pick after(TokenId id) {
    if (!begun_) begin(id);
    if (!picking_) return sampler_.pick(generator_.feed({&id, 1}));
    if (launched_ < most_) {
      generator_.session_.follow();
      ++launched_;
    }
    const model::Picked picked = generator_.session_.take();
    if (picked.id == ~0u) refuse(id);
    generator_.computed_.push_back(id);
    return {.id = picked.id, .log_probability = picked.log_probability};
  }

 private:
  void begin(TokenId id) {
    begun_ = true;
    std::vector<TokenId> text(prompt_.begin(), prompt_.end());
    text.push_back(id);
    const auto picking = engine::device_picking(sampler_, text, uint32_t(prompt_.size()));
    if (!picking) return;
    most_ = std::min(most_, generator_.session_.context() - generator_.session_.length());
    picking_ = generator_.session_.begin_picking(id, *picking);
    launched_ = picking_;
  }
  [[noreturn]] void refuse(TokenId id) {  // in the words of the sampler
    generator_.session_.rewind(generator_.session_.length() - 1);
    sampler_.pick(generator_.feed({&id, 1}));
    throw Error("the device found no token to pick, but its logits have one");
  }

  Generator& generator_;
  engine::Sampler& sampler_;
  std::span<const TokenId> prompt_;
  uint32_t most_, launched_ = 0;
  bool begun_ = false, picking_ = false;
};

Generator::Generator(const RunningModel& running) : running_(running), session_(running.session()) {}

void Generator::expect_fits(size_t tokens) const {
  if (tokens >= context())
    throw Error("the prompt is too long: expected fewer than {} tokens, the context, found {}", context(), tokens);
}

std::span<const float> Generator::feed(std::span<const TokenId> ids) {
  const std::span<const float> logits = session_.feed(ids);
  computed_.insert(computed_.end(), ids.begin(), ids.end());
  return logits;
}

std::span<const float> Generator::feed_prompt(std::span<const TokenId> prompt, const GenerateRequest& request,
                                              Generated& result) {
  const auto differ = std::mismatch(computed_.begin(), computed_.end(), prompt.begin(), prompt.end()).first;
  // the logits after the last token are needed, so that one at least is computed
  size_t at = std::min<size_t>(size_t(differ - computed_.begin()), prompt.size() - 1);
  session_.rewind(uint32_t(at));
  computed_.resize(at);
  std::span<const float> logits;
  const size_t piece = running_.gpu ? running_.limits.rows : piece_tokens;
  while (at < prompt.size()) {
    if (interrupted(request)) return {};
    const size_t count = std::min(piece, prompt.size() - at);
    logits = feed(prompt.subspan(at, count));
    result.fed += uint32_t(count);
    at += count;
  }
  return logits;
}

Generated Generator::generate(std::span<const TokenId> prompt, const GenerateRequest& request) {
  if (prompt.empty()) throw Error("expected a text to continue, found an empty one (and the model has no BOS token)");
  expect_fits(prompt.size());
  engine::Sampler sampler(request.sampling, running_.model.vocabulary);
  for (TokenId id : prompt) sampler.accept(id, engine::Origin::prompt);
  const std::vector<TokenId>& ends = running_.tokenizer().end_tokens();

  Generated result{.ending = Ending::interrupted, .prompt = uint32_t(prompt.size()), .seed = sampler.seed()};
  Shown shown(running_.tokenizer(), request, result.text);
  const auto start = Clock::now();
  std::span<const float> logits = feed_prompt(prompt, request, result);
  result.feeding = seconds_since(start);
  const auto generating = Clock::now();
  if (!logits.empty() && !interrupted(request)) {
    Next next(*this, sampler, prompt, request.tokens ? request.tokens - 1 : 0);
    engine::Pick pick = sampler.pick(logits);
    while (true) {
      sampler.accept(pick.id);
      ++result.made;
      if (request.picked) request.picked(pick);
      std::optional<Ending> ending;
      if (std::find(ends.begin(), ends.end(), pick.id) != ends.end())
        ending = Ending::model;
      else if (!shown.push(pick.id))
        ending = Ending::stop_text;
      else if (request.tokens && result.made >= request.tokens)
        ending = Ending::tokens;
      else if (session_.length() >= session_.context())
        ending = Ending::context;
      else if (interrupted(request))
        ending = Ending::interrupted;
      if (ending) {
        result.ending = *ending;
        break;
      }
      pick = next.after(pick.id);
    }
  }
  shown.finish();
  result.making = seconds_since(generating);
  return result;
}

}  // namespace heddle
