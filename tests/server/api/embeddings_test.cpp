// The body of a request for embeddings, and the response.
#include "server/api/embeddings.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "server/api/json.h"
#include "tests/server/api/request_fixture.h"
#include "tests/server/service/encoder_service.h"
#include "tests/support/shorter.h"

namespace heddle::server {
namespace {

using Ids = std::vector<text::TokenId>;

Json parse_reply(const std::string& text) { return parse_json(text, "response"); }

EmbeddingRequest embed(std::string_view fields) { return read_embedding(fmt::format("{{{}}}", fields), small_rules()); }

TEST(EmbeddingRequests, EveryField) {
  const EmbeddingRequest request = embed(R"("input":"text")");
  EXPECT_EQ(request.inputs, std::vector<Prompt>{"text"});
  EXPECT_EQ(request.model, "");
  EXPECT_FALSE(request.base64);
  EXPECT_EQ(request.dimensions, std::nullopt);
  EXPECT_EQ(request.user, "");
  const EmbeddingRequest full =
      embed(R"("input":[[1],[2]],"model":"m","encoding_format":"base64","dimensions":64,"user":"u")");
  EXPECT_EQ(full.inputs, (std::vector<Prompt>{Ids{1}, Ids{2}}));
  EXPECT_EQ(full.model, "m");
  EXPECT_TRUE(full.base64);
  EXPECT_EQ(full.dimensions, 64u);
  EXPECT_EQ(full.user, "u");
  EXPECT_FALSE(embed(R"("input":"x","encoding_format":"float")").base64);
  EXPECT_BAD(embed(""), "input", "missing_required_parameter");
  EXPECT_BAD(embed(R"("input":"")"), "input", "empty_string", "expected a text");
  EXPECT_BAD(embed(R"("input":["a",""])"), "input[1]", "empty_string");
  EXPECT_BAD(embed(R"("input":[""])"), "input[0]", "empty_string");
  EXPECT_BAD(embed(R"("input":[])"), "input", "empty_array");
  EXPECT_BAD(embed(R"("input":"x","encoding_format":"int8")"), "encoding_format", "invalid_value", "found \"int8\"");
  EXPECT_BAD(embed(R"("input":"x","dimensions":0)"), "dimensions", "integer_below_min_value");
  EXPECT_BAD(embed(R"("input":"x","dimensions":"8")"), "dimensions", "invalid_type");
  EXPECT_BAD(embed(R"("input":"x","temperature":1)"), "temperature", "unknown_parameter");
}

TEST(EmbeddingResponse, HasAVectorForEachInput) {
  const std::vector<std::vector<float>> vectors{{1, -0.5f, 1e-8f}, {0.1f, -0.f, 3.4028235e38f}};
  EXPECT_EQ(embeddings_json("m", vectors, false, 9),
            R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,-0.5,1e-08]},)"
            R"({"object":"embedding","index":1,"embedding":[0.1,-0,3.4028235e+38]}],)"
            R"("model":"m","usage":{"prompt_tokens":9,"total_tokens":9}})");
  const Json coded = parse_reply(embeddings_json("m", vectors, true, 9));
  EXPECT_EQ(coded["data"][0]["embedding"], "AACAPwAAAL93zCsy");
  EXPECT_EQ(parse_reply(embeddings_json("m", {}, true, 0))["data"], Json::array());
  const std::vector<std::vector<float>> empty{{}};
  EXPECT_EQ(parse_reply(embeddings_json("m", empty, false, 0))["data"][0]["embedding"], Json::array());
  EXPECT_EQ(parse_reply(embeddings_json("m", empty, true, 0))["data"][0]["embedding"], "");
}

