// Unicode for normalizers and splitters: classes of characters and the four normal forms, from utf8proc's tables. Bytes
// that are not UTF-8 belong to no class and stay as they are.
#pragma once
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace heddle::text {

enum class Form : uint8_t { nfc, nfd, nfkc, nfkd };
// Linear in the text, even for long runs of combining marks.
std::string normal_form(std::string_view text, Form form);

bool is_white_space(char32_t c);        // the property White_Space
bool is_mark(char32_t c);               // M
bool is_nonspacing_mark(char32_t c);    // Mn
bool is_number(char32_t c);             // N
bool is_punctuation(char32_t c);        // P, and ASCII punctuation ("$+<=>^`|~" are symbols in Unicode)
bool is_word_character(char32_t c);     // what \w matches: alphabetic, M, Nd, Pc, joiners
bool is_control_or_format(char32_t c);  // Cc, Cf, Co
bool is_ideograph(char32_t c);          // the blocks that BERT's tokenizers call Chinese

void append_lower(std::string& out, char32_t c);  // one character may become two
std::string lower_case(std::string_view text);

// Calls `valid(code_point, bytes)` for each character and `invalid(bytes)` for bytes that are not UTF-8.
template <class Valid, class Invalid>
void for_each_character(std::string_view text, Valid valid, Invalid invalid) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const std::string_view bytes = text.substr(at, point.bytes);
    if (point.valid)
      valid(point.value, bytes);
    else
      invalid(bytes);
    at += point.bytes;
  }
}

}  // namespace heddle::text
