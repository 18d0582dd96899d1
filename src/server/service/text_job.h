// A request for text, chat or completion, from the engine's tokens to the answer.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "server/api/requests.h"
#include "server/api/text_reply.h"
#include "server/service/answer_text.h"
#include "server/service/engine_job.h"
#include "server/status/trace.h"

namespace heddle::server {

struct TextTask {
  bool chat = false;
  Generation generation;
  std::vector<std::vector<text::TokenId>> prompts;  // one request to the engine each
  uint32_t best_of = 1;                             // answers made for each; generation.n of them are given
  bool echo = false;                                // the prompt is given before the answer
  TraceLevel trace = TraceLevel::none;
  Preparation preparation;
};

class TextJob : public EngineJob {
 public:
  TextJob(std::shared_ptr<Exchange> exchange, std::shared_ptr<const ServedModel> model, TextTask task);
  void begin();  // throws an ApiError if the engine does not take it

 private:
  void told(size_t which, const engine::Event& event) override;
  bool is_over(size_t which, uint32_t copy) const override { return answers_[number(which, copy)].over(); }
  void all_ended() override;
  void summarize(LogEntry& entry) const override;

  size_t number(size_t which, uint32_t copy) const { return which * task_.best_of + copy; }
  void first_of(size_t which, uint32_t index, const engine::Event& event);
  void end(uint32_t index, const engine::Event& event);
  Usage usage() const;
  std::vector<uint32_t> kept() const;

  const TextTask task_;
  const AnswerRules rules_;
  std::vector<AnswerText> answers_;  // best_of for each prompt
  std::vector<bool> begun_;          // of each
  TextReply reply_;
  uint64_t cached_ = 0;  // tokens of prompts that were not computed again
  std::vector<AnswerTrace> traces_;
  std::optional<double> first_token_, queue_;  // seconds
};

}  // namespace heddle::server
