// Marks in a text that is not complete: found, not there, or not yet to be said.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace heddle::chat {

constexpr bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
std::string_view trimmed(std::string_view text);
size_t skip_space(std::string_view text, size_t at);

enum class Match { no, more, yes };

// Whether `text` begins with `mark` but for white space, which is skipped in both; `end` is behind it.
Match match_loosely(std::string_view text, std::string_view mark, size_t& end);

// How many bytes at the end of `text` are the beginning of `mark`.
size_t partial_suffix(std::string_view text, std::string_view mark);

// The part of a mark by which it is found in a text: up to its first white space, or to the end of a first <...> or
// [...].
std::string trigger(std::string_view mark);

// Where `mark` stands in the text; otherwise how much of the text is surely before it.
struct Found {
  size_t at;
  bool complete;
};
Found find_mark(std::string_view text, std::string_view mark);

// As a JSON string without its quotation marks.
void append_escaped(std::string& out, std::string_view text);
std::string quoted_text(std::string_view text);  // with them

}  // namespace heddle::chat
