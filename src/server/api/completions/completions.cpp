#include "server/api/completions/completions.h"

#include <nlohmann/json.hpp>

#include "server/api/fields.h"
#include "server/service/routes.h"

namespace heddle::server {
namespace {

constexpr int64_t max_best_of = 128;
constexpr uint32_t default_max_tokens = 16;         // OpenAI's
constexpr size_t max_completions = 4096;            // of one request: each takes memory from the beginning
constexpr uint64_t max_echoed_logprobs = 1u << 17;  // tokens; each has some kilobytes

// The log-probabilities of a prompt's tokens are repeated in each of its completions.
void expect_echo_fits(const GenerationRequest& request) {
  if (!request.echo || !request.sampling.logprobs) return;
  uint64_t tokens = 0;
  for (const auto& prompt : request.prompts) tokens += prompt.size() * request.best_of;
  if (tokens > max_echoed_logprobs)
    throw bad_field("echo", "echo: expected at most {} prompt tokens with log-probabilities, found {}",
                    max_echoed_logprobs, tokens);
}

}  // namespace

CompletionRequest read_completion(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json);
  CompletionRequest request;
  request.model = fields.text("model").value_or("");
  request.prompts = prompts_at(fields.at("prompt"), "prompt", rules);
  refuse_unsupported(fields);
  GenerationRequest& generation = request.generation;
  generation.prompt_field = "prompt";
  generation.continues_prompt = true;
  read_generation(fields, rules, generation);
  request.stream = read_stream_options(fields);
  generation.max_tokens = uint32_t(fields.whole("max_tokens", 0, max_max_tokens).value_or(default_max_tokens));
  set_logprobs(fields, rules, fields.whole("logprobs", 0, max_top_logprobs), generation.sampling);
  generation.echo = fields.flag_or("echo", false);
  const int64_t n = generation.n;
  generation.best_of = uint32_t(fields.whole("best_of", n, max_best_of).value_or(n));
  if (request.stream.stream && generation.best_of > generation.n)
    throw unexpected("best_of", fmt::format("n ({}) with \"stream\": true", n), generation.best_of, "invalid_value");
  fields.finish();
  if (request.prompts.size() * generation.best_of > max_completions)
    throw bad_field("prompt", "prompt: expected at most {} completions, found {} prompts with {} completions each",
                    max_completions, request.prompts.size(), generation.best_of);
  return request;
}

void completions(const Call& call) {
  PreparationTimer timer(*call.exchange);
  CompletionRequest request = call.read(read_completion);
  call.expect_model(request.model);
  timer.parsed();
  GenerationRequest& generation = request.generation;
  generation.prompts = encode(*call.model, request.prompts, "prompt", generation.max_tokens);
  expect_echo_fits(generation);
  timer.encoded();
  auto writer =
      std::make_unique<CompletionWriter>(*call.exchange, openai_head("cmpl-", *call.model), request.stream, generation);
  generate(call, std::move(generation), std::move(writer), timer.times());
}

}  // namespace heddle::server
