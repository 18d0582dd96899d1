// utf8proc decomposes and composes; combining marks are sorted here, because utf8proc sorts them by exchanging
// neighbours, which is quadratic in a long run of marks.
#include "text/normalize/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace heddle::text {
namespace {

using Points = std::vector<utf8proc_int32_t>;

void decompose(Points& out, char32_t c, utf8proc_option_t options) {
  // the longest decomposition, of U+FDFA, has 18 characters
  utf8proc_int32_t buffer[32];
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), buffer, 32, options, nullptr);
  check(count >= 0 && count <= 32, "utf8proc decomposes a character into more than 32");
  out.insert(out.end(), buffer, buffer + count);
}

void order_marks(Points& points) {
  const auto combining_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto at = points.begin(); at != points.end();) {
    if (*at < 0x300 || combining_class(*at) == 0) {
      ++at;
      continue;
    }
    const auto end = std::find_if(at, points.end(), [&](auto c) { return combining_class(c) == 0; });
    if (end - at > 1)
      std::stable_sort(at, end, [&](auto a, auto b) { return combining_class(a) < combining_class(b); });
    at = end;
  }
}

// Text that is valid UTF-8.
void append_form(std::string& out, std::string_view text, Form form) {
  const bool compatible = form == Form::nfkc || form == Form::nfkd;
  const bool composed = form == Form::nfc || form == Form::nfkc;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0));
  Points points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    decompose(points, point.value, static_cast<utf8proc_option_t>(options | UTF8PROC_DECOMPOSE));
    at += point.bytes;
  }
  order_marks(points);
  auto count = static_cast<utf8proc_ssize_t>(points.size());
  if (composed)
    count = utf8proc_normalize_utf32(points.data(), count, static_cast<utf8proc_option_t>(options | UTF8PROC_COMPOSE));
  check(count >= 0, "utf8proc cannot compose");
  for (utf8proc_ssize_t i = 0; i < count; ++i) append_utf8(out, static_cast<char32_t>(points[i]));
}

utf8proc_category_t general_category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool between(char32_t c, char32_t low, char32_t high) { return low <= c && c <= high; }

}  // namespace

std::string normal_form(std::string_view text, Form form) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && static_cast<uint8_t>(text[end]) < 0x80) ++end;
    if (end == text.size()) return out.append(text.substr(at));  // ASCII is the same in every form
    // A valid range as a whole: marks combine across everything but invalid bytes, and with the last of the ASCII
    // characters before it.
    if (end > at) {
      out.append(text.substr(at, end - at - 1));
      at = end - 1;
    }
    const size_t invalid = find_invalid_utf8(text.substr(at));
    const size_t valid = std::min(invalid, text.size() - at);
    append_form(out, text.substr(at, valid), form);
    at += valid;
    if (at == text.size()) break;
    const CodePoint point = code_point_at(text, at);
    out.append(text.substr(at, point.bytes));
    at += point.bytes;
  }
  return out;
}

bool is_white_space(char32_t c) {
  return between(c, 9, 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || between(c, 0x2000, 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_mark(char32_t c) {
  return c >= 0x300 && between(general_category(c), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

bool is_nonspacing_mark(char32_t c) { return c >= 0x300 && general_category(c) == UTF8PROC_CATEGORY_MN; }

bool is_number(char32_t c) {
  if (c < 0x80) return between(c, '0', '9');
  return between(general_category(c), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return between(c, '!', '/') || between(c, ':', '@') || between(c, '[', '`') || between(c, '{', '~');
  return between(general_category(c), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_word_character(char32_t c) {
  if (c < 0x80) return between(c, 'a', 'z') || between(c, 'A', 'Z') || between(c, '0', '9') || c == '_';
  const auto kind = general_category(c);
  if (between(kind, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) || kind == UTF8PROC_CATEGORY_PC) return true;
  // letters in circles and squares are symbols, but alphabetic
  return c == 0x200c || c == 0x200d || between(c, 0x24b6, 0x24e9) || between(c, 0x1f130, 0x1f149) ||
         between(c, 0x1f150, 0x1f169) || between(c, 0x1f170, 0x1f189);
}

bool is_control_or_format(char32_t c) {
  if (c < 0x80) return c < 0x20 || c == 0x7f;
  const auto kind = general_category(c);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO;
}

bool is_ideograph(char32_t c) {
  return between(c, 0x4e00, 0x9fff) || between(c, 0x3400, 0x4dbf) || between(c, 0x20000, 0x2a6df) ||
         between(c, 0x2a700, 0x2b73f) || between(c, 0x2b740, 0x2b81f) || between(c, 0x2b920, 0x2ceaf) ||
         between(c, 0xf900, 0xfaff) || between(c, 0x2f800, 0x2fa1f);
}

void append_lower(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(between(c, 'A', 'Z') ? c + 32 : c));
  } else if (c == 0x130) {
    out.append("i\u0307");  // the only character whose lower case is two
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_each_character(
      text, [&](char32_t c, std::string_view) { append_lower(out, c); },
      [&](std::string_view bytes) { out.append(bytes); });
  return out;
}

}  // namespace heddle::text
