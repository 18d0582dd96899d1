// A completion: its body, and the response as choices with texts, and log-probabilities as four lists.
#include "server/api/completions/completions.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "server/api/json.h"
#include "server/service/service_state.h"

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
  Fields fields(json, rules.ignored);
  CompletionRequest request;
  request.model = fields.text("model").value_or("");
  request.prompts = prompts_at(fields.at("prompt"), "prompt", rules);
  refuse_unsupported_in_completions(fields);
  GenerationRequest& generation = request.generation;
  generation.prompt_field = "prompt";
  generation.continues_prompt = true;
  generation.constraint = read_constraint(fields, body);
  read_generation(fields, rules, generation);
  request.stream = read_stream_options(fields);
  const bool has_limit = fields.find("max_tokens");
  generation.max_tokens = has_limit ? read_token_limit(fields, "max_tokens", 0) : std::optional(default_max_tokens);
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

namespace {

size_t characters_in(std::string_view text) {  // of valid UTF-8
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xc0) != 0x80; }));
}

// A token that is not UTF-8 by itself is written byte by byte, as in OpenAI's API.
std::string spelling(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  std::string out = "bytes:";
  for (const char byte : bytes) fmt::format_to(std::back_inserter(out), "\\x{:02x}", uint8_t(byte));
  return out;
}

// The most likely tokens, and the one that was picked, which need not be among them. Of tokens with the same
// spelling the most likely one.
void append_top(std::string& out, const TokenLogprobs& token) {
  std::vector<std::string> written;
  const auto append = [&](const TokenLogprob& one) {
    std::string text = spelling(one.bytes);
    if (std::find(written.begin(), written.end(), text) != written.end()) return;
    if (!written.empty()) out += ",";
    append_json(out, text);
    out += ":";
    append_logprob(out, one.log_probability);
    written.push_back(std::move(text));
  };
  out += "{";
  for (const TokenLogprob& one : token.top) append(one);
  append(token.token);
  out += "}";
}

// Where each token begins, in characters. One that continues a character begins where that character does. `offset`:
// where the text begins.
std::vector<uint64_t> offsets_of(const std::vector<TokenLogprobs>& tokens, std::string_view text, uint64_t offset) {
  std::vector<uint64_t> offsets;
  offsets.reserve(tokens.size());
  std::string held;  // an incomplete character
  bool first = offset == 0;
  for (const TokenLogprobs& token : tokens) {
    offsets.push_back(offset);
    if (!token.in_text) continue;
    held += token.token.bytes;
    // some tokenizers put a space before a text, which is not part of it
    if (first && held.starts_with(' ') && !text.starts_with(' ')) held.erase(0, 1);
    first = false;
    const size_t complete = held.size() - incomplete_utf8_tail(held);
    for (size_t at = 0; at < complete; ++offset) at += code_point_at(held, at).bytes;
    held.erase(0, complete);
  }
  return offsets;
}

// Four lists with one element per token.
void append_completion_logprobs(std::string& out, const std::vector<TokenLogprobs>& tokens, std::string_view text,
                                size_t offset) {
  const auto or_null = [&out](const TokenLogprobs& token, auto&& append) {
    if (token.has_logprob)
      append(token);
    else
      out += "null";
  };
  out += R"({"tokens":)";
  append_json_list(out, tokens, [&](const auto& token) { append_json(out, spelling(token.token.bytes)); });
  out += R"(,"token_logprobs":)";
  append_json_list(out, tokens, [&](const auto& token) {
    or_null(token, [&](const auto& one) { append_logprob(out, one.token.log_probability); });
  });
  out += R"(,"top_logprobs":)";
  append_json_list(out, tokens,
                   [&](const auto& token) { or_null(token, [&](const auto& one) { append_top(out, one); }); });
  out += R"(,"text_offset":)";
  append_json_list(out, offsets_of(tokens, text, offset), [&](uint64_t at) { append_json(out, at); });
  out += "}";
}

// `offset`: characters of the choice before this text.
void append_text_choice(std::string& out, const Choice& choice, size_t offset) {
  append_index(out, choice.index);
  out += R"(,"text":)";
  append_json(out, choice.text);
  append_choice_end(out, choice,
                    [&](const auto& tokens) { append_completion_logprobs(out, tokens, choice.text, offset); });
}

}  // namespace

void CompletionWriter::append_choice(std::string& out, const Choice& choice) const {
  append_text_choice(out, choice, 0);
}

void CompletionWriter::append_chunk(std::string& out, const Choice& part) {
  append_text_choice(out, part, characters_[part.index]);
  characters_[part.index] += characters_in(part.text);
}

}  // namespace heddle::server
