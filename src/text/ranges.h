// Parts of a text as ranges of bytes: sorted, none of them empty, no two touching.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace heddle::text {

struct TextRange {
  size_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};
using TextRanges = std::vector<TextRange>;

// Adds one that begins at or behind the end of the last.
inline void add_range(TextRanges& ranges, size_t begin, size_t end) {
  if (begin >= end) return;
  if (!ranges.empty() && ranges.back().end == begin)
    ranges.back().end = end;
  else
    ranges.push_back({begin, end});
}

// Adds those between `begin` and `end`, as far as they lie there, moved to where `begin` is at `to`.
inline void add_ranges(TextRanges& ranges, const TextRanges& from, size_t begin, size_t end, size_t to) {
  auto one =
      std::upper_bound(from.begin(), from.end(), begin, [](size_t at, const TextRange& r) { return at < r.end; });
  for (; one != from.end() && one->begin < end; ++one)
    add_range(ranges, std::max(one->begin, begin) - begin + to, std::min(one->end, end) - begin + to);
}

// What lies between the ranges in a text of `size` bytes.
inline TextRanges other_ranges(const TextRanges& ranges, size_t size) {
  TextRanges others;
  size_t begin = 0;
  for (const TextRange& range : ranges) {
    add_range(others, begin, range.begin);
    begin = range.end;
  }
  add_range(others, begin, size);
  return others;
}

}  // namespace heddle::text
