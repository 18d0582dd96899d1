#include "grammar/code_points.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle::grammar {

CodePoints::CodePoints(std::initializer_list<Range> ranges) {
  for (const Range& r : ranges) add(r.first, r.last);
}

void CodePoints::add(char32_t first, char32_t last) {
  if (first > last) return;
  // those that touch become one
  auto begin = std::ranges::lower_bound(ranges_, first, {}, [](const Range& r) { return r.last + 1; });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= last + 1; ++end) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
  }
  begin = ranges_.erase(begin, end);
  ranges_.insert(begin, {first, last});
}

void CodePoints::add(const CodePoints& other) {
  for (const Range& r : other.ranges_) add(r.first, r.last);
}

CodePoints CodePoints::complement() const {
  CodePoints rest;
  char32_t next = 0;
  for (const Range& r : ranges_) {
    if (r.first > next) rest.ranges_.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next <= largest) rest.ranges_.push_back({next, largest});
  return rest;
}

CodePoints CodePoints::common(const CodePoints& other) const {
  CodePoints both = complement();
  both.add(other.complement());
  return both.complement();
}

CodePoints CodePoints::in_any_case() const {
  static const auto pairs = [] {
    std::vector<std::pair<char32_t, char32_t>> all;
    for (utf8proc_int32_t c = 0; c <= utf8proc_int32_t(largest); ++c)
      for (utf8proc_int32_t other : {utf8proc_tolower(c), utf8proc_toupper(c)})
        if (other != c) all.emplace_back(char32_t(c), char32_t(other));
    return all;
  }();
  CodePoints all = *this;
  // until nothing is new: a letter may have three forms, such as the Kelvin sign, K and k
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [a, b] : pairs) {
      if (all.contains(a) == all.contains(b)) continue;
      all.add(a, a);
      all.add(b, b);
      changed = true;
    }
  }
  return all;
}

bool CodePoints::contains(char32_t c) const {
  const auto at = std::ranges::lower_bound(ranges_, c, {}, &Range::last);
  return at != ranges_.end() && at->first <= c;
}

CodePoints CodePoints::of_category(std::string_view name) {
  CodePoints set;
  bool known = false;
  for (int category = 0; category <= UTF8PROC_CATEGORY_CO; ++category) {
    // "Lu" and the like, by the category of any code point that has it
    static const auto names = [] {
      std::array<std::string, UTF8PROC_CATEGORY_CO + 1> all;
      for (utf8proc_int32_t c = 0; c <= utf8proc_int32_t(largest); ++c)
        if (std::string& one = all[size_t(utf8proc_category(c))]; one.empty()) one = utf8proc_category_string(c);
      return all;
    }();
    const std::string& has = names[size_t(category)];
    known = known || (!has.empty() && has.starts_with(name) && !name.empty());
  }
  if (!known) throw Error("there is no general category {}", in_quotes(name));
  for (utf8proc_int32_t c = 0; c <= utf8proc_int32_t(largest); ++c)
    if (std::string_view(utf8proc_category_string(c)).starts_with(name)) {
      utf8proc_int32_t last = c;
      while (last < utf8proc_int32_t(largest) && std::string_view(utf8proc_category_string(last + 1)).starts_with(name))
        ++last;
      set.add(char32_t(c), char32_t(last));
      c = last;
    }
  return set;
}

