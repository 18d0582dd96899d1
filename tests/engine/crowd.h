// Random requests, each with its reference: what a session and a sampler generate for it alone, without an engine.
#pragma once
#include <filesystem>
#include <random>

#include "cpu/cpu.h"
#include "engine/engine.h"
#include "formats/checkpoint.h"
#include "model/forward.h"
#include "model/load.h"
#include "model/session.h"
#include "tests/cpu/small_model.h"

namespace heddle::test {

using engine::FinishReason;

// A model on the CPU, with a KV cache for many requests.
struct World {
  model::Model model;
  model::Limits limits;
  std::unique_ptr<model::Backend> backend;

  World(model::Model loaded, const model::Limits& with)
      : model(std::move(loaded)), limits(with), backend(cpu::make_cpu(model, limits, {.threads = 1})) {}
};
inline model::Model weft(uint32_t context = 0) {
  const auto path = std::filesystem::path(HEDDLE_SOURCE_DIR) / "models/weft/weft-q8_0.gguf";
  return model::load(formats::open_checkpoint(path), {.context = context});
}
inline model::Model tiny_model() {
  Builder builder({.format = quant::Format::q8_0,
                   .layers = 2,
                   .width = 64,
                   .heads = 2,
                   .kv_heads = 1,
                   .head = 32,
                   .inner = 96,
                   .vocabulary = 61});
  builder.model().context = 192;
  return std::move(builder.model());
}

// Log-probabilities are compared bit by bit: they are the same computation.
struct Picks {
  std::vector<uint32_t> tokens;
  std::vector<float> logprobs;  // of each, and of the most likely ones
  std::vector<uint32_t> likely;

  void add(const engine::Pick& pick) {
    tokens.push_back(pick.id);
    logprobs.push_back(pick.log_probability);
    for (const engine::TokenLogprob& top : pick.top) {
      logprobs.push_back(top.log_probability);
      likely.push_back(top.id);
    }
  }
  bool operator==(const Picks&) const = default;
};
// What one completion received.
struct Answer : Picks {
  Picks prompt;
  std::vector<float> embedding;
  FinishReason finish_reason = FinishReason::none;

  bool operator==(const Answer&) const = default;
};
inline void PrintTo(const Answer& answer, std::ostream* out) {
  *out << "finish reason " << int(answer.finish_reason) << ", tokens";
  for (const uint32_t token : answer.tokens) *out << " " << token;
}

struct Asked {
  engine::Request request;
  std::vector<Answer> alone;  // per completion
};

// One completion, from the logits after the prompt on, which the session has just been fed.
inline Answer answer_alone(model::Session& session, std::vector<float> logits, const engine::Request& request,
                           uint32_t index) {
  engine::Sampler sampler(request.sampling, uint32_t(logits.size()));
  sampler.reseed(sampler.seed() + index);
  for (const uint32_t token : request.prompt) sampler.accept(token, engine::Origin::prompt);
  Answer answer;
  const auto stopped = [&](const std::vector<uint32_t>& stop) {
    return stop.size() <= answer.tokens.size() && std::equal(stop.rbegin(), stop.rend(), answer.tokens.rbegin());
  };
  for (;;) {
    const engine::Pick pick = sampler.pick(logits);
    sampler.accept(pick.id);
    answer.add(pick);
    if (std::any_of(request.stops.begin(), request.stops.end(), stopped))
      answer.finish_reason = FinishReason::stop;
    else if (answer.tokens.size() == request.max_tokens)
      answer.finish_reason = FinishReason::length;
    else if (request.prompt.size() + answer.tokens.size() > session.context())
      answer.finish_reason = FinishReason::context;
    if (answer.finish_reason != FinishReason::none) return answer;
    const auto next = session.feed({&pick.id, 1});
    logits.assign(next.begin(), next.end());
  }
}
// The prompt's states, one token at a time, pooled by hand.
inline std::vector<float> embedding_alone(World& world, const std::vector<uint32_t>& prompt) {
  std::vector<double> sum(world.model.width);
  model::Batch batch{.sequences = {0}, .blocks = {std::vector<uint32_t>(world.limits.kv_blocks)}, .states = {0}};
  std::iota(batch.blocks[0].begin(), batch.blocks[0].end(), 0u);
  for (uint32_t position = 0; position < prompt.size(); ++position) {
    batch.tokens = {prompt[position]};
    batch.positions = {position};
    model::forward(world.model, *world.backend, batch);
    const std::span<const float> state = world.backend->result().states;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += double(state[i]);
  }
  double square = 0;
  for (const double value : sum) square += value * value;
  std::vector<float> embedding;
  for (const double value : sum) embedding.push_back(float(value / std::sqrt(square)));
  return embedding;
}
inline std::vector<Answer> answers_alone(World& world, const engine::Request& request) {
  model::Limits limits = world.limits;
  limits.kv_blocks = (world.model.context + limits.block_tokens - 1) / limits.block_tokens;
  model::Session session(world.model, *world.backend, limits);
  Answer first;
  std::vector<float> logits;
  session.feed_each(request.prompt, [&](size_t i, std::span<const float> row) {
    logits.assign(row.begin(), row.end());
    if (!request.prompt_logprobs) return;
    if (i == 0) first.prompt.add({.id = request.prompt[0]});
    if (i + 1 < request.prompt.size())
      first.prompt.add(engine::score(row, request.prompt[i + 1], *request.prompt_logprobs));
  });
  if (request.embed) first.embedding = embedding_alone(world, request.prompt);
  if (request.embed || request.max_tokens == 0)
    first.finish_reason = request.embed ? FinishReason::stop : FinishReason::length;
  std::vector<Answer> answers(request.n, first);
  if (first.finish_reason != FinishReason::none) return answers;
  for (uint32_t index = 0; index < request.n; ++index) {
    session.rewind(uint32_t(request.prompt.size()));
    answers[index] = answer_alone(session, logits, request, index);
    answers[index].prompt = first.prompt;
  }
  return answers;
}

// Prompts that begin alike or repeat themselves, every kind of sampling, stops that are met, several completions.
class Asker {
 public:
  Asker(World& world, uint32_t seed) : world_(world), random_(seed) {
    for (auto& beginning : beginnings_) beginning = tokens(world.model.context / 4);
  }

