// Template source -> tokens. White space beside tags is removed here, as with trim_blocks and lstrip_blocks.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/jinja/value.h"

namespace heddle::text::jinja {

struct Place {
  uint32_t line = 1, column = 1;  // both from 1; the column in bytes
};

struct Token {
  enum class Kind : uint8_t { text, print_begin, print_end, tag_begin, tag_end, name, string, number, sign, end };
  Kind kind = Kind::end;
  Place at;
  std::string text;  // of a text, name, string or sign
  Value number;
};

template <class... Args>
[[noreturn]] void fail_at(Place at, fmt::format_string<Args...> format, Args&&... args) {
  throw Error("template line {}, column {}: {}", at.line, at.column, fmt::format(format, std::forward<Args>(args)...));
}

std::string describe(const Token& token);
std::vector<Token> tokenize(std::string_view source);  // the last one is Kind::end

}  // namespace heddle::text::jinja
