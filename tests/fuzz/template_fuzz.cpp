// Any bytes as a template and, after a zero byte, as its variables: rendered within small limits or refused.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/target.h"
#include "text/template.h"

FUZZ_TARGET(template) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t zero = all.find('\0');
  const std::string_view variables = zero == all.npos ? "{}" : all.substr(zero + 1);
  try {
    const heddle::text::ChatTemplate chat(all.substr(0, zero), {.steps = 20'000, .depth = 40, .output = 1 << 16});
    chat.render_with(variables, 1767225600);
  } catch (const heddle::Error&) {
  }
  return 0;
}
