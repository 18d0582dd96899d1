#include "server/service/embedding_job.h"

#include "server/api/replies.h"

namespace heddle::server {
EmbeddingJob::EmbeddingJob(std::shared_ptr<Exchange> its_exchange, std::shared_ptr<const ServedModel> its_model,
                           EmbeddingRequest request)
    : EngineJob(std::move(its_exchange), std::move(its_model)), request_(std::move(request)) {}

void EmbeddingJob::begin(std::vector<std::vector<text::TokenId>> inputs) {
  std::vector<engine::Request> requests(inputs.size());
  vectors_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    usage_.prompt += inputs[i].size();
    requests[i].prompt = std::move(inputs[i]);
    requests[i].embed = true;
  }
  submit(std::move(requests));
}

void EmbeddingJob::told(size_t which, const engine::Event& event) {
  usage_.cached += event.cached_tokens;
  vectors_[which] = event.embedding;
}

void EmbeddingJob::all_ended() {
  exchange().send_json(embeddings(model().served().name, vectors_, request_.base64, usage_.prompt));
}

void EmbeddingJob::summarize(LogEntry& entry) const {
  entry.model = model().served().name;
  entry.user = request_.user;
  entry.tokens = usage_;
}

}  // namespace heddle::server
