#include <utf8proc.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "base/utf8.h"
#include "text/jinja/python.h"

namespace heddle::text::jinja {
namespace {

using Ranges = std::initializer_list<std::pair<char32_t, char32_t>>;

bool within(char32_t c, const Ranges& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}
utf8proc_category_t category(char32_t c) { return utf8proc_category(utf8proc_int32_t(c)); }

template <class Function>
void each(std::string_view text, const Function& function) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    function(point.value, at);
    at += point.bytes;
  }
}

// Characters whose upper or title case is more than one character (Unicode 16), in order.
struct SpecialCase {
  char32_t from;
  char32_t upper[3];
  char32_t title[3];
};
// clang-format off
constexpr SpecialCase special_cases[] = {
    {0x00DF, {0x0053, 0x0053}, {0x0053, 0x0073}}, {0x0149, {0x02BC, 0x004E}, {0x02BC, 0x004E}},
    {0x01F0, {0x004A, 0x030C}, {0x004A, 0x030C}}, {0x0390, {0x0399, 0x0308, 0x0301}, {0x0399, 0x0308, 0x0301}},
    {0x03B0, {0x03A5, 0x0308, 0x0301}, {0x03A5, 0x0308, 0x0301}}, {0x0587, {0x0535, 0x0552}, {0x0535, 0x0582}},
    {0x1E96, {0x0048, 0x0331}, {0x0048, 0x0331}}, {0x1E97, {0x0054, 0x0308}, {0x0054, 0x0308}},
    {0x1E98, {0x0057, 0x030A}, {0x0057, 0x030A}}, {0x1E99, {0x0059, 0x030A}, {0x0059, 0x030A}},
    {0x1E9A, {0x0041, 0x02BE}, {0x0041, 0x02BE}}, {0x1F50, {0x03A5, 0x0313}, {0x03A5, 0x0313}},
    {0x1F52, {0x03A5, 0x0313, 0x0300}, {0x03A5, 0x0313, 0x0300}},
    {0x1F54, {0x03A5, 0x0313, 0x0301}, {0x03A5, 0x0313, 0x0301}},
    {0x1F56, {0x03A5, 0x0313, 0x0342}, {0x03A5, 0x0313, 0x0342}}, {0x1F80, {0x1F08, 0x0399}, {0x1F88}},
    {0x1F81, {0x1F09, 0x0399}, {0x1F89}}, {0x1F82, {0x1F0A, 0x0399}, {0x1F8A}}, {0x1F83, {0x1F0B, 0x0399}, {0x1F8B}},
    {0x1F84, {0x1F0C, 0x0399}, {0x1F8C}}, {0x1F85, {0x1F0D, 0x0399}, {0x1F8D}}, {0x1F86, {0x1F0E, 0x0399}, {0x1F8E}},
    {0x1F87, {0x1F0F, 0x0399}, {0x1F8F}}, {0x1F88, {0x1F08, 0x0399}, {0x1F88}}, {0x1F89, {0x1F09, 0x0399}, {0x1F89}},
    {0x1F8A, {0x1F0A, 0x0399}, {0x1F8A}}, {0x1F8B, {0x1F0B, 0x0399}, {0x1F8B}}, {0x1F8C, {0x1F0C, 0x0399}, {0x1F8C}},
    {0x1F8D, {0x1F0D, 0x0399}, {0x1F8D}}, {0x1F8E, {0x1F0E, 0x0399}, {0x1F8E}}, {0x1F8F, {0x1F0F, 0x0399}, {0x1F8F}},
    {0x1F90, {0x1F28, 0x0399}, {0x1F98}}, {0x1F91, {0x1F29, 0x0399}, {0x1F99}}, {0x1F92, {0x1F2A, 0x0399}, {0x1F9A}},
    {0x1F93, {0x1F2B, 0x0399}, {0x1F9B}}, {0x1F94, {0x1F2C, 0x0399}, {0x1F9C}}, {0x1F95, {0x1F2D, 0x0399}, {0x1F9D}},
    {0x1F96, {0x1F2E, 0x0399}, {0x1F9E}}, {0x1F97, {0x1F2F, 0x0399}, {0x1F9F}}, {0x1F98, {0x1F28, 0x0399}, {0x1F98}},
    {0x1F99, {0x1F29, 0x0399}, {0x1F99}}, {0x1F9A, {0x1F2A, 0x0399}, {0x1F9A}}, {0x1F9B, {0x1F2B, 0x0399}, {0x1F9B}},
    {0x1F9C, {0x1F2C, 0x0399}, {0x1F9C}}, {0x1F9D, {0x1F2D, 0x0399}, {0x1F9D}}, {0x1F9E, {0x1F2E, 0x0399}, {0x1F9E}},
    {0x1F9F, {0x1F2F, 0x0399}, {0x1F9F}}, {0x1FA0, {0x1F68, 0x0399}, {0x1FA8}}, {0x1FA1, {0x1F69, 0x0399}, {0x1FA9}},
    {0x1FA2, {0x1F6A, 0x0399}, {0x1FAA}}, {0x1FA3, {0x1F6B, 0x0399}, {0x1FAB}}, {0x1FA4, {0x1F6C, 0x0399}, {0x1FAC}},
    {0x1FA5, {0x1F6D, 0x0399}, {0x1FAD}}, {0x1FA6, {0x1F6E, 0x0399}, {0x1FAE}}, {0x1FA7, {0x1F6F, 0x0399}, {0x1FAF}},
    {0x1FA8, {0x1F68, 0x0399}, {0x1FA8}}, {0x1FA9, {0x1F69, 0x0399}, {0x1FA9}}, {0x1FAA, {0x1F6A, 0x0399}, {0x1FAA}},
    {0x1FAB, {0x1F6B, 0x0399}, {0x1FAB}}, {0x1FAC, {0x1F6C, 0x0399}, {0x1FAC}}, {0x1FAD, {0x1F6D, 0x0399}, {0x1FAD}},
    {0x1FAE, {0x1F6E, 0x0399}, {0x1FAE}}, {0x1FAF, {0x1F6F, 0x0399}, {0x1FAF}},
    {0x1FB2, {0x1FBA, 0x0399}, {0x1FBA, 0x0345}}, {0x1FB3, {0x0391, 0x0399}, {0x1FBC}},
    {0x1FB4, {0x0386, 0x0399}, {0x0386, 0x0345}}, {0x1FB6, {0x0391, 0x0342}, {0x0391, 0x0342}},
    {0x1FB7, {0x0391, 0x0342, 0x0399}, {0x0391, 0x0342, 0x0345}}, {0x1FBC, {0x0391, 0x0399}, {0x1FBC}},
    {0x1FC2, {0x1FCA, 0x0399}, {0x1FCA, 0x0345}}, {0x1FC3, {0x0397, 0x0399}, {0x1FCC}},
    {0x1FC4, {0x0389, 0x0399}, {0x0389, 0x0345}}, {0x1FC6, {0x0397, 0x0342}, {0x0397, 0x0342}},
    {0x1FC7, {0x0397, 0x0342, 0x0399}, {0x0397, 0x0342, 0x0345}}, {0x1FCC, {0x0397, 0x0399}, {0x1FCC}},
    {0x1FD2, {0x0399, 0x0308, 0x0300}, {0x0399, 0x0308, 0x0300}},
    {0x1FD3, {0x0399, 0x0308, 0x0301}, {0x0399, 0x0308, 0x0301}}, {0x1FD6, {0x0399, 0x0342}, {0x0399, 0x0342}},
    {0x1FD7, {0x0399, 0x0308, 0x0342}, {0x0399, 0x0308, 0x0342}},
    {0x1FE2, {0x03A5, 0x0308, 0x0300}, {0x03A5, 0x0308, 0x0300}},
    {0x1FE3, {0x03A5, 0x0308, 0x0301}, {0x03A5, 0x0308, 0x0301}}, {0x1FE4, {0x03A1, 0x0313}, {0x03A1, 0x0313}},
    {0x1FE6, {0x03A5, 0x0342}, {0x03A5, 0x0342}}, {0x1FE7, {0x03A5, 0x0308, 0x0342}, {0x03A5, 0x0308, 0x0342}},
    {0x1FF2, {0x1FFA, 0x0399}, {0x1FFA, 0x0345}}, {0x1FF3, {0x03A9, 0x0399}, {0x1FFC}},
    {0x1FF4, {0x038F, 0x0399}, {0x038F, 0x0345}}, {0x1FF6, {0x03A9, 0x0342}, {0x03A9, 0x0342}},
    {0x1FF7, {0x03A9, 0x0342, 0x0399}, {0x03A9, 0x0342, 0x0345}}, {0x1FFC, {0x03A9, 0x0399}, {0x1FFC}},
    {0xFB00, {0x0046, 0x0046}, {0x0046, 0x0066}}, {0xFB01, {0x0046, 0x0049}, {0x0046, 0x0069}},
    {0xFB02, {0x0046, 0x004C}, {0x0046, 0x006C}}, {0xFB03, {0x0046, 0x0046, 0x0049}, {0x0046, 0x0066, 0x0069}},
    {0xFB04, {0x0046, 0x0046, 0x004C}, {0x0046, 0x0066, 0x006C}}, {0xFB05, {0x0053, 0x0054}, {0x0053, 0x0074}},
    {0xFB06, {0x0053, 0x0054}, {0x0053, 0x0074}}, {0xFB13, {0x0544, 0x0546}, {0x0544, 0x0576}},
    {0xFB14, {0x0544, 0x0535}, {0x0544, 0x0565}}, {0xFB15, {0x0544, 0x053B}, {0x0544, 0x056B}},
    {0xFB16, {0x054E, 0x0546}, {0x054E, 0x0576}}, {0xFB17, {0x0544, 0x053D}, {0x0544, 0x056D}},
};
// clang-format on

