// Each scanner tries its pattern's alternatives in their order; tests compare it with PCRE2 on random text.
#include <utf8proc.h>

#include <array>
#include <cstdint>
#include <utility>

#include "text/split/regex.h"

namespace heddle::text {

namespace {

// Classes of characters, as bits.
constexpr uint8_t upper = 1, lower = 2, caseless = 4;  // Lu and Lt, Ll, Lm and Lo
constexpr uint8_t letter = upper | lower | caseless;
constexpr uint8_t mark = 8, number = 16, space = 32, other = 64;
constexpr uint8_t sign = other | mark;  // [^\s\p{L}\p{N}]

constexpr std::array<uint8_t, 128> ascii = [] {
  std::array<uint8_t, 128> out{};
  for (unsigned c = 0; c < 128; ++c) {
    out[c] = other;
    if (c == ' ' || (c >= 9 && c <= 13)) out[c] = space;
    if (c >= '0' && c <= '9') out[c] = number;
    if (c >= 'A' && c <= 'Z') out[c] = upper;
    if (c >= 'a' && c <= 'z') out[c] = lower;
  }
  return out;
}();

uint8_t class_of(char32_t c) {
  if (c == 0x85) return space;
  switch (utf8proc_category(utf8proc_int32_t(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return upper;
    case UTF8PROC_CATEGORY_LL:
      return lower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return caseless;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return mark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return number;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return space;
    default:
      return other;
  }
}

struct Character {
  uint8_t kind = 0;  // 0: the text has ended
  uint8_t bytes = 0;
};

struct Text {
  const char* text;
  size_t size;

  uint8_t byte(size_t at) const { return at < size ? uint8_t(text[at]) : 0; }

  Character character(size_t at) const {
    if (at >= size) return {};
    const uint8_t first = uint8_t(text[at]);
    if (first < 0x80) [[likely]]
      return {ascii[first], 1};
    const auto rest = [&](size_t i) { return char32_t(uint8_t(text[at + i]) & 0x3f); };
    if (first < 0xe0) return {class_of(char32_t(first & 0x1f) << 6 | rest(1)), 2};
    if (first < 0xf0) return {class_of(char32_t(first & 0xf) << 12 | rest(1) << 6 | rest(2)), 3};
    return {class_of(char32_t(first & 7) << 18 | rest(1) << 12 | rest(2) << 6 | rest(3)), 4};
  }

  size_t skip(size_t at, uint8_t kinds) const {
    for (;;) {
      const Character next = character(at);
      if (!(next.kind & kinds)) return at;
      at += next.bytes;
    }
  }
  size_t skip_at_most(size_t at, uint8_t kinds, size_t limit) const {
    for (size_t count = 0; count < limit; ++count) {
      const Character next = character(at);
      if (!(next.kind & kinds)) break;
      at += next.bytes;
    }
    return at;
  }
  size_t skip_line_ends(size_t at, bool and_slashes) const {
    while (byte(at) == '\n' || byte(at) == '\r' || (and_slashes && byte(at) == '/')) ++at;
    return at;
  }
};

bool is_line_end(uint8_t byte) { return byte == '\n' || byte == '\r'; }

// 's 't 're 've 'm 'll 'd at `at`: its end, or `at`. Without regard to case, U+017F is an s.
template <bool any_case>
size_t contraction(const Text& text, size_t at) {
  if (text.byte(at) != '\'') return at;
  const auto letter_at = [&](size_t i) {
    const uint8_t byte = text.byte(at + i);
    return any_case && byte >= 'A' && byte <= 'Z' ? uint8_t(byte | 0x20) : byte;
  };
  const uint8_t first = letter_at(1), second = letter_at(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l')) return at + 3;
  if (any_case && first == 0xc5 && second == 0xbf) return at + 3;
  return at;
}

// \s+(?!\S)|\s+ : white space, but for the last of several before something else. With `line_ends`, \s*[\r\n]+ comes
// first: up to the last line end.
template <bool line_ends>
size_t white_space(const Text& text, size_t at) {
  size_t end = at, last = at, after_line_end = at;
  for (Character next = text.character(end); next.kind & space; next = text.character(end)) {
    if (line_ends && is_line_end(text.byte(end))) after_line_end = end + 1;
    last = end;
    end += next.bytes;
  }
  if (after_line_end > at) return after_line_end;
  return end < text.size && last > at ? last : end;
}

size_t scan_gpt2(const char* bytes, size_t at, size_t size) {
  const Text text{bytes, size};
  const size_t after = contraction<false>(text, at);
  if (after > at) return after;
  const size_t begin = at + (bytes[at] == ' ');
  const Character first = text.character(begin);
  for (const uint8_t kinds : {letter, number, sign})
    if (first.kind & kinds) return text.skip(begin + first.bytes, kinds);
  return white_space<false>(text, at);
}

// What follows words and contractions in all the others: numbers of up to `digits`, signs of the classes `signs` with
// the space before and the line ends after them, white space.
template <size_t digits, uint8_t signs, bool slashes>
size_t scan_rest(const Text& text, size_t at, const Character& first) {
  if (first.kind & number) return text.skip_at_most(at, number, digits);
  const size_t begin = at + (text.byte(at) == ' ');
  const size_t end = text.skip(begin, signs);
  if (end > begin) return text.skip_line_ends(end, slashes);
  return white_space<true>(text, at);
}

template <size_t digits, bool marks_in_words>
size_t scan_llama3(const char* bytes, size_t at, size_t size) {
  constexpr uint8_t word = marks_in_words ? letter | mark : letter;
  const Text text{bytes, size};
  const size_t after = contraction<true>(text, at);
  if (after > at) return after;
  const Character first = text.character(at);
  if (first.kind & word) return text.skip(at + first.bytes, word);
  if (!(first.kind & number) && !is_line_end(text.byte(at))) {
    const size_t end = text.skip(at + first.bytes, word);
    if (end > at + first.bytes) return end;
  }
  return scan_rest < digits, marks_in_words ? other : sign, false > (text, at, first);
}

// Words of GPT-4o, where "big" letters are all but small ones and "small" all but capital ones: big* small+, or
// big+ small*. Caseless letters and marks are both.
struct CaseWord {
  static constexpr uint8_t both = caseless | mark, big = upper | both, small = lower | both;
  size_t big_end = 0;   // of big*
  size_t both_end = 0;  // behind the last in it that is both; the beginning when none is

  CaseWord(const Text& text, size_t begin) : big_end(begin), both_end(begin) {
    for (Character next = text.character(begin); next.kind & big; next = text.character(big_end)) {
      big_end += next.bytes;
      if (next.kind & both) both_end = big_end;
    }
  }
  // The end of big* small+ from `begin`, or `begin`: where big* took everything, it gives back what is both.
  size_t small_end(const Text& text) const {
    const size_t end = text.skip(big_end, small);
    return end > big_end ? end : both_end;
  }
};

template <size_t digits, bool contractions>
size_t scan_gpt4o(const char* bytes, size_t at, size_t size) {
  const Text text{bytes, size};
  const Character first = text.character(at);
  const auto whole = [&](size_t end) { return contractions ? contraction<true>(text, end) : end; };
  const bool may_precede = !(first.kind & (letter | number)) && !is_line_end(text.byte(at));
  const size_t begin = may_precede ? at + first.bytes : at;
  const CaseWord word(text, begin);
  if (const size_t end = word.small_end(text); end > begin) return whole(end);
  if (may_precede && (first.kind & mark)) return whole(CaseWord(text, at).small_end(text));
  if (word.big_end > begin) return whole(word.big_end);
  return scan_rest<digits, sign, true>(text, at, first);
}

constexpr std::array<std::pair<std::string_view, Scanner>, 6> scanners{{
    {patterns::gpt2, scan_gpt2},
    {patterns::llama3, scan_llama3<3, false>},
    {patterns::qwen2, scan_llama3<1, false>},
    {patterns::qwen35, scan_llama3<1, true>},
    {patterns::gpt4o, scan_gpt4o<3, true>},
    {patterns::tekken, scan_gpt4o<1, false>},
}};

}  // namespace

Scanner find_scanner(std::string_view pattern) {
  for (const auto& [known, scanner] : scanners)
    if (known == pattern) return scanner;
  return nullptr;
}

}  // namespace heddle::text