  std::vector<Asked> ask(uint32_t count, uint32_t max_tokens) {
    std::vector<Asked> all(count);
    for (uint32_t i = 0; i < count; ++i) {
      all[i].request = request(i, max_tokens);
      all[i].alone = answers_alone(world_, all[i].request);
      if (i % 4 == 1 && i > 4) stop_within(all[i]);
    }
    return all;
  }

 private:
  uint32_t below(uint32_t count) { return uint32_t(random_() % count); }
  std::vector<uint32_t> tokens(uint32_t count) {
    std::vector<uint32_t> some(count);
    for (uint32_t& token : some) token = below(world_.model.vocabulary);
    return some;
  }

  std::vector<uint32_t> prompt(uint32_t i) {
    const uint32_t context = world_.model.context;
    if (i % 16 == 5) return tokens(context - 1 - below(6));  // the context will be full
    std::vector<uint32_t> prompt = beginnings_[below(4)];
    prompt.resize(below(uint32_t(prompt.size())));
    const std::vector<uint32_t> own = tokens(1 + below(context / 16));
    const uint32_t times = i % 5 == 2 ? 3 : 1;
    for (uint32_t time = 0; time < times; ++time) prompt.insert(prompt.end(), own.begin(), own.end());
    return prompt;
  }
  engine::Sampling sampling(uint32_t i) {
    engine::Sampling sampling;
    sampling.seed = random_();
    if (below(3) == 0) sampling.logprobs = below(4);
    if (i % 2 == 0) {
      sampling.temperature = 0;
      return sampling;
    }
    sampling.temperature = 0.3f + 0.3f * float(below(4));
    if (below(2)) sampling.top_k = int(1 + below(40));
    if (below(2)) sampling.top_p = 0.9f;
    if (below(3) == 0) sampling.min_p = 0.05f;
    if (below(2)) sampling.repetition_penalty = 1.2f;
    if (below(2)) sampling.presence_penalty = 0.4f;
    if (below(2)) sampling.frequency_penalty = 0.2f;
    if (below(4) == 0) sampling.dry_multiplier = 0.8f;
    if (below(6) == 0) sampling.mirostat = 2;
    return sampling;
  }
  engine::Request request(uint32_t i, uint32_t max_tokens) {
    if (i < 4) return long_answer(i);
    return {.prompt = prompt(i),
            .sampling = sampling(i),
            .max_tokens = i % 16 == 5    ? engine::no_limit
                          : i % 12 == 10 ? 0
                                         : 1 + below(max_tokens),
            .n = i % 3 ? 1 : 1 + below(4),
            .priority = int(below(3)) - 1,
            .reuse = below(8) != 0,
            .prompt_logprobs = i % 3 == 1 ? std::optional(below(3)) : std::nullopt,
            .embed = i % 12 == 7};
  }
  // Only two tokens are possible, in a repeating or a random order: proposals are right, or not. The prompts are short,
  // so that all run at once and then need more memory than there is.
  engine::Request long_answer(uint32_t i) {
    engine::Request request{.prompt = tokens(5), .max_tokens = world_.model.context / 2};
    request.sampling.temperature = i % 2 ? 1 : 0;
    request.sampling.seed = random_();
    request.sampling.logit_bias = {{i, 100.f}, {i + 7, 100.f}};
    return request;
  }
  void stop_within(Asked& asked) {
    if (asked.alone[0].tokens.empty()) return;
    const std::vector<uint32_t> generated = asked.alone[0].tokens;
    const size_t end = 1 + below(uint32_t(generated.size()));
    const size_t length = 1 + below(uint32_t(std::min<size_t>(end, 3)));
    asked.request.stops = {{generated.begin() + long(end - length), generated.begin() + long(end)}, tokens(2)};
    asked.alone = answers_alone(world_, asked.request);
  }

  World& world_;
  std::mt19937 random_;
  std::array<std::vector<uint32_t>, 4> beginnings_;
};

}  // namespace heddle::test
