// The charsmap of SentencePiece, then the normalizers: each is a function that changes the text of a segment.
#include "text/normalize/normalizers.h"

#include <utf8proc.h>

#include <cstring>

#include "base/error.h"
#include "text/bpe/bpe.h"

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

namespace {

constexpr std::string_view escaped_space = "\u2581";

// Applies character(c, bytes, out) to every character and keeps bytes that are not UTF-8. A segment that loses its
// beginning is no longer the first: Metaspace puts no space before it.
template <class Character>
Normalizer each_character(Character character) {
  return [character](Segment& segment) {
    std::string out;
    out.reserve(segment.text.size());
    bool begun = false;
    for_each_character(
        segment.text,
        [&](char32_t c, std::string_view bytes) {
          character(c, bytes, out);
          if (!begun && out.empty()) segment.first = false;
          begun = true;
        },
        [&](std::string_view bytes) {
          out.append(bytes);
          begun = true;
        });
    segment.text = std::move(out);
  };
}

bool is_nmt_control(char32_t c) {
  return (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
}

bool is_nmt_space(char32_t c) {
  return c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) || c == 0x2028 ||
         c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
}

std::string clean(std::string_view text, const BertOptions& options) {
  std::string out;
  out.reserve(text.size());
  for_each_character(
      text,
      [&](char32_t c, std::string_view bytes) {
        if (options.clean_text) {
          const bool space = is_white_space(c);
          if (c == '\t' || c == '\n' || c == '\r' || (space && options.gguf)) return out.push_back(' ');
          if (c == 0 || c == 0xfffd || is_control_or_format(c)) return;
          if (space) return out.push_back(' ');
        }
        const bool apart = options.handle_chinese_chars && is_ideograph(c);
        if (apart) out.push_back(' ');
        out.append(bytes);
        if (apart) out.push_back(' ');
      },
      [&](std::string_view bytes) { out.append(bytes); });
  return out;
}

std::string without_accents(std::string_view text, bool all_marks) {
  std::string out;
  out.reserve(text.size());
  for_each_character(
      normal_form(text, Form::nfd),
      [&](char32_t c, std::string_view bytes) {
        if (!(all_marks ? is_mark(c) : is_nonspacing_mark(c))) out.append(bytes);
      },
      [&](std::string_view bytes) { out.append(bytes); });
  return out;
}

std::string apply_to_graphemes(const Charsmap& map, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto apply = [&](std::string_view grapheme) {
    if (grapheme.size() < 6)
      if (const auto match = map.shortest(grapheme)) return void(out.append(match->replacement));
    for (size_t at = 0; at < grapheme.size();) {
      const std::string_view one = grapheme.substr(at, code_point_at(grapheme, at).bytes);
      const auto match = map.shortest(one);
      out.append(match ? match->replacement : one);
      at += one.size();
    }
  };
  size_t begin = 0;  // of the grapheme
  char32_t last = 0;
  utf8proc_int32_t state = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    // a byte that is not UTF-8 counts as U+FFFD, a grapheme by itself
    if (at > begin && utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last),
                                                       static_cast<utf8proc_int32_t>(point.value), &state)) {
      apply(text.substr(begin, at - begin));
      begin = at;
    }
    last = point.value;
    at += point.bytes;
  }
  if (begin < text.size()) apply(text.substr(begin));
  return out;
}

}  // namespace

Normalizer normal_form_normalizer(Form form) {
  return [form](Segment& segment) { segment.text = normal_form(segment.text, form); };
}

Normalizer lower_case_normalizer() {
  return [](Segment& segment) { segment.text = lower_case(segment.text); };
}

