// Characters as in Python's str: classes, upper and lower case, code points.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace heddle::text::jinja {

bool is_space(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);
bool is_printable(char32_t c);
bool is_line_end(char32_t c);  // where splitlines() splits

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string title(std::string_view text);       // every first letter of a word
std::string capitalize(std::string_view text);  // the first letter
std::string swap_case(std::string_view text);
std::string case_fold(std::string_view text);

std::u32string decode(std::string_view text);
std::string encode(std::u32string_view text);
size_t byte_of(std::string_view text, size_t index);                                 // where code point `index` begins
std::string_view strip(std::string_view text, bool left = true, bool right = true);  // of white space
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends = false);

}  // namespace heddle::text::jinja