const SpecialCase* special(char32_t c) {
  const SpecialCase* end = std::end(special_cases);
  const auto* found =
      std::lower_bound(special_cases, end, c, [](const SpecialCase& s, char32_t x) { return s.from < x; });
  return found != end && found->from == c ? found : nullptr;
}
void append_all(std::string& out, const char32_t (&points)[3]) {
  for (const char32_t c : points)
    if (c) append_utf8(out, c);
}
void append_upper(std::string& out, char32_t c) {
  if (c < 0x80)
    out += char(c >= 'a' && c <= 'z' ? c - 32 : c);
  else if (const SpecialCase* s = special(c))
    append_all(out, s->upper);
  else
    append_utf8(out, char32_t(utf8proc_toupper(utf8proc_int32_t(c))));
}
void append_title(std::string& out, char32_t c) {
  if (const SpecialCase* s = special(c))
    append_all(out, s->title);
  else
    append_utf8(out, char32_t(utf8proc_totitle(utf8proc_int32_t(c))));
}

bool is_cased(char32_t c) { return is_lower(c) || is_upper(c) || is_title(c); }
// Characters inside a word that are not letters: marks, apostrophes.
bool is_case_ignorable(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME || kind == UTF8PROC_CATEGORY_CF ||
         kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_SK ||
         within(c, {{'\'', '\''},
                    {'.', '.'},
                    {':', ':'},
                    {0xB7, 0xB7},
                    {0x2018, 0x2019},
                    {0x2024, 0x2024},
                    {0x2027, 0x2027}});
}
// A capital sigma at the end of a word has its own lower case.
bool ends_word(std::string_view text, size_t at) {
  bool before = false;
  for (size_t i = at; i > 0;) {
    do --i;
    while (i > 0 && (static_cast<unsigned char>(text[i]) & 0xC0u) == 0x80u);
    const char32_t c = code_point_at(text, i).value;
    if (is_case_ignorable(c)) continue;
    before = is_cased(c);
    break;
  }
  for (size_t i = at + 2; before && i < text.size();) {
    const CodePoint point = code_point_at(text, i);
    if (!is_case_ignorable(point.value)) return !is_cased(point.value);
    i += point.bytes;
  }
  return before;
}
void append_lower(std::string& out, char32_t c, std::string_view text, size_t at) {
  if (c < 0x80) {
    out += char(c >= 'A' && c <= 'Z' ? c + 32 : c);
  } else if (c == 0x3A3) {
    append_utf8(out, ends_word(text, at) ? 0x3C2 : 0x3C3);
  } else if (c == 0x130) {
    append_utf8(out, 'i');
    append_utf8(out, 0x307);
  } else {
    append_utf8(out, char32_t(utf8proc_tolower(utf8proc_int32_t(c))));
  }
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
  return c == 0x85 || category(c) == UTF8PROC_CATEGORY_ZS || c == 0x2028 || c == 0x2029;
}
bool is_alpha(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c) {
  return is_decimal(c) ||
         (c >= 0x80 && within(c, {{0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
                                  {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
                                  {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
                                  {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
                                  {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}}));
}
bool is_numeric(char32_t c) {
  const auto kind = category(c);
  if (kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO) return true;
  // Ideographs that are numbers.
  static constexpr char32_t ideographs[] = {
      0x3405,  0x3483,  0x382A,  0x3B4D,  0x4E00,  0x4E03,  0x4E07,  0x4E09,  0x4E24,  0x4E5D,  0x4E8C,  0x4E94,
      0x4E96,  0x4EAC,  0x4EBF,  0x4EC0,  0x4EDF,  0x4EE8,  0x4F0D,  0x4F70,  0x4FE9,  0x5006,  0x5104,  0x5146,
      0x5169,  0x516B,  0x516D,  0x5341,  0x5343,  0x5344,  0x5345,  0x534C,  0x53C1,  0x53C2,  0x53C3,  0x53C4,
      0x56DB,  0x58F1,  0x58F9,  0x5E7A,  0x5EFE,  0x5EFF,  0x5F0C,  0x5F0D,  0x5F0E,  0x5F10,  0x62D0,  0x62FE,
      0x634C,  0x67D2,  0x6D1E,  0x6F06,  0x7396,  0x767E,  0x7695,  0x79ED,  0x8086,  0x842C,  0x8CAE,  0x8CB3,
      0x8D30,  0x920E,  0x94A9,  0x9621,  0x9646,  0x964C,  0x9678,  0x96F6,  0xF96B,  0xF973,  0xF978,  0xF9B2,
      0xF9D1,  0xF9D3,  0xF9FD,  0x20001, 0x20064, 0x200E2, 0x20121, 0x2092A, 0x20983, 0x2098C, 0x2099C, 0x20AEA,
      0x20AFD, 0x20B19, 0x22390, 0x22998, 0x23B1B, 0x2626D, 0x2F890};
  return std::binary_search(std::begin(ideographs), std::end(ideographs), c);
}
bool is_lower(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return category(c) == UTF8PROC_CATEGORY_LL ||
         within(c, {{0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},    {0x2C0, 0x2C1},     {0x2E0, 0x2E4},
                    {0x345, 0x345},     {0x37A, 0x37A},     {0x10FC, 0x10FC},  {0x1D2C, 0x1D6A},   {0x1D78, 0x1D78},
                    {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},  {0x2090, 0x209C},   {0x2170, 0x217F},
                    {0x24D0, 0x24E9},   {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},  {0xA770, 0xA770},   {0xA7F2, 0xA7F4},
                    {0xA7F8, 0xA7F9},   {0xAB5C, 0xAB5F},   {0xAB69, 0xAB69},  {0x10780, 0x10780}, {0x10783, 0x10785},
                    {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x1E030, 0x1E06D}});
}
bool is_upper(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z';
  return category(c) == UTF8PROC_CATEGORY_LU ||
         within(c, {{0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}});
}
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= ' ';
  const auto kind = category(c);
  return kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_ZS;
}
bool is_line_end(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

std::string upper(std::string_view text) {
  std::string out;
  each(text, [&](char32_t c, size_t) { append_upper(out, c); });
  return out;
}
std::string lower(std::string_view text) {
  std::string out;
  each(text, [&](char32_t c, size_t at) { append_lower(out, c, text, at); });
  return out;
}
std::string title(std::string_view text) {
  std::string out;
  bool inside = false;
  each(text, [&](char32_t c, size_t at) {
    if (inside)
      append_lower(out, c, text, at);
    else
      append_title(out, c);
    inside = is_cased(c);
  });
  return out;
}
std::string capitalize(std::string_view text) {
  std::string out;
  each(text, [&](char32_t c, size_t at) {
    if (at == 0)
      append_title(out, c);
    else
      append_lower(out, c, text, at);
  });
  return out;
}
std::string swap_case(std::string_view text) {
  std::string out;
  each(text, [&](char32_t c, size_t at) {
    if (is_upper(c))
      append_lower(out, c, text, at);
    else
      append_upper(out, c);
  });
  return out;
}
std::string case_fold(std::string_view text) {
  std::string out;
  each(text, [&](char32_t c, size_t) {
    if (c < 0x80) {
      out += char(c >= 'A' && c <= 'Z' ? c + 32 : c);
      return;
    }
    utf8proc_int32_t folded[8];
    int boundary = 0;
    const auto count = utf8proc_decompose_char(utf8proc_int32_t(c), folded, 8, UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < count && i < 8; ++i) append_utf8(out, char32_t(folded[i]));
  });
  return out;
}

std::u32string decode(std::string_view text) {
  std::u32string points;
  points.reserve(text.size());
  each(text, [&](char32_t c, size_t) { points += c; });
  return points;
}
std::string encode(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}
size_t byte_of(std::string_view text, size_t index) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0u) == 0x80u) continue;
    if (index-- == 0) break;
  }
  return at;
}

std::string_view strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    const CodePoint first = code_point_at(text, 0);
    if (!is_space(first.value)) break;
    text.remove_prefix(first.bytes);
  }
  while (right && !text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0u) == 0x80u) --last;
    if (!is_space(code_point_at(text, last).value)) break;
    text = text.substr(0, last);
  }
  return text;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    size_t next = at + point.bytes;
    if (is_line_end(point.value)) {
      if (point.value == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back(text.substr(start, (keep_ends ? next : at) - start));
      start = next;
    }
    at = next;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

}  // namespace heddle::text::jinja
