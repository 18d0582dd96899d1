#include "server/service/calls.h"

#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "server/api/json_text.h"
#include "server/api/prompts.h"
#include "server/service/embedding_job.h"
#include "server/service/text_job.h"

namespace heddle::server {
namespace {

constexpr uint64_t most_echoed = 1u << 17;  // some kilobytes each

constexpr size_t most_answers = 4096;  // to one request: each takes memory from the beginning

// Reads the body by one of requests.h, and lets go of it.
template <class Read>
auto read_body(const Call& call, Read read) {
  auto request = read(call.exchange->request().body, call.model->rules());
  call.exchange->forget_body();
  return request;
}

// The same of a request that names a model and a user.
template <class Read>
auto read_named(const Call& call, Read read) {
  auto request = read_body(call, read);
  call.model->expect_named(request.model);
  call.exchange->log().model = call.model->served().name;
  return request;
}

class Stopwatch {
 public:
  double lap() {
    const double seconds = seconds_since(start_);
    start_ = Clock::now();
    return seconds;
  }

 private:
  Clock::time_point start_ = Clock::now();
};

void begin_text(const Call& call, TextTask task) {
  task.trace = call.trace;
  std::make_shared<TextJob>(call.exchange, call.model, std::move(task))->begin();
}

// A piece of a vocabulary: a text, or a list of bytes where it is half a character.
std::string piece_json(std::string_view bytes) {
  std::string out;
  if (is_utf8(bytes)) {
    append_json(out, bytes);
    return out;
  }
  for (const char byte : bytes) out += fmt::format("{}{}", out.empty() ? "[" : ",", uint8_t(byte));
  return out += "]";
}

std::string object_with(std::string_view name, std::string_view text) {
  std::string out = "{";
  append_json(out, name);
  out += ":";
  append_json(out, text);
  return out += "}";
}

}  // namespace

void chat_call(const Call& call) {
  TextTask task{.chat = true, .preparation = {.waiting = call.exchange->seconds()}};
  Stopwatch watch;
  ChatRequest request = read_named(call, chat_request);
  task.preparation.parse = watch.lap();
  const std::string prompt = call.model->render(request);
  task.preparation.render = watch.lap();
  // the template writes BOS itself
  task.prompts.push_back(encode(*call.model, prompt, {.add_special = false}));
  task.preparation.encode = watch.lap();
  expect_fits(*call.model, "messages", task.prompts[0].size(), request.generation.max_tokens);
  task.best_of = request.generation.n;
  task.generation = std::move(request.generation);
  begin_text(call, std::move(task));
}

void completion_call(const Call& call) {
  TextTask task{.preparation = {.waiting = call.exchange->seconds()}};
  Stopwatch watch;
  CompletionRequest request = read_named(call, completion_request);
  task.preparation.parse = watch.lap();
  if (request.prompts.size() * request.best_of > most_answers)
    throw bad_field("prompt", "prompt: expected at most {} answers, found {} prompts with {} answers each",
                    most_answers, request.prompts.size(), request.best_of);
  for (const Prompt& prompt : request.prompts) {
    const std::string field = field_of("prompt", task.prompts.size(), request.prompts.size());
    task.prompts.push_back(encode(*call.model, prompt, {}));
    expect_fits(*call.model, field, task.prompts.back().size(), request.generation.max_tokens);
  }
  if (request.echo && request.generation.sampling.logprobs) {
    uint64_t reports = 0;  // of tokens of prompts, each answer has its own
    for (const auto& prompt : task.prompts) reports += prompt.size() * request.best_of;
    if (reports > most_echoed)
      throw bad_field("echo", "echo: expected at most {} tokens of prompts with log-probabilities, found {}",
                      most_echoed, reports);
  }
  task.preparation.encode = watch.lap();
  task.best_of = request.best_of;
  task.echo = request.echo;
  task.generation = std::move(request.generation);
  begin_text(call, std::move(task));
}

void embedding_call(const Call& call) {
  EmbeddingRequest request = read_named(call, embedding_request);
  const uint32_t width = call.model->served().width;
  // a part of a vector means something only where the model was trained for it, and no file says so
  if (request.dimensions && *request.dimensions != width)
    throw bad_field("dimensions", "dimensions: expected {}, the width of the model, found {}", width,
                    *request.dimensions);
  std::vector<std::vector<text::TokenId>> inputs;
  for (const Prompt& input : request.inputs) {
    const std::string field = field_of("input", inputs.size(), request.inputs.size());
    inputs.push_back(encode(*call.model, input, {}));
    expect_fits(*call.model, field, inputs.back().size(), 0);
  }
  std::make_shared<EmbeddingJob>(call.exchange, call.model, std::move(request))->begin(std::move(inputs));
}

void tokenize_call(const Call& call) {
  const TokenizeRequest request = read_body(call, tokenize_request);
  const text::Tokenizer& tokenizer = call.model->tokenizer();
  std::string out = "{\"tokens\":[";
  const size_t empty = out.size();
  for (const text::TokenId id : tokenizer.encode(
           request.content, {.add_special = request.add_special, .parse_special = request.parse_special})) {
    if (out.size() > empty) out += ',';
    const auto to = std::back_inserter(out);
    if (request.with_pieces)
      fmt::format_to(to, "{{\"id\":{},\"piece\":{}}}", id, piece_json(tokenizer.bytes(id)));
    else
      fmt::format_to(to, "{}", id);
  }
  call.exchange->send_json(out += "]}");
}

void detokenize_call(const Call& call) {
  const DetokenizeRequest request = read_body(call, detokenize_request);
  call.exchange->send_json(object_with("content", call.model->tokenizer().decode(request.tokens, request.special)));
}

void template_call(const Call& call) {
  call.exchange->send_json(object_with("prompt", call.model->render(read_named(call, template_request))));
}

}  // namespace heddle::server
