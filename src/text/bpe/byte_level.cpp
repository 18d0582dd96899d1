#include "text/bpe/byte_level.h"

#include <array>

#include "base/utf8.h"

namespace heddle::text {

namespace {

// Bytes that are visible characters of Latin-1 stand for themselves; the others, in order, are U+0100 and on.
constexpr bool is_visible(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr std::array<char16_t, 256> spelling_of = [] {
  std::array<char16_t, 256> out{};
  char16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) out[byte] = is_visible(byte) ? char16_t(byte) : next++;
  return out;
}();

constexpr std::array<int16_t, 0x144> bytes_of = [] {  // by character; -1: stands for no byte
  std::array<int16_t, 0x144> out{};
  for (auto& byte : out) byte = -1;
  for (unsigned byte = 0; byte < 256; ++byte) out[spelling_of[byte]] = int16_t(byte);
  return out;
}();

}  // namespace

std::optional<std::string> byte_level_bytes(std::string_view spelling) {
  std::string out;
  out.reserve(spelling.size());
  for (size_t at = 0; at < spelling.size();) {
    const CodePoint point = code_point_at(spelling, at);
    if (!point.valid || point.value >= bytes_of.size() || bytes_of[point.value] < 0) return std::nullopt;
    out.push_back(char(bytes_of[point.value]));
    at += point.bytes;
  }
  return out;
}

std::string byte_level_spelling(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) append_utf8(out, spelling_of[uint8_t(byte)]);
  return out;
}

}  // namespace heddle::text
