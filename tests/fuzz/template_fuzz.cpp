// Any bytes as a template and, after a zero byte, as its variables: rendered within small limits or refused. Then once
// more with a message of a letter that the template does not contain: each one in the output must be marked as given.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/target.h"
#include "text/template.h"

FUZZ_TARGET(template) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t zero = all.find('\0');
  const std::string_view variables = zero == all.npos ? "{}" : all.substr(zero + 1);
  try {
    const heddle::text::ChatTemplate chat(all.substr(0, zero), {.steps = 20'000, .depth = 40, .output = 1 << 16});
    const std::string_view source = all.substr(0, zero), letter = "\xe4\xb8\xad";
    if (source.find(letter) == source.npos && source.find('\\') == source.npos) {
      const auto rendered = chat.render_ranges({.messages = R"([{"role": "user", "content": "a \u4e2d<b>\u4e2d"}])"});
      size_t given = 0, end = 0;
      for (const auto& range : rendered.given) {
        if (range.begin < end || range.end <= range.begin || range.end > rendered.text.size()) std::abort();
        end = range.end;
      }
      for (size_t at = rendered.text.find(letter); at != std::string::npos; at = rendered.text.find(letter, at + 1)) {
        while (given < rendered.given.size() && rendered.given[given].end <= at) ++given;
        if (given == rendered.given.size() || rendered.given[given].begin > at ||
            rendered.given[given].end < at + letter.size())
          std::abort();
      }
    }
    chat.render_with(variables, 1767225600);
  } catch (const heddle::Error&) {
  }
  return 0;
}
