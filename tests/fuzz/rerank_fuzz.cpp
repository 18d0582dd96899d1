// Bodies of requests for ranks and for llama.cpp's embeddings: read or refused with a 400, and what is read is within
// its bounds.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"
#include "server/api/api_error.h"
#include "server/api/embeddings.h"
#include "server/api/json.h"
#include "server/api/rerank.h"
#include "tests/fuzz/target.h"
#include "tests/text/small_vocabulary.h"
#include "text/rank_text.h"

namespace heddle {
namespace {

void expect_that(bool condition) {
  if (!condition) std::abort();
}

// What is read can be joined within any bounds, and the response is JSON with a result for each document.
void rank(const server::RerankRequest& request, const text::Tokenizer& tokenizer, size_t most) {
  expect_that(!request.query.empty() && !request.documents.empty() && request.documents.size() <= 10'000);
  expect_that(request.top_n >= 1 && request.max_document >= 1);
  const text::RankText joined(tokenizer, "<|begin|>{query}|{document}<|im_end|>");
  for (const std::string& document : request.documents) {
    const auto encoded = joined.encode(request.query, document, request.max_document, most);
    expect_that(encoded.pair.ids.size() == encoded.pair.types.size() && encoded.pair.ids.size() >= 2);
    expect_that(encoded.pair.ids.front() == 265 && encoded.pair.ids.back() == 266);
  }
  const std::vector<float> scores(request.documents.size(), 0.5f);
  const Json answer = parse_json(server::rerank_json("id", "m", request, scores, 1), "response");
  const Json& results = request.is_tei ? answer : answer["results"];
  expect_that(results.size() == std::min(request.top_n, request.documents.size()));
}

}  // namespace

// The first byte says which request it is, whether the server is strict, and how many tokens there may be.
FUZZ_TARGET(rerank) {
  static const text::Tokenizer tokenizer = text::Tokenizer::from_vocabulary(test::byte_level_vocabulary());
  if (size == 0) return 0;
  server::IgnoredFields ignored;
  const server::RequestRules rules{tokenizer, 260, data[0] & 0x80 ? nullptr : &ignored};
  const std::string_view body{reinterpret_cast<const char*>(data) + 1, size - 1};
  try {
    if (data[0] & 0x40)
      expect_that(!server::read_llama_embedding(body, rules).inputs.empty());
    else
      rank(server::read_rerank(body, rules), tokenizer, data[0] & 0x3f);
  } catch (const server::ApiError& error) {
    expect_that(error.status == 400);
  }
  for (const std::string& name : ignored.names())
    for (const char c : name) expect_that(c > ' ' && c <= '~');  // it is sent in a header
  return 0;
}

}  // namespace heddle
