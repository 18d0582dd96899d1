// A writer with a response that is recorded, for tests that give it events.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/utf8.h"
#include "server/api/openai/openai.h"
#include "server/service/exchange.h"
#include "tests/server/service/recorded_response.h"

namespace heddle::server {

// As another reader of JSON sees it: UTF-8, no key twice.
inline Json strictly(const std::string& text) {
  EXPECT_TRUE(is_utf8(text));
  return parse_json(text, "response");
}

// A response of `choices` choices by a ChatWriter or a CompletionWriter.
template <class Writer>
class Written {
 public:
  explicit Written(OpenAiHead head, StreamOptions options = {}, size_t choices = 1, bool logprobs = false)
      : exchange_(Exchange::open(std::make_shared<Traffic>(nullptr, false), {}, recorded_.responder(), "")) {
    GenerationRequest request;
    request.prompts.resize(choices);
    if (logprobs) request.sampling.logprobs = 0;
    writer_ = std::make_unique<Writer>(*exchange_, head, options, request);
  }
  Writer& operator*() { return *writer_; }
  Writer* operator->() { return writer_.get(); }

  const test::Recorded& recorded() const { return recorded_; }
  Json whole() const { return strictly(recorded_.response().body); }
  std::vector<Json> chunks() const {  // without "[DONE]"
    EXPECT_TRUE(is_utf8(recorded_.text()));
    return recorded_.chunks();
  }

 private:
  test::Recorded recorded_;
  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<Writer> writer_;
};

inline const Finish stopped{Finish::Reason::end_token}, too_long{Finish::Reason::max_tokens};
inline const double impossible = -std::numeric_limits<double>::infinity();

}  // namespace heddle::server
