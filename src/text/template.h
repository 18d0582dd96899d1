// Chat templates: the Jinja templates that come with models, run in a sandbox.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/ranges.h"

namespace heddle::text {

struct TemplateRefused : Error {
  using Error::Error;
};

struct TemplateLimits {
  uint64_t steps = 10'000'000;  // statements and expressions evaluated
  uint32_t depth = 200;         // of nesting in the source, in calls and in values
  size_t output = 64u << 20;    // bytes of the result, and of any string or list along the way
};

struct TemplateInput {
  std::string messages;  // JSON: a list
  std::string tools;     // JSON: a list, or empty for none
  std::string extra;     // JSON: an object, its members become variables; or empty ("enable_thinking")
  std::string bos, eos;  // the texts of the tokens
  bool add_generation_prompt = true;
  int64_t now = 0;  // for strftime_now: seconds since 1970, in UTC
};

struct RenderedTemplate {
  std::string text;
  TextRanges given;  // what is not the template's own words: it came with the conversation
};

class ChatTemplate {
 public:
  // Throws an Error with line and column if heddle does not understand it.
  explicit ChatTemplate(std::string_view source, TemplateLimits limits = {});
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Throws TemplateRefused with the template's message if it calls raise_exception, an Error with the line for anything
  // else: an operation on the wrong type, a limit exceeded.
  std::string render(const TemplateInput& input) const { return render_ranges(input).text; }
  // The same. BOS, EOS and the usual roles count as the template's own words.
  RenderedTemplate render_ranges(const TemplateInput& input) const;
  // With any variables, a JSON object: for tests.
  std::string render_with(std::string_view variables, int64_t now = 0) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace heddle::text
