// Numbers as Python reads and prints them, integers of 64 bits that do not wrap; and characters as in Python's str:
// classes, upper and lower case, code points.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace heddle::text::jinja {

std::string print_real(double value);  // repr(): the shortest digits that read back
// "%.{precision}f", "e" or "g" of C, correctly rounded; `alternate` keeps the point and zeros of "g".
std::string print_real(double value, char type, int precision, bool alternate = false);
std::string print_integer(uint64_t magnitude, unsigned base);

std::optional<double> parse_real(std::string_view text);              // as float(): white space and underscores allowed
std::optional<Value> parse_integer(std::string_view text, int base);  // as int(text, base); Kind::big beyond 64 bits

// Throw Error when 64 bits do not hold the result, or for a division by zero.
int64_t add(int64_t a, int64_t b);
int64_t subtract(int64_t a, int64_t b);
int64_t multiply(int64_t a, int64_t b);
int64_t floor_divide(int64_t a, int64_t b);
int64_t modulo(int64_t a, int64_t b);  // has the sign of b
double floor_divide(double a, double b);
double modulo(double a, double b);
Value power(const Value& a, const Value& b);
Value to_integer(double value);  // towards zero
Value round_half_even(const Value& value, int64_t digits);

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
