#include "main/device/text_requests.h"

#include <algorithm>

#include "model/pooled.h"
#include "text/rank_text.h"

namespace heddle {

engine::Request embed_request(const RunningModel& running, std::string_view text) {
  engine::Request request;
  request.prompt = running.tokenizer().encode(text, {.parse_special = false});
  request.embed = true;
  return request;
}

std::vector<float> embedding_of(const engine::Event& event) {
  return model::with_length_1(std::vector<double>(event.embedding.begin(), event.embedding.end()));
}

std::vector<engine::Request> rank_requests(const RunningModel& running, std::string_view query,
                                           std::span<const std::string> documents, bool truncate) {
  model::expect_ranks(running.model);
  const text::RankText joined(running.tokenizer(), running.rerank_template);
  std::vector<engine::Request> requests;
  const size_t context = std::min<size_t>(running.model.context, running.limits.rows);
  for (const std::string& document : documents) {
    text::EncodedPair pair = joined.encode(query, document, SIZE_MAX, truncate ? context : SIZE_MAX).pair;
    engine::Request& request = requests.emplace_back();
    request.prompt = std::move(pair.ids);
    if (model::token_types(running.model) > 1) request.types = std::move(pair.types);
    request.rank = true;
  }
  return requests;
}

}  // namespace heddle
