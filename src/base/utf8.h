// UTF-8: validation, and code points in and out. Overlong forms, surrogates and values beyond 10FFFF are invalid.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

struct CodePoint {
  char32_t value = 0;  // U+FFFD where the bytes are invalid
  uint8_t bytes = 0;   // 1 to 4; of an invalid sequence, the bytes that one U+FFFD stands for
  bool valid = false;
};

// The code point that begins at text[at] (at < size). An invalid sequence is as long as its well-formed beginning, at
// least 1: what Unicode recommends, and Python and Rust do when they replace.
CodePoint code_point_at(std::string_view text, size_t at);

// The first byte that is no valid UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);
inline bool is_utf8(std::string_view text) { return find_invalid_utf8(text) == std::string_view::npos; }

bool is_control(char32_t code_point);  // C0, DEL, C1, and the two separators that break a line

// The number of bytes at the end that begin a character and lack the rest of it: 0 to 3.
size_t incomplete_utf8_tail(std::string_view text);

void append_utf8(std::string& out, char32_t code_point);  // no surrogate, up to 10FFFF
std::string replace_invalid_utf8(std::string_view text);  // by U+FFFD

// For messages: in quotation marks, with control characters, quotation marks and invalid bytes as escapes, and "..."
// where it is cut after about `longest` bytes. Always valid UTF-8 of one line.
std::string in_quotes(std::string_view text, size_t longest = 60);

}  // namespace heddle
