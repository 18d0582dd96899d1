#include "server/api/embeddings.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "server/api/json.h"
#include "server/api/openai/openai.h"
#include "server/service/engine_job.h"
#include "server/service/service_state.h"

namespace heddle::server {
namespace {

static_assert(std::endian::native == std::endian::little, "base64 embeddings are little-endian");

class EmbeddingJob : public EngineJob {
 public:
  EmbeddingJob(const Call& call, EmbedOptions options, WriteEmbeddings write)
      : EngineJob(call.exchange, call.model, options.field), options_(std::move(options)), write_(std::move(write)) {}

  // Throws an ApiError if the engine does not take it.
  void begin(std::vector<std::vector<text::TokenId>> inputs) {
    std::vector<engine::Request> requests(inputs.size());
    vectors_.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      usage_.prompt += inputs[i].size();
      requests[i].prompt = std::move(inputs[i]);
      requests[i].embed = true;
      requests[i].pool = options_.pool;
    }
    submit(std::move(requests));
  }

 private:
  void on_event(size_t which, const engine::Event& event) override {
    usage_.cached += event.cached_tokens;
    vectors_[which] = event.embedding;
  }
  void on_end() override {
    cut_vectors(vectors_, options_.dimensions);
    exchange().send_json(write_(vectors_, usage_.prompt));
  }
  void on_error(const ApiError& error) override { exchange().fail(error); }
  void summarize(LogEntry& entry) const override {
    entry.user = options_.user;
    entry.tokens = usage_;
  }

  const EmbedOptions options_;
  const WriteEmbeddings write_;
  std::vector<std::vector<float>> vectors_;
  Usage usage_;
};

void append_vector(std::string& out, const std::vector<float>& vector, bool as_base64) {
  if (as_base64) {
    const auto* bytes = reinterpret_cast<const char*>(vector.data());
    out.append("\"").append(base64({bytes, vector.size() * sizeof(float)})).append("\"");
    return;
  }
  append_json_list(out, vector, [&out](float value) { append_json(out, value); });
}

}  // namespace

EmbeddingRequest read_embedding(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json, rules.ignored);
  EmbeddingRequest request;
  request.model = fields.text("model").value_or("");
  const Json& input = fields.at("input");
  request.inputs = prompts_at(input, "input", rules);
  for (size_t i = 0; i < request.inputs.size(); ++i)
    if (const auto* text = std::get_if<std::string>(&request.inputs[i]); text && text->empty())
      throw unexpected(input.is_string() ? "input" : element("input", i), "a text", *text, "empty_string");
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    throw unexpected("encoding_format", "\"float\" or \"base64\"", format, "invalid_value");
  request.base64 = format == "base64";
  if (const auto dimensions = fields.whole("dimensions", 1, UINT32_MAX)) request.dimensions = uint32_t(*dimensions);
  request.user = read_user(fields);
  fields.finish();
  return request;
}

std::string embeddings_json(std::string_view model, std::span<const std::vector<float>> vectors, bool base64,
                            uint64_t prompt_tokens) {
  std::string out = R"({"object":"list","data":)";
  uint64_t index = 0;
  append_json_list(out, vectors, [&](const std::vector<float>& vector) {
    out += R"({"object":"embedding","index":)";
    append_json(out, index++);
    out += R"(,"embedding":)";
    append_vector(out, vector, base64);
    out += "}";
  });
  out += R"(,"model":)";
  append_json(out, model);
  out += R"(,"usage":{"prompt_tokens":)";
  append_json(out, prompt_tokens);
  out += R"(,"total_tokens":)";
  append_json(out, prompt_tokens);
  return out += "}}";
}

void embed_inputs(const Call& call, std::vector<std::vector<text::TokenId>> inputs, EmbedOptions options,
                  WriteEmbeddings write) {
  if (!call.model->card().embeds)
    throw ApiError(400, "", "model", "{} gives no embeddings: it is a reranker (POST /v1/rerank)",
                   call.model->card().name);
  std::make_shared<EmbeddingJob>(call, std::move(options), std::move(write))->begin(std::move(inputs));
}

void cut_vectors(std::vector<std::vector<float>>& vectors, std::optional<uint32_t> dimensions) {
  if (!dimensions) return;
  for (std::vector<float>& vector : vectors) {
    if (vector.size() <= *dimensions) continue;
    vector.resize(*dimensions);
    double square = 0;
    for (const float value : vector) square += double(value) * double(value);
    const double length = square > 0 ? std::sqrt(square) : 1;
    for (float& value : vector) value = float(double(value) / length);
  }
}

void expect_width(const Call& call, std::optional<uint32_t> dimensions) {
  const uint32_t width = call.model->card().width;
  if (dimensions && *dimensions > width)
    throw bad_field("dimensions", "dimensions: expected at most {}, the width of the model's embeddings, found {}",
                    width, *dimensions);
}

void embeddings(const Call& call) {
  EmbeddingRequest request = call.read(read_embedding);
  call.expect_model(request.model);
  expect_width(call, request.dimensions);
  const auto write = [model = call.model, base64 = request.base64](std::span<const std::vector<float>> vectors,
                                                                   uint64_t prompt_tokens) {
    return embeddings_json(model->card().name, vectors, base64, prompt_tokens);
  };
  embed_inputs(call, encode(*call.model, request.inputs, "input", 0),
               {.field = "input", .user = std::move(request.user), .dimensions = request.dimensions}, write);
}

LlamaEmbeddingRequest read_llama_embedding(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json, rules.ignored);
  const std::string_view name = fields.either("content", "input");
  LlamaEmbeddingRequest request{.inputs = prompts_at(fields.at(name), std::string(name), rules)};
  const auto norm = fields.whole("embd_normalize", -1, 2);
  if (norm && *norm != -1 && *norm != 2)
    throw unexpected("embd_normalize", "2, the Euclidean norm, or -1, none", *norm, "invalid_value");
  request.normalise = norm.value_or(2) == 2;
  fields.finish();
  return request;
}

void llama_embedding(const Call& call) {
  const LlamaEmbeddingRequest request = call.read(read_llama_embedding);
  const Served& served = call.model->served();
  // Pooled vectors have a length of 1 here; states of tokens are as they are, as in llama.cpp.
  const bool pool = !served.card.embeds_tokens;
  if (pool && !request.normalise)
    throw bad_field("embd_normalize", "embd_normalize: expected 2: embeddings have a length of 1 here, found -1");
  const size_t width = pool ? served.card.width : served.state_width;
  const auto write = [width](std::span<const std::vector<float>> texts, uint64_t) {
    std::string out;
    uint64_t index = 0;
    append_json_list(out, texts, [&](const std::vector<float>& values) {
      out += R"({"index":)";
      append_json(out, index++);
      out += R"(,"embedding":[)";
      for (size_t at = 0; at < values.size(); at += width) {
        if (at > 0) out += ",";
        append_vector(out, {values.begin() + long(at), values.begin() + long(std::min(values.size(), at + width))},
                      false);
      }
      out += "]}";
    });
    return out;
  };
  embed_inputs(call, encode(*call.model, request.inputs, "content", 0), {.field = "content", .user = "", .pool = pool},
               write);
}

}  // namespace heddle::server
