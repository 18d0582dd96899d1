// The body of a request for ranks, the response, and both through a service with a tiny reranker.
#include "server/api/rerank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "server/api/json.h"
#include "tests/server/api/request_fixture.h"
#include "tests/server/service/encoder_service.h"

namespace heddle::server {
namespace {

using test::EncoderService;

RerankRequest ranked(std::string_view fields) { return read_rerank(fmt::format("{{{}}}", fields), small_rules()); }

TEST(RerankRequests, EveryField) {
  const RerankRequest request = ranked(R"("query":"q","documents":["a",{"text":"b","title":"t"}])");
  EXPECT_EQ(request.query, "q");
  EXPECT_EQ(request.documents, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.top_n, SIZE_MAX);
  EXPECT_EQ(request.max_document, SIZE_MAX);
  EXPECT_FALSE(request.return_documents || request.truncate || request.is_tei);
  const RerankRequest full =
      ranked(R"("model":"m","query":"q","documents":[""],"top_n":3,"return_documents":true,"max_tokens_per_doc":7,)"
             R"("truncation":true)");
  EXPECT_EQ(full.model, "m");
  EXPECT_EQ(full.top_n, 3u);
  EXPECT_EQ(full.max_document, 7u);
  EXPECT_TRUE(full.return_documents && full.truncate);
  const RerankRequest tei =
      ranked(R"("query":"q","texts":["a"],"return_text":true,"truncate":true,"raw_scores":false)");
  EXPECT_TRUE(tei.is_tei && tei.return_documents && tei.truncate);
  EXPECT_BAD(ranked(R"("documents":["a"])"), "query", "missing_required_parameter");
  EXPECT_BAD(ranked(R"("query":"","documents":["a"])"), "query", "empty_string");
  EXPECT_BAD(ranked(R"("query":"q")"), "documents", "missing_required_parameter");
  EXPECT_BAD(ranked(R"("query":"q","documents":[])"), "documents", "empty_array");
  EXPECT_BAD(ranked(R"("query":"q","documents":["a",5])"), "documents[1]", "invalid_type");
  EXPECT_BAD(ranked(R"("query":"q","documents":[{"title":"t"}])"), "documents[0]", "invalid_type", "with a text");
  EXPECT_BAD(ranked(R"("query":"q","documents":[{"text":1}])"), "documents[0].text", "invalid_type");
  EXPECT_BAD(ranked(R"("query":"q","documents":["a"],"top_n":0)"), "top_n", "integer_below_min_value");
  EXPECT_BAD(ranked(R"("query":"q","texts":["a"],"raw_scores":true)"), "raw_scores", "invalid_value", "from 0 to 1");
  EXPECT_BAD(ranked(R"("query":"q","documents":["a"],"temperature":1)"), "temperature", "unknown_parameter");
}

TEST(RerankResponse, HasTheBestFirst) {
  RerankRequest request{.documents = {"x", "y", "z"}};
  const std::vector<float> scores{0.25f, 0.5f, 0.25f};
  EXPECT_EQ(rerank_json("id", "m", request, scores, 9),
            R"({"id":"id","object":"list","model":"m","results":[{"index":1,"relevance_score":0.5},)"
            R"({"index":0,"relevance_score":0.25},{"index":2,"relevance_score":0.25}],)"
            R"("usage":{"prompt_tokens":9,"total_tokens":9},"meta":{"tokens":{"input_tokens":9}}})");
  request.top_n = 1;
  request.return_documents = true;
  EXPECT_EQ(parse_json(rerank_json("id", "m", request, scores, 9), "response")["results"].dump(),
            R"([{"document":{"text":"y"},"index":1,"relevance_score":0.5}])");
  request.is_tei = true;
  EXPECT_EQ(rerank_json("id", "m", request, scores, 9), R"([{"index":1,"score":0.5,"text":"y"}])");
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// What the model's classifier says of "[CLS] query [SEP] document [SEP]", the second part with another token type.
TEST(Reranker, ScoresAreSigmoidsOfTheLabel) {
  for (const char* name : {"bert-rank", "xlm-roberta-rank", "modernbert-rank"}) {
    EncoderService service(name);
    const std::vector<std::string> documents{"cat", "a dog and", "zebra zebra", ""};
    const Json body = {{"model", name}, {"query", "what cat"}, {"documents", documents}, {"return_documents", true}};
    const Json answer = service.post("/v1/rerank", body.dump()).json();
    ASSERT_EQ(answer["results"].size(), 4u) << answer;
    double last = 1;
    for (const Json& result : answer["results"]) {
      const std::string document = documents.at(result["index"].get<size_t>());
      EXPECT_EQ(result["document"]["text"], document);
      const text::EncodedPair pair = service.tokenizer.encode_pair("what cat", document);
      const double score = result["relevance_score"].get<double>();
      EXPECT_NEAR(score, sigmoid(service.result(pair.ids, pair.types, true).at(0)), 1e-6) << name;
      EXPECT_LE(score, last);
      last = score;
    }
    EXPECT_EQ(answer["usage"]["prompt_tokens"], answer["meta"]["tokens"]["input_tokens"]);
    for (const char* path : {"/rerank", "/v2/rerank", "/v1/reranking", "/reranking"})
      EXPECT_EQ(service.post(path, body.dump()).json()["results"], answer["results"]) << path;
  }
}

TEST(Reranker, CutsDocumentsIfItIsAllowed) {
  EncoderService service("bert-rank");
  const std::string longer(70, 'x'), fits(7, 'x');
  const auto body = [&](const std::string& document, const char* more) {
    return fmt::format(R"({{"query":"cat","documents":["{}"]{}}})", document, more);
  };
  const auto refused = service.post("/v1/rerank", body(longer, ""));
  EXPECT_EQ(refused.status(), 400u);
  EXPECT_EQ(refused.json()["error"]["param"], "documents[0]");
  EXPECT_EQ(refused.json()["error"]["code"], "context_length_exceeded");
  const Json seven = service.post("/v1/rerank", body(fits, "")).json()["results"];
  EXPECT_EQ(service.post("/v1/rerank", body(longer, R"(,"max_tokens_per_doc":7)")).json()["results"], seven);
  // 64 tokens: [CLS] c ##a ##t [SEP] x ... [SEP]
  const Json all = service.post("/v1/rerank", body(std::string(58, 'x'), "")).json()["results"];
  const auto cut = service.post("/v1/rerank", body(longer, R"(,"truncation":true)"));
  EXPECT_EQ(cut.json()["results"], all);
  EXPECT_EQ(cut.header("X-Heddle-Clamped"), "documents=64");
}

TEST(Reranker, GivesNoEmbeddingsAndNoText) {
  EncoderService service("bert-rank");
  const auto embedded = service.post("/v1/embeddings", R"({"input":"cat"})");
  EXPECT_EQ(embedded.status(), 400u);
  test::expect_says(embedded.json()["error"]["message"].get<std::string>(),
                    {"bert-rank gives no embeddings", "/v1/rerank"});
  const auto chat = service.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"cat"}]})");
  EXPECT_EQ(chat.status(), 400u);
  test::expect_says(chat.json()["error"]["message"].get<std::string>(), {"bert-rank generates no text", "a reranker"});
}

TEST(Encoder, RanksNothingAndGeneratesNothing) {
  EncoderService service("bert");
  const auto ranks = service.post("/v1/rerank", R"({"query":"a","documents":["b"]})");
  EXPECT_EQ(ranks.status(), 400u);
  test::expect_says(ranks.json()["error"]["message"].get<std::string>(), {"bert is not a reranker"});
  for (const auto& [path, body] : std::vector<std::pair<std::string, std::string>>{
           {"/v1/completions", R"({"prompt":"a"})"},
           {"/v1/messages", R"({"max_tokens":1,"messages":[{"role":"user","content":"a"}]})"},
           {"/api/chat", R"({"messages":[{"role":"user","content":"a"}]})"},
           {"/completion", R"({"prompt":"a"})"}}) {
    const auto refused = service.post(path, body);
    EXPECT_EQ(refused.status(), 400u) << path;
    EXPECT_NE(refused.text().find("bert generates no text: it is an encoder"), std::string::npos) << refused.text();
  }
}

}  // namespace
}  // namespace heddle::server
