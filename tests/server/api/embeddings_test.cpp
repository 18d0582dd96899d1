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

}  // namespace
}  // namespace heddle::server
