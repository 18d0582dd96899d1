// Chat templates: the Jinja that models bring along, run in a sandbox.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace heddle::text {

struct TemplateRefused : Error {
  using Error::Error;
};

struct TemplateLimits {
  uint64_t steps = 10'000'000;  // statements and expressions evaluated
  uint32_t depth = 200;         // of nesting, in the source, of calls and of values
  size_t output = 64u << 20;    // bytes, of the text and of any string or list on the way
};

struct TemplateInput {
  std::string messages;  // JSON: a list
  std::string tools;     // JSON: a list, or empty for none
  std::string extra;     // JSON: an object whose members become variables, or empty ("enable_thinking")
  std::string bos, eos;  // the texts of the tokens
  bool add_generation_prompt = true;
  int64_t now = 0;  // for strftime_now: seconds since 1970, in UTC
};

class ChatTemplate {
 public:
  // Throws an Error with line and column for what is no template heddle understands.
  explicit ChatTemplate(std::string_view source, TemplateLimits limits = {});
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Throws TemplateRefused with the template's own words when it calls raise_exception, Error for anything else that
  // goes wrong (line named): an operation on the wrong type, a limit reached.
  std::string render(const TemplateInput& input) const;
  // Any variables: a JSON object. What tests use; render() calls it.
  std::string render_with(std::string_view variables, int64_t now = 0) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace heddle::text
