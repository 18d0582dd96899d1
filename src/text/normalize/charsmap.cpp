// A unit of the trie: the label in bits 0 to 7 (and bit 31, which a label never has), in bit 8 whether a string ends
// here, the offset of the children in bits 10 to 30, shifted by 8 more where bit 9 is set. The unit of an end has the
// replacement's place in bits 0 to 30.
#include "text/normalize/charsmap.h"

#include <cstring>

#include "base/error.h"

namespace heddle::text {

Charsmap::Charsmap(std::string_view bytes, const std::string& source) {
  uint32_t size = 0;
  if (bytes.size() < sizeof size)
    throw Error("{}: precompiled_charsmap: expected a charsmap, found {} bytes", source, bytes.size());
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes.remove_prefix(sizeof size);
  if (size > bytes.size() || size % sizeof(uint32_t) != 0 || size == 0)
    throw Error("{}: precompiled_charsmap: a trie of {} bytes in {}", source, size, bytes.size());
  units_.resize(size / sizeof(uint32_t));
  std::memcpy(units_.data(), bytes.data(), size);
  replacements_ = bytes.substr(size);
  if (replacements_.empty() || replacements_.back() != '\0')
    throw Error("{}: precompiled_charsmap: the last replacement does not end", source);
}

template <class Found>
void Charsmap::walk(std::string_view text, Found found) const {
  const auto offset = [](uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); };
  // The file is not trusted: a walk ends if it leaves the trie, finds no replacement, or goes in a circle (the strings
  // in SentencePiece's own maps have at most 18 bytes).
  text = text.substr(0, 256);
  size_t at = offset(units_[0]);
  for (size_t i = 0; i < text.size() && text[i] != '\0'; ++i) {
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    at ^= byte;
    if (at >= units_.size()) return;
    const uint32_t unit = units_[at];
    if ((unit & (1u << 31 | 0xff)) != byte) return;
    at ^= offset(unit);
    if ((unit >> 8 & 1) == 0) continue;
    if (at >= units_.size()) return;
    const uint32_t place = units_[at] & ~(1u << 31);
    if (place >= replacements_.size()) return;
    if (!found(Match{i + 1, std::string_view(replacements_.data() + place)})) return;
  }
}

std::optional<Charsmap::Match> Charsmap::shortest(std::string_view text) const {
  std::optional<Match> result;
  walk(text, [&](Match match) {
    result = match;
    return false;
  });
  return result;
}

std::optional<Charsmap::Match> Charsmap::longest(std::string_view text) const {
  std::optional<Match> result;
  walk(text, [&](Match match) {
    result = match;
    return true;
  });
  return result;
}

}  // namespace heddle::text
