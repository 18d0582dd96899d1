// The model that is served, with what is worked out about it once.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/api/requests.h"
#include "server/service/service.h"
#include "text/template.h"

namespace heddle::server {

class ServedModel {
 public:
  explicit ServedModel(Served served);

  const Served& served() const { return served_; }
  const text::Tokenizer& tokenizer() const { return served_.tokenizer; }
  engine::EngineThread& engine() const { return served_.engine; }
  uint32_t context() const { return served_.context; }
  RequestRules rules() const { return {served_.tokenizer, served_.vocabulary}; }
  int64_t created() const { return created_; }               // seconds since 1970: when it was loaded
  double seconds() const { return seconds_since(loaded_); }  // since then

  // Throws an ApiError 404 unless it is this model; an empty name is.
  void expect_named(const std::string& name) const;
  // Throws an ApiError 400 if there is no template, or if it refuses.
  std::string render(const ChatRequest& request) const;

 private:
  Served served_;
  std::optional<text::ChatTemplate> chat_;
  std::string no_chat_;  // why there is no template
  int64_t created_;
  Clock::time_point loaded_ = Clock::now();
};

int64_t unix_time();  // seconds since 1970

}  // namespace heddle::server
