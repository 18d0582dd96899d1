// Sets of Unicode code points, and the texts that stand for one of them.
#pragma once
#include <string_view>
#include <vector>

#include "grammar/language.h"

namespace heddle::grammar {

class CodePoints {
 public:
  struct Range {
    char32_t first, last;
    bool operator==(const Range&) const = default;
  };
  static constexpr char32_t largest = 0x10ffff;

  CodePoints() = default;
  CodePoints(std::initializer_list<Range> ranges);
  static CodePoints all() { return {{0, largest}}; }
  // General categories by their names in Unicode, such as L or Nd. An Error for others.
  static CodePoints of_category(std::string_view name);

  void add(char32_t first, char32_t last);
  void add(const CodePoints& other);
  CodePoints complement() const;
  CodePoints common(const CodePoints& other) const;
  CodePoints in_any_case() const;  // with the lower and upper case of each, one code point for one
  bool contains(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }  // in order, neither touching nor overlapping
  bool operator==(const CodePoints&) const = default;

 private:
  std::vector<Range> ranges_;
};

// How code points are written.
enum class Writing : uint8_t {
  utf8,
  json_string,  // inside of a string: as they are where JSON allows it, and by each of its escapes
};
// Every way to write one of them. Surrogates cannot be written.
Language written(Languages& all, const CodePoints& set, Writing how);

}  // namespace heddle::grammar
