#include "chat/marks.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle::chat {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

size_t skip_space(std::string_view text, size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

Match match_loosely(std::string_view text, std::string_view mark, size_t& end) {
  size_t at = 0;
  size_t i = skip_space(mark, 0);
  end = 0;
  while (i < mark.size()) {
    at = skip_space(text, at);
    if (at == text.size()) return Match::more;
    if (text[at] != mark[i]) return Match::no;
    end = ++at;
    i = skip_space(mark, i + 1);
  }
  return Match::yes;
}

size_t partial_suffix(std::string_view text, std::string_view mark) {
  if (mark.empty()) return 0;
  for (size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size)
    if (text.ends_with(mark.substr(0, size))) return size;
  return 0;
}

std::string trigger(std::string_view mark) {
  mark = trimmed(mark);
  const char close = mark.starts_with('<') ? '>' : mark.starts_with('[') ? ']' : ' ';
  for (size_t i = 1; i < mark.size(); ++i)
    if (is_space(mark[i]))
      return std::string(mark.substr(0, i));
    else if (mark[i] == close)
      return std::string(mark.substr(0, i + 1));
  return std::string(mark);
}

Found find_mark(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at != text.npos) return {at, true};
  return {text.size() - partial_suffix(text, mark), false};
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (uint8_t(c) < 0x20)
          out += fmt::format("\\u{:04x}", uint8_t(c));
        else
          out += c;
    }
}

std::string quoted_text(std::string_view text) {
  std::string out = "\"";
  append_escaped(out, text);
  return out += "\"";
}

}  // namespace heddle::chat
