#include "server/api/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle::server {
namespace {

template <class Number>
void append_number(std::string& out, Number number) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, number);
  check(end.ec == std::errc(), "a number of at most 40 digits");
  out.append(digits, end.ptr);
}

void append_escape(std::string& out, char byte) {
  switch (byte) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", uint8_t(byte));
  }
}

void append_valid(std::string& out, std::string_view text) {
  out.reserve(out.size() + text.size() + 2);
  out += '"';
  size_t begin = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char byte = text[at];
    if (uint8_t(byte) >= 0x20 && byte != '"' && byte != '\\') continue;
    out.append(text.substr(begin, at - begin));
    append_escape(out, byte);
    begin = at + 1;
  }
  out.append(text.substr(begin));
  out += '"';
}

}  // namespace

void append_json(std::string& out, std::string_view text) {
  if (is_utf8(text))
    append_valid(out, text);
  else
    append_valid(out, replace_invalid_utf8(text));
}

void append_json(std::string& out, float number) {
  if (std::isfinite(number))
    append_number(out, number);
  else
    out += "null";
}
void append_json(std::string& out, uint64_t number) { append_number(out, number); }
void append_json(std::string& out, int64_t number) { append_number(out, number); }

std::string base64(std::string_view bytes) {
  static constexpr char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i) group = group << 8 | (i < count ? uint8_t(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) out += i <= count ? letters[group >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

}  // namespace heddle::server
