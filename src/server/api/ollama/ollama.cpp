// The handlers that generate and embed.
#include "server/api/ollama/ollama.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "server/api/embeddings.h"
#include "server/api/json.h"
#include "server/api/tokenize.h"
#include "server/service/service_state.h"

namespace heddle::server {
namespace {

void set_keep_alive(const Call& call, std::optional<double> seconds) {
  if (seconds) call.service.models().set_keep_alive(call.model->card().name, *seconds);
}

// Asked to think, a model must be able to. A switch in the template is set.
void set_thinking(const Call& call, OllamaRequest& request) {
  if (!request.think.value_or(false)) return;
  const chat::ChatFormat* format = call.model->chat_format();
  if (!format || chat::thought_marks(*format).end.empty())
    throw bad_field("think", "think: {} does not support thinking; expected false",
                    in_quotes(call.model->card().name, 200));
  if (!format->thought_switch.empty())
    request.conversation.variables = nlohmann::json{{format->thought_switch, true}}.dump();
}

void generate_raw(const Call& call, OllamaRequest request, const std::string& model, PreparationTimer& timer) {
  GenerationRequest& generation = request.generation;
  timer.parsed();
  generation.prompt_field = "prompt";
  generation.continues_prompt = true;
  generation.prompts = encode(*call.model, {*request.raw}, "prompt", generation.max_tokens);
  timer.encoded();
  auto writer =
      std::make_unique<OllamaWriter>(*call.exchange, model, request.form, request.stream, generation, ChatReply{});
  generate(call, std::move(generation), std::move(writer), timer.times());
}

void answer_ollama(const Call& call, OllamaRequest request, PreparationTimer& timer) {
  expect_ollama_model(call, request.model);
  set_keep_alive(call, request.keep_alive);
  const std::string model = request.model.empty() ? ollama_name(call.model->card().name) : request.model;
  request.model.clear();  // it was checked
  if (!request.loads.empty()) return call.exchange->send_json(ollama_loaded(request.form, model, request.loads));
  if (request.raw) return generate_raw(call, std::move(request), model, timer);
  set_thinking(call, request);
  generate_chat(call, request, timer, [&](const GenerationRequest& generation, const ChatReply& reply) {
    return std::make_unique<OllamaWriter>(*call.exchange, model, request.form, request.stream, generation, reply);
  });
}

// The first tokens of a text, as many as the context has. Of a long text not all is tokenized.
std::vector<text::TokenId> encode_beginning(const ServedModel& model, std::string_view text, bool& cut) {
  constexpr size_t usual_bytes = 16;  // of a token, with a margin: most have 3 to 5
  const size_t context = model.context();
  for (size_t size = 2 * context * usual_bytes;; size *= 2) {
    size_t end = std::min(size, text.size());
    while (end < text.size() && end > 0 && (uint8_t(text[end]) & 0xc0) == 0x80) --end;  // before a character
    std::vector<text::TokenId> tokens = model.tokenizer().encode(text.substr(0, end));
    // the last tokens of a part may differ from those of the whole
    if (end < text.size() && tokens.size() < 2 * context) continue;
    cut |= tokens.size() > context;
    tokens.resize(std::min(tokens.size(), context));
    return tokens;
  }
}

// The tokens of the inputs, cut to the context if the request allows it.
std::vector<std::vector<text::TokenId>> encode_inputs(const Call& call, const OllamaEmbedRequest& request,
                                                      const std::string& field) {
  const ServedModel& model = *call.model;
  if (!request.truncate) return encode(model, {request.inputs.begin(), request.inputs.end()}, field, 0);
  std::vector<std::vector<text::TokenId>> all;
  bool cut = false;
  for (const std::string& input : request.inputs) {
    all.push_back(encode_beginning(model, input, cut));
    expect_fits(model, request.inputs.size() == 1 ? field : element(field, all.size() - 1), all.back().size(), 0);
  }
  if (cut) call.exchange->add_header("X-Heddle-Clamped", fmt::format("{}={}", field, model.context()));
  return all;
}

void append_floats(std::string& out, const std::vector<float>& vector) {
  append_json_list(out, vector, [&out](float value) { append_json(out, value); });
}

uint64_t nanoseconds(double seconds) { return uint64_t(seconds * 1e9); }

}  // namespace

void ollama_chat(const Call& call) {
  PreparationTimer timer(*call.exchange);
  answer_ollama(call, call.read(read_ollama_chat), timer);
}

void ollama_generate(const Call& call) {
  PreparationTimer timer(*call.exchange);
  answer_ollama(call, call.read(read_ollama_generate), timer);
}

void ollama_embed(const Call& call) {
  OllamaEmbedRequest request = call.read(read_ollama_embed);
  expect_ollama_model(call, request.model);
  set_keep_alive(call, request.keep_alive);
  expect_width(call, request.dimensions);
  std::string model = request.model.empty() ? ollama_name(call.model->card().name) : std::move(request.model);
  const double prepared = call.exchange->seconds();
  const auto write = [model = std::move(model), prepared, exchange = call.exchange](
                         std::span<const std::vector<float>> vectors, uint64_t prompt_tokens) {
    std::string out = R"({"model":)";
    append_json(out, model);
    out += R"(,"embeddings":)";
    append_json_list(out, vectors, [&out](const std::vector<float>& vector) { append_floats(out, vector); });
    out += R"(,"total_duration":)";
    append_json(out, nanoseconds(exchange->seconds()));
    out += R"(,"load_duration":)";
    append_json(out, nanoseconds(prepared));
    out += R"(,"prompt_eval_count":)";
    append_json(out, prompt_tokens);
    return out += "}";
  };
  if (request.inputs.empty()) return call.exchange->send_json(write({}, 0));  // only loads the model
  embed_inputs(call, encode_inputs(call, request, "input"),
               {.field = "input", .user = "", .dimensions = request.dimensions}, write);
}

void ollama_embeddings(const Call& call) {
  const OllamaEmbedRequest request = call.read(read_ollama_embeddings);
  expect_ollama_model(call, request.model);
  set_keep_alive(call, request.keep_alive);
  const auto write = [](std::span<const std::vector<float>> vectors, uint64_t) {
    std::string out = R"({"embedding":)";
    append_floats(out, vectors.empty() ? std::vector<float>() : vectors[0]);
    return out += "}";
  };
  if (request.inputs.empty()) return call.exchange->send_json(write({}, 0));
  embed_inputs(call, encode_inputs(call, request, "prompt"), {.field = "prompt", .user = ""}, write);
}

}  // namespace heddle::server