Normalizer strip_normalizer(bool left, bool right) {
  return [left, right](Segment& segment) {
    const std::string_view text = segment.text;
    size_t begin = 0, end = 0, at = 0;  // of what stays
    bool kept = false;
    while (at < text.size()) {
      const CodePoint point = code_point_at(text, at);
      const bool space = point.valid && is_white_space(point.value);
      if (space && !kept && left) begin = at + point.bytes;
      if (!space) {
        kept = true;
        end = at + point.bytes;
      }
      at += point.bytes;
    }
    if (!right) end = text.size();
    if (begin > 0) segment.first = false;
    segment.text = begin < end ? std::string(text.substr(begin, end - begin)) : std::string();
  };
}

Normalizer strip_accents_normalizer() {
  return each_character([](char32_t c, std::string_view bytes, std::string& out) {
    if (!is_mark(c)) out.append(bytes);
  });
}

Normalizer prepend_normalizer(std::string prefix) {
  return [prefix = std::move(prefix)](Segment& segment) {
    if (!segment.text.empty()) segment.text.insert(0, prefix);
  };
}

Normalizer replace_normalizer(std::string pattern, std::string content) {
  return [pattern = std::move(pattern), content = std::move(content)](Segment& segment) {
    std::string out;
    size_t at = 0;
    for (size_t found; (found = segment.text.find(pattern, at)) != std::string::npos; at = found + pattern.size())
      out.append(segment.text, at, found - at).append(content);
    if (at == 0) return;
    segment.text = std::move(out.append(segment.text, at));
  };
}

Normalizer replace_normalizer(Regex pattern, std::string content) {
  // shared, because a std::function must be copyable
  return [pattern = std::make_shared<const Regex>(std::move(pattern)), content = std::move(content)](Segment& segment) {
    std::string out;
    size_t at = 0;
    pattern->for_each_match(segment.text, [&](size_t begin, size_t end) {
      out.append(segment.text, at, begin - at).append(content);
      at = end;
    });
    segment.text = std::move(out.append(segment.text, at));
  };
}

Normalizer nmt_normalizer() {
  return each_character([](char32_t c, std::string_view bytes, std::string& out) {
    if (!is_nmt_control(c)) out.append(is_nmt_space(c) ? " " : bytes);
  });
}

Normalizer byte_level_normalizer() {
  return [](Segment& segment) { segment.text = byte_level_spelling(segment.text); };
}

Normalizer bert_normalizer(BertOptions options) {
  return [options](Segment& segment) {
    if (options.clean_text || options.handle_chinese_chars) segment.text = clean(segment.text, options);
    if (options.strip_accents) segment.text = without_accents(segment.text, options.gguf);
    if (options.lower_case) segment.text = lower_case(segment.text);
  };
}

Normalizer charsmap_normalizer(std::shared_ptr<const Charsmap> map) {
  return [map = std::move(map)](Segment& segment) { segment.text = apply_to_graphemes(*map, segment.text); };
}

Normalizer sentence_piece_normalizer(SentencePieceOptions options) {
  return [options = std::move(options)](Segment& segment) {
    std::string out;
    out.reserve(segment.text.size() * 2);
    bool in_word = false, space_added = false;
    const auto append = [&](std::string_view text) {
      for (const char c : text) {
        if (c == ' ') {
          in_word = false;
          if (!options.remove_extra_whitespaces) out.append(escaped_space);
          continue;
        }
        if (!in_word) {
          in_word = true;
          if ((options.add_space_prefix && !space_added) || options.remove_extra_whitespaces) {
            out.append(escaped_space);
            space_added = true;
          }
        }
        out.push_back(c);
      }
    };
    for (size_t at = 0; at < segment.text.size();) {
      const std::string_view rest = std::string_view(segment.text).substr(at);
      if (const auto match = options.map ? options.map->longest(rest) : std::nullopt) {
        append(match->replacement);
        at += match->length;
      } else {
        const CodePoint point = code_point_at(rest, 0);
        append(point.valid ? rest.substr(0, point.bytes) : "\ufffd");
        at += point.valid ? point.bytes : 1;
      }
    }
    segment.text = std::move(out);
  };
}

}  // namespace heddle::text
