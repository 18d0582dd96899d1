// The model that is served, with its chat template.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "server/api/generation.h"
#include "server/service/service.h"
#include "text/template.h"

namespace heddle::server {

// A conversation as chat templates take it.
struct Conversation {
  std::string messages;   // JSON, a list of objects with role and content
  std::string variables;  // JSON, an object with further variables for the template; may be empty
  bool add_generation_prompt = true;
  std::string field = "messages";  // the field of the body that it came from, for errors
};

class ServedModel {
 public:
  explicit ServedModel(Served served);

  const Served& served() const { return served_; }
  const text::Tokenizer& tokenizer() const { return served_.tokenizer; }
  engine::EngineThread& engine() const { return served_.engine; }
  uint32_t context() const { return served_.context; }
  RequestRules rules() const { return {served_.tokenizer, served_.vocabulary}; }
  int64_t created() const { return created_; }               // when it was loaded, in seconds since 1970
  double seconds() const { return seconds_since(loaded_); }  // since then

  // Throws an ApiError 400 if there is no template, or if the template refuses.
  std::string render(const Conversation& conversation) const;

 private:
  Served served_;
  std::optional<text::ChatTemplate> template_;
  std::string no_template_;  // the reason
  int64_t created_;
  Clock::time_point loaded_ = Clock::now();
};

int64_t unix_time();  // seconds since 1970

}  // namespace heddle::server
