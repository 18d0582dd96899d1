#include "server/api/rerank.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "server/api/json.h"
#include "server/api/openai/openai.h"
#include "server/api/tokenize.h"
#include "server/service/engine_job.h"
#include "server/service/service_state.h"
#include "text/rank_text.h"

namespace heddle::server {
namespace {

constexpr size_t max_documents = 10'000;  // Cohere's limit
constexpr size_t far = 32;                // bytes for each token of the context: no text with as many fits

class RerankJob : public EngineJob {
 public:
  RerankJob(const Call& call, RerankRequest request)
      : EngineJob(call.exchange, call.model, request.is_tei ? "texts" : "documents"),
        request_(std::move(request)),
        scores_(request_.documents.size()) {}

  void begin(std::vector<text::EncodedPair> pairs) {
    std::vector<engine::Request> requests(pairs.size());
    for (size_t i = 0; i < pairs.size(); ++i) {
      usage_.prompt += pairs[i].ids.size();
      requests[i].prompt = std::move(pairs[i].ids);
      if (model().served().token_types > 1) requests[i].types = std::move(pairs[i].types);
      requests[i].rank = true;
    }
    submit(std::move(requests));
  }

 private:
  void on_event(size_t which, const engine::Event& event) override {
    usage_.cached += event.cached_tokens;
    scores_[which] = event.rank_score;
  }
  void on_end() override {
    exchange().send_json(rerank_json(exchange().id(), model().card().name, request_, scores_, usage_.prompt));
  }
  void on_error(const ApiError& error) override { exchange().fail(error); }
  void summarize(LogEntry& entry) const override { entry.tokens = usage_; }

  const RerankRequest request_;
  std::vector<float> scores_;
  Usage usage_;
};

// A string, or an object with a `text`, as Cohere's first version and Jina's have it.
std::string document_at(const Json& value, const std::string& place) {
  if (!value.is_object()) return text_at(value, place);
  const auto text = value.find("text");
  if (text == value.end()) throw unexpected(place, "a string or an object with a text", value);
  return text_at(*text, place + ".text");
}

void append_result(std::string& out, const RerankRequest& request, size_t index, float score) {
  out += R"({"index":)";
  append_json(out, uint64_t(index));
  out += request.is_tei ? R"(,"score":)" : R"(,"relevance_score":)";
  append_json(out, score);
  if (request.return_documents) {
    out += request.is_tei ? R"(,"text":)" : R"(,"document":{"text":)";
    append_json(out, request.documents[index]);
    if (!request.is_tei) out += "}";
  }
  out += "}";
}

}  // namespace

RerankRequest read_rerank(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body);
  Fields fields(json, rules.ignored);
  RerankRequest request;
  request.model = fields.text("model").value_or("");
  request.query = text_at(fields.at("query"), "query");
  if (request.query.empty()) throw unexpected("query", "a text", request.query, "empty_string");
  request.is_tei = json.contains("texts") && !json.contains("documents");
  const std::string_view name = request.is_tei ? "texts" : "documents";
  for (const Json& document : list_at(fields.at(name), std::string(name), max_documents))
    request.documents.push_back(document_at(document, element(std::string(name), request.documents.size())));
  if (const auto top = fields.whole("top_n", 1, INT64_MAX)) request.top_n = size_t(*top);
  request.return_documents = fields.flag_or(request.is_tei ? "return_text" : "return_documents", false);
  if (const auto most = fields.whole("max_tokens_per_doc", 1, INT64_MAX)) request.max_document = size_t(*most);
  request.truncate = fields.flag_or(request.is_tei ? "truncate" : "truncation", false);
  if (fields.flag_or("raw_scores", false))
    throw unexpected("raw_scores", "false: scores are from 0 to 1", true, "invalid_value");
  // of others' servers: which fields of objects to read, and how long chunks are
  for (const std::string_view other : {"rank_fields", "max_chunks_per_doc", "return_embeddings", "priority"})
    fields.ignore(other);
  fields.finish();
  return request;
}

std::string rerank_json(std::string_view id, std::string_view model, const RerankRequest& request,
                        std::span<const float> scores, uint64_t tokens) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(order.size(), request.top_n));
  std::string results;
  append_json_list(results, order, [&](size_t index) { append_result(results, request, index, scores[index]); });
  if (request.is_tei) return results;
  std::string out = R"({"id":)";
  append_json(out, id);
  out += R"(,"object":"list","model":)";
  append_json(out, model);
  out.append(R"(,"results":)").append(results);
  out += R"(,"usage":{"prompt_tokens":)";
  append_json(out, tokens);
  out += R"(,"total_tokens":)";
  append_json(out, tokens);
  out += R"(},"meta":{"tokens":{"input_tokens":)";
  append_json(out, tokens);
  return out += "}}}";
}

void rerank(const Call& call) {
  RerankRequest request = call.read(read_rerank);
  call.expect_model(request.model);
  const Served& served = call.model->served();
  if (!served.card.ranks)
    throw ApiError(400, "", "model", "{} is not a reranker: it has no classifier that scores a query and a document",
                   served.card.name);
  const std::string field = request.is_tei ? "texts" : "documents";
  const text::RankText joined(served.tokenizer, served.rerank_template);
  std::vector<text::EncodedPair> pairs;
  bool cut = false;
  const size_t most = request.truncate ? served.card.context : SIZE_MAX;
  for (const std::string& document : request.documents) {
    const std::string place = element(field, pairs.size());
    if (most == SIZE_MAX && request.max_document == SIZE_MAX && document.size() > far * served.card.context)
      encode_within(*call.model, document, {.add_special = false, .parse_special = false}, place);  // refuses most
    auto encoded = joined.encode(request.query, document, request.max_document, most);
    cut |= encoded.cut > 0 && request.truncate;
    pairs.push_back(std::move(encoded.pair));
    expect_fits(*call.model, place, pairs.back().ids.size(), 0);
  }
  if (cut) call.exchange->add_header("X-Heddle-Clamped", fmt::format("{}={}", field, served.card.context));
  std::make_shared<RerankJob>(call, std::move(request))->begin(std::move(pairs));
}

}  // namespace heddle::server