namespace {

Bytes byte_range(uint32_t first, uint32_t last) {
  Bytes set;
  for (uint32_t b = first; b <= last; ++b) set.set(b);
  return set;
}

// The numbers in [first, last] as texts of `count` digits of `bits` bits each; digit(d, d') writes a range of digits.
Language numbers(Languages& all, uint32_t first, uint32_t last, uint32_t count, uint32_t bits, auto&& digit) {
  if (count == 0) return Languages::empty;
  const uint32_t below = (count - 1) * bits, rest = (1u << below) - 1;
  const uint32_t low = first >> below, high = last >> below;
  auto tail = [&](uint32_t from, uint32_t to) { return numbers(all, from, to, count - 1, bits, digit); };
  if (low == high) return all.sequence(digit(count, low, low), tail(first & rest, last & rest));
  std::vector<Language> choices;
  uint32_t whole_from = low, whole_to = high;
  if ((first & rest) != 0) {
    choices.push_back(all.sequence(digit(count, low, low), tail(first & rest, rest)));
    ++whole_from;
  }
  if ((last & rest) != rest) {
    choices.push_back(all.sequence(digit(count, high, high), tail(0, last & rest)));
    --whole_to;
  }
  if (whole_from <= whole_to) choices.push_back(all.sequence(digit(count, whole_from, whole_to), tail(0, rest)));
  return all.any_of(std::move(choices));
}

Language utf8_range(Languages& all, uint32_t first, uint32_t last) {
  struct Length {
    uint32_t limit, bytes, lead;
  };
  std::vector<Language> choices;
  uint32_t from = 0;
  for (const Length& l : {Length{0x80, 1, 0}, {0x800, 2, 0xc0}, {0x10000, 3, 0xe0}, {0x110000, 4, 0xf0}}) {
    const uint32_t a = std::max(first, from), b = std::min(last, l.limit - 1);
    from = l.limit;
    if (a > b) continue;
    if (l.bytes == 1) {
      choices.push_back(all.bytes(byte_range(a, b)));
      continue;
    }
    choices.push_back(numbers(all, a, b, l.bytes, 6, [&](uint32_t left, uint32_t low, uint32_t high) {
      const uint32_t lead = left == l.bytes ? l.lead : 0x80;
      return all.bytes(byte_range(lead + low, lead + high));
    }));
  }
  return all.any_of(std::move(choices));
}

Language hex_digit(Languages& all, uint32_t low, uint32_t high) {
  Bytes set;
  for (uint32_t d = low; d <= high; ++d) {
    set.set(uint8_t("0123456789abcdef"[d]));
    set.set(uint8_t("0123456789ABCDEF"[d]));
  }
  return all.bytes(set);
}

Language hex_escape(Languages& all, uint32_t first, uint32_t last) {
  return all.sequence(all.text("\\u"), numbers(all, first, last, 4, 4, [&](uint32_t, uint32_t low, uint32_t high) {
                        return hex_digit(all, low, high);
                      }));
}

// Two escapes, of the high and of the low ten bits.
Language surrogate_escapes(Languages& all, uint32_t first, uint32_t last) {
  first -= 0x10000;
  last -= 0x10000;
  return numbers(all, first, last, 2, 10, [&](uint32_t left, uint32_t low, uint32_t high) {
    const uint32_t base = left == 2 ? 0xd800 : 0xdc00;
    return hex_escape(all, base + low, base + high);
  });
}

}  // namespace

Language written(Languages& all, const CodePoints& set, Writing how) {
  const CodePoints surrogates{{0xd800, 0xdfff}};
  const CodePoints real = set.common(surrogates.complement());
  std::vector<Language> ways;
  if (how == Writing::utf8) {
    for (const auto& r : real.ranges()) ways.push_back(utf8_range(all, r.first, r.last));
    return all.any_of(std::move(ways));
  }
  const CodePoints as_it_is = real.common(CodePoints{{0, 0x1f}, {'"', '"'}, {'\\', '\\'}}.complement());
  for (const auto& r : as_it_is.ranges()) ways.push_back(utf8_range(all, r.first, r.last));
  for (const auto& [letter, c] :
       {std::pair{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', '\b'}, {'f', '\f'}, {'n', '\n'}, {'r', '\r'}, {'t', '\t'}})
    if (real.contains(char32_t(c))) ways.push_back(all.text(std::string("\\") + letter));
  for (const auto& r : real.ranges()) {
    if (r.first < 0x10000) ways.push_back(hex_escape(all, r.first, std::min<uint32_t>(r.last, 0xffff)));
    if (r.last > 0xffff) ways.push_back(surrogate_escapes(all, std::max<uint32_t>(r.first, 0x10000), r.last));
  }
  return all.any_of(std::move(ways));
}

}  // namespace heddle::grammar
