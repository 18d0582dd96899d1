// The table of well-formed byte sequences (Unicode, table 3-7) as code.
#include "base/utf8.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace heddle {
namespace {

struct Lead {
  uint8_t length;     // of the sequence; 0: no sequence begins with this byte
  uint8_t low, high;  // range of the second byte
};

constexpr Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xc2) return {0, 0, 0};
  if (byte < 0xe0) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte < 0xf0) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte < 0xf4) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

// How many bytes from `at` are a well-formed beginning of the sequence that `lead` announces.
size_t well_formed(std::string_view text, size_t at, const Lead& lead) {
  const size_t end = std::min<size_t>(text.size(), at + lead.length);
  size_t next = at + 1;
  if (next < end && (uint8_t(text[next]) < lead.low || uint8_t(text[next]) > lead.high)) return 1;
  while (next < end && (uint8_t(text[next]) & 0xc0) == 0x80) ++next;
  return next - at;
}

}  // namespace

CodePoint code_point_at(std::string_view text, size_t at) {
  const uint8_t first = static_cast<uint8_t>(text[at]);
  if (first < 0x80) return {first, 1, true};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {0xfffd, 1, false};
  const size_t bytes = well_formed(text, at, lead);
  if (bytes < lead.length) return {0xfffd, static_cast<uint8_t>(bytes), false};
  char32_t value = first & (0x7f >> lead.length);
  for (size_t i = 1; i < bytes; ++i) value = value << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3f);
  return {value, lead.length, true};
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    uint64_t eight;
    if (at + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const CodePoint point = code_point_at(text, at);
    if (!point.valid) return at;
    at += point.bytes;
  }
  return std::string_view::npos;
}

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029; }

size_t incomplete_utf8_tail(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const size_t at = text.size() - back;
    const uint8_t byte = static_cast<uint8_t>(text[at]);
    if ((byte & 0xc0) == 0x80) continue;  // a continuation: its lead lies further back
    const Lead lead = lead_of(byte);
    return lead.length > back && well_formed(text, at, lead) == back ? back : 0;
  }
  return 0;
}

void append_utf8(std::string& out, char32_t c) {
  check(c < 0xd800 || (c > 0xdfff && c <= 0x10ffff), "a code point that UTF-8 can hold");
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto rest = [&put](char32_t bits) { put(0x80 | (bits & 0x3f)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    rest(c);
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    rest(c >> 6);
    rest(c);
  } else {
    put(0xf0 | c >> 18);
    rest(c >> 12);
    rest(c >> 6);
    rest(c);
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.valid)
      out.append(text.substr(at, point.bytes));
    else
      append_utf8(out, 0xfffd);
    at += point.bytes;
  }
  return out;
}

std::string in_quotes(std::string_view text, size_t longest) {
  std::string out = "\"";
  size_t at = 0;
  while (at < text.size() && at < longest) {
    const CodePoint point = code_point_at(text, at);
    const std::string_view bytes = text.substr(at, point.bytes);
    if (bytes == "\"" || bytes == "\\")
      out.append("\\").append(bytes);
    else if (bytes == "\n")
      out.append("\\n");
    else if (point.valid && !is_control(point.value))
      out.append(bytes);
    else
      for (const char byte : bytes) out += fmt::format("\\x{:02x}", uint8_t(byte));
    at += point.bytes;
  }
  return out.append(at < text.size() ? "\"..." : "\"");
}

}  // namespace heddle