TEST(EmbeddingResponse, EveryFloatReadsBack) {
  std::mt19937 random(3);
  std::vector<std::vector<float>> vectors(1);
  while (vectors[0].size() < 10'000)
    if (const float value = std::bit_cast<float>(uint32_t(random())); std::isfinite(value)) vectors[0].push_back(value);
  const Json back = parse_reply(embeddings_json("m", vectors, false, 0))["data"][0]["embedding"];
  for (size_t i = 0; i < vectors[0].size(); ++i) EXPECT_EQ(float(back[i].get<double>()), vectors[0][i]);
  const std::vector<std::vector<float>> broken{{std::nanf(""), -std::numeric_limits<float>::infinity()}};
  EXPECT_EQ(parse_reply(embeddings_json("m", broken, false, 0))["data"][0]["embedding"], Json({nullptr, nullptr}));
}

TEST(EmbeddingResponse, Base64) {
  for (const auto& [bytes, expected] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xfb\xff\xfe", "+//+"}})
    EXPECT_EQ(base64(bytes), expected);
}

TEST(EmbeddingResponse, CutVectorsHaveLength1Again) {
  std::vector<std::vector<float>> vectors{{0.6f, 0, 0.8f}, {0, 0, 1}, {0.28f, 0.96f, 0}};
  cut_vectors(vectors, {});
  EXPECT_EQ(vectors[0].size(), 3u);
  cut_vectors(vectors, 2);
  EXPECT_EQ(vectors, (std::vector<std::vector<float>>{{1, 0}, {0, 0}, {0.28f, 0.96f}}));
}

TEST(EmbeddingRequests, OfLlamaCpp) {
  const auto read = [](std::string_view fields) {
    return read_llama_embedding(fmt::format("{{{}}}", fields), small_rules());
  };
  EXPECT_EQ(read(R"("content":"a")").inputs, std::vector<Prompt>{"a"});
  EXPECT_EQ(read(R"("input":["a",[1]],"embd_normalize":-1)").inputs, (std::vector<Prompt>{"a", Ids{1}}));
  EXPECT_FALSE(read(R"("content":"a","embd_normalize":-1)").normalise);
  EXPECT_BAD(read(R"("content":"a","embd_normalize":1)"), "embd_normalize", "invalid_value", "Euclidean");
  EXPECT_BAD(read(""), "content", "missing_required_parameter");
}

using test::EncoderService;

std::vector<float> floats_of(const Json& list) { return list.get<std::vector<float>>(); }

// 500 texts of 1 to 60 tokens in one request, and each in a request of its own.
TEST(Encoder, ManyTextsAtOnceAreAsOneByOne) {
  for (const char* name : {"bert-cls", "embedding-gemma"}) {
    EncoderService service(name);
    Json inputs = Json::array();
    const uint32_t texts = 500 / (test::shorter * test::shorter);  // the reference backend is slow under the sanitizers
    for (uint32_t i = 0; i < texts; ++i) {
      Json ids = Json::array();
      for (uint32_t t = 0; t < 1 + (i * 31) % 60; ++t) ids.push_back((i * 7 + t * t + 3) % 67);
      inputs.push_back(ids);
    }
    const Json all = service.post("/v1/embeddings", Json{{"input", inputs}}.dump()).json();
    ASSERT_EQ(all["data"].size(), texts);
    for (size_t i = 0; i < texts; i += 7) {
      const Json one = service.post("/v1/embeddings", Json{{"input", Json::array({inputs[i]})}}.dump()).json();
      EXPECT_EQ(one["data"][0]["embedding"], all["data"][i]["embedding"]) << i;
      EXPECT_EQ(all["data"][i]["index"], i);
    }
    const std::vector<float> expected = service.result(inputs[3].get<std::vector<uint32_t>>(), {}, false);
    const std::vector<float> found = floats_of(all["data"][3]["embedding"]);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6);
  }
}

TEST(Encoder, EmbeddingsAreThoseOfTransformers) {
  EncoderService service("embedding-gemma");
  Json inputs = Json::array();
  for (const auto& text : service.fixture.texts) inputs.push_back(text);
  const Json all = service.post("/v1/embeddings", Json{{"input", inputs}}.dump()).json();
  const Json cut = service.post("/v1/embeddings", Json{{"input", inputs}, {"dimensions", 10}}.dump()).json();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<float>&expected = service.fixture.expected[i], found = floats_of(all["data"][i]["embedding"]);
    ASSERT_EQ(found.size(), expected.size());
    double square = 0;
    for (size_t j = 0; j < found.size(); ++j) EXPECT_NEAR(found[j], expected[j], 3e-6);
    for (size_t j = 0; j < 10; ++j) square += double(expected[j]) * expected[j];
    const std::vector<float> first = floats_of(cut["data"][i]["embedding"]);
    ASSERT_EQ(first.size(), 10u);
    for (size_t j = 0; j < 10; ++j) EXPECT_NEAR(first[j], expected[j] / std::sqrt(square), 1e-5);
  }
  const auto refused = service.post("/v1/embeddings", R"({"input":[[5]],"dimensions":41})");
  EXPECT_EQ(refused.status(), 400u);
  test::expect_says(refused.json()["error"]["message"].get<std::string>(), {"dimensions", "at most 40", "found 41"});
}

TEST(Encoder, ATextBeyondTheBatchIsRefused) {
  EncoderService service("bert");
  const std::string text(70, 'x');
  const auto refused = service.post("/v1/embeddings", Json{{"input", text}}.dump());
  EXPECT_EQ(refused.status(), 400u);
  EXPECT_EQ(refused.json()["error"]["code"], "context_length_exceeded");
  // Ollama's API cuts it
  EXPECT_EQ(service.post("/api/embed", Json{{"input", text}}.dump()).status(), 200u);
}

TEST(Encoder, WithoutPoolingLlamaCppsApiHasAStateForEachToken) {
  EncoderService none("bert", 0), mean("bert", 1);
  const Json body = {{"content", {{5, 6, 7}, {8}}}};
  const Json states = none.post("/embedding", body.dump()).json();
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[1]["index"], 1u);
  ASSERT_EQ(states[0]["embedding"].size(), 3u);
  ASSERT_EQ(states[1]["embedding"].size(), 1u);
  std::vector<double> sum(none.model.width);
  for (const Json& state : states[0]["embedding"]) {
    ASSERT_EQ(state.size(), sum.size());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += state[i].get<double>();
  }
  const Json pooled = mean.post("/embedding", body.dump()).json();
  ASSERT_EQ(pooled[0]["embedding"].size(), 1u);
  const std::vector<float> expected = model::with_length_1(sum), found = floats_of(pooled[0]["embedding"][0]);
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6);
}

}  // namespace
}  // namespace heddle::server
