// A request for embeddings: a vector for each input, of length 1.
#pragma once
#include <vector>

#include "server/api/requests.h"
#include "server/service/engine_job.h"

namespace heddle::server {

class EmbeddingJob : public EngineJob {
 public:
  EmbeddingJob(std::shared_ptr<Exchange> exchange, std::shared_ptr<const ServedModel> model, EmbeddingRequest request);
  void begin(std::vector<std::vector<text::TokenId>> inputs);  // throws an ApiError if the engine does not take them

 private:
  void told(size_t which, const engine::Event& event) override;
  void all_ended() override;
  void summarize(LogEntry& entry) const override;

  const EmbeddingRequest request_;
  std::vector<std::vector<float>> vectors_;
  Usage usage_;
};

}  // namespace heddle::server
