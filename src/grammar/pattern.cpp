// A pattern is read to a tree, and the tree is made a language from its end: with what may follow it, until the end of
// the text, a part can say $ and look ahead.
#include "grammar/pattern.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/expression.h"

namespace heddle::grammar {

namespace {

struct Tree {
  enum class Kind : uint8_t { empty, set, sequence, choice, repeat, begin, end, ahead, not_ahead };
  Kind kind = Kind::empty;
  CodePoints set{};
  std::vector<Tree> parts{};
  uint32_t least = 0, most = 0;
  bool asserts = false;  // it, or a part of it, says where it is
  uint64_t counts = 0;   // what its repetitions count to
};

bool is_assertion(Tree::Kind kind) {
  using Kind = Tree::Kind;
  return kind == Kind::begin || kind == Kind::end || kind == Kind::ahead || kind == Kind::not_ahead;
}

Tree tree_of(Tree::Kind kind, std::vector<Tree> parts) {
  Tree t{.kind = kind, .parts = std::move(parts)};
  t.asserts = is_assertion(kind);
  for (const Tree& part : t.parts) {
    t.asserts = t.asserts || part.asserts;
    t.counts += part.counts;
  }
  return t;
}

const CodePoints& digits() {
  static const CodePoints set{{'0', '9'}};
  return set;
}
const CodePoints& word_letters() {
  static const CodePoints set{{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}};
  return set;
}
const CodePoints& line_ends() {
  static const CodePoints set{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return set;
}
const CodePoints& spaces() {
  static const CodePoints set = [] {
    CodePoints all{{'\t', '\r'}, {0xfeff, 0xfeff}};
    all.add(CodePoints::of_category("Zs"));
    all.add(line_ends());
    return all;
  }();
  return set;
}

class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern, PatternFlags flags = {}) : text_(pattern), flags_(flags) {
    if (const size_t bad = find_invalid_utf8(pattern); bad != std::string_view::npos)
      throw Error("the pattern is no valid UTF-8 from byte {} on", bad);
  }

  Tree read() {
    Tree tree = choice();
    if (!at_end()) fail("an unexpected )");
    return tree;
  }
  bool has_lazy() const { return lazy_; }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error("{} at byte {} of the pattern {}", what, at_, in_quotes(text_, 200));
  }
  bool at_end() const { return at_ == text_.size(); }
  bool takes(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  char32_t next() {
    const CodePoint c = code_point_at(text_, at_);
    at_ += c.bytes;
    return c.value;
  }
  char peek() const { return at_end() ? '\0' : text_[at_]; }

  Tree choice() {
    if (++depth_ > 200) fail("groups more than 200 deep");
    std::vector<Tree> choices{sequence()};
    while (takes("|")) choices.push_back(sequence());
    --depth_;
    return choices.size() == 1 ? std::move(choices[0]) : tree_of(Tree::Kind::choice, std::move(choices));
  }

  Tree sequence() {
    std::vector<Tree> parts;
    while (!at_end() && peek() != '|' && peek() != ')') parts.push_back(quantified(term()));
    if (parts.size() == 1) return std::move(parts[0]);
    return parts.empty() ? Tree{} : tree_of(Tree::Kind::sequence, std::move(parts));
  }

  Tree term() {
    if (takes("^")) return tree_of(Tree::Kind::begin, {});
    if (takes("$")) return tree_of(Tree::Kind::end, {});
    if (takes("(?=")) return group(Tree::Kind::ahead);
    if (takes("(?!")) return group(Tree::Kind::not_ahead);
    if (takes("(?<=") || takes("(?<!")) fail("lookbehind, which cannot be kept,");
    if (takes("(?<")) {
      const size_t end = text_.find('>', at_);
      if (end == std::string_view::npos) fail("a group's name without >");
      at_ = end + 1;
      return group();
    }
    if (takes("(?:")) return group();
    if (text_.substr(at_).starts_with("(?")) fail("a group that cannot be kept");
    if (takes("(")) return group();
    if (takes(".")) return set(flags_.dot_all ? CodePoints::all() : line_ends().complement());
    if (takes("[")) return set(character_class());
    if (takes("\\")) return set(in_case(escape(false)));
    if (peek() == '*' || peek() == '+' || peek() == '?') fail("nothing to repeat");
    const char32_t c = next();
    return set(in_case({{c, c}}));
  }
  CodePoints in_case(const CodePoints& points) const { return flags_.ignore_case ? points.in_any_case() : points; }
  static Tree set(CodePoints points) { return {.kind = Tree::Kind::set, .set = std::move(points)}; }
  Tree group(std::optional<Tree::Kind> assertion = {}) {
    // each is an automaton beside the others, and their states multiply
    if (assertion && ++lookaheads_ > 16) fail("more than 16 lookaheads");
    Tree inside = choice();
    if (!takes(")")) fail("a group without )");
    return assertion ? tree_of(*assertion, {std::move(inside)}) : inside;
  }

  Tree quantified(Tree tree) {
    uint32_t least = 0, most = Languages::unbounded;
    const size_t begin = at_;
    if (takes("*")) {
    } else if (takes("+")) {
      least = 1;
    } else if (takes("?")) {
      most = 1;
    } else if (!takes("{") || !counts(least, most)) {
      at_ = begin;  // a brace that stands for itself
      return tree;
    }
    if (takes("?")) lazy_ = true;  // the same texts
    if (peek() == '*' || peek() == '+' || peek() == '?') fail("nothing to repeat");
    if (tree.asserts && most > 1) {
      at_ = begin;
      fail("a repetition of what says where it is, which cannot be kept,");
    }
    const uint64_t counts = nested_counts(tree.counts, least, most);
    if (tree.counts && counts > max_nested_counts) {
      at_ = begin;
      fail(fmt::format("a repetition of repetitions that counts to more than {}", max_nested_counts));
    }
    Tree repeat = tree_of(Tree::Kind::repeat, {std::move(tree)});
    repeat.counts = counts;
    repeat.least = least;
    repeat.most = most;
    return repeat;
  }
  // The rest of {2}, {2,} and {2,3}.
  bool counts(uint32_t& least, uint32_t& most) {
    const std::optional<uint32_t> first = number();
    if (!first) return false;
    least = most = *first;
    if (takes(",")) most = number().value_or(Languages::unbounded);
    if (!takes("}")) return false;
    if (least > most) fail(fmt::format("a repetition of at least {} and at most {}", least, most));
    return true;
  }
  std::optional<uint32_t> number() {
    uint64_t value = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      value = std::min<uint64_t>(value * 10 + uint64_t(peek() - '0'), 1'000'001);
    if (at_ == begin) return {};
    if (value > 1'000'000) fail("a repetition of more than a million");
    return uint32_t(value);
  }

  uint32_t hex(uint32_t digits_wanted) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < digits_wanted; ++i) {
      const char c = peek();
      const int d = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
      if (d < 0) fail(fmt::format("{} hexadecimal digits expected", digits_wanted));
      value = value * 16 + uint32_t(d);
      ++at_;
    }
    return value;
  }
  // After \u.
  char32_t unicode() {
    if (takes("{")) {
      uint32_t value = 0;
      const size_t begin = at_;
      while (!takes("}")) {
        if (at_ - begin > 8) fail("a code point beyond 10FFFF");
        value = value * 16 + hex(1);
      }
      if (value > CodePoints::largest || at_ == begin + 1) fail("a code point expected");
      return value;
    }
    const uint32_t first = hex(4);
    if (first < 0xd800 || first > 0xdbff || !text_.substr(at_).starts_with("\\u")) return first;
    const size_t begin = at_;
    at_ += 2;
    const uint32_t second = peek() == '{' ? 0 : hex(4);
    if (second >= 0xdc00 && second <= 0xdfff) return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    at_ = begin;
    return first;
  }
  CodePoints property() {
    if (!takes("{")) fail("{ expected");
    const size_t end = text_.find('}', at_);
    if (end == std::string_view::npos) fail("a property without }");
    std::string_view name = text_.substr(at_, end - at_);
    for (std::string_view prefix : {"General_Category=", "gc="})
      if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    struct Long {
      std::string_view name, category;
    };
    for (const Long& l : {Long{"Letter", "L"},
                          {"Uppercase_Letter", "Lu"},
                          {"Lowercase_Letter", "Ll"},
                          {"Mark", "M"},
                          {"Number", "N"},
                          {"Decimal_Number", "Nd"},
                          {"Punctuation", "P"},
                          {"Symbol", "S"},
                          {"Separator", "Z"},
                          {"Space_Separator", "Zs"},
                          {"Other", "C"},
                          {"Control", "Cc"}})
      if (name == l.name) name = l.category;
    CodePoints found;
    if (name == "Any") {
      found = CodePoints::all();
    } else if (name == "ASCII") {
      found = {{0, 0x7f}};
    } else {
      try {
        found = CodePoints::of_category(name);
      } catch (const Error&) {
        fail("a property that is no general category of Unicode, and cannot be kept,");
      }
    }
    at_ = end + 1;
    return found;
  }

  CodePoints escape(bool in_class) {
    if (at_end()) fail("a pattern that ends with a backslash");
    const char32_t c = next();
    auto one = [](char32_t v) { return CodePoints{{v, v}}; };
    switch (c) {
      case 'd':
        return digits();
      case 'D':
        return digits().complement();
      case 'w':
        return word_letters();
      case 'W':
        return word_letters().complement();
      case 's':
        return spaces();
      case 'S':
        return spaces().complement();
      case 'p':
        return property();
      case 'P':
        return property().complement();
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'v':
        return one('\v');
      case 'f':
        return one('\f');
      case 'r':
        return one('\r');
      case 'x':
        return one(hex(2));
      case 'u':
        return one(unicode());
      case 'c': {
        const char32_t letter = at_end() ? 0 : next();
        if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')))
          fail("a letter expected after \\c");
        return one(letter % 32);
      }
      case 'b':
        if (in_class) return one('\b');
        [[fallthrough]];
      case 'B':
        fail("a word boundary, which cannot be kept,");
      case 'k':
        fail("a backreference, which cannot be kept,");
      case '0':
        if (peek() >= '0' && peek() <= '9') fail("an octal escape");
        return one(0);
      default:
        if (c >= '1' && c <= '9') fail("a backreference, which cannot be kept,");
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) fail("an unknown escape");
        return one(c);
    }
  }

  CodePoints character_class() {
    const bool others = takes("^");
    CodePoints all;
    while (!takes("]")) {
      if (at_end()) fail("a class without ]");
      const auto member = [&] {
        if (takes("\\")) return escape(true);
        const char32_t c = next();
        return CodePoints{{c, c}};
      };
      const CodePoints first = member();
      const auto single = [](const CodePoints& set) {
        return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
      };
      // a hyphen at the end, or beside a class, stands for itself
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']' && single(first)) {
        const size_t begin = at_;
        ++at_;
        const CodePoints last = member();
        if (single(last)) {
          if (first.ranges()[0].first > last.ranges()[0].first) fail("a range that ends before it begins");
          all.add(first.ranges()[0].first, last.ranges()[0].first);
          continue;
        }
        at_ = begin;
      }
      all.add(first);
    }
    all = in_case(all);
    return others ? all.complement() : all;
  }

  std::string_view text_;
  PatternFlags flags_;
  size_t at_ = 0;
  uint32_t depth_ = 0, lookaheads_ = 0;
  bool lazy_ = false;
};

class PatternLanguage {
 public:
  PatternLanguage(Languages& all, Writing how) : all_(all), how_(how) {
    any_text_ = all_.repeat(written(all, CodePoints::all(), how), 0);
  }

  Language any_text() const { return any_text_; }
  // The tree, then `rest`, which goes to the end of the text. `begins`: nothing is before it.
  Language with(const Tree& t, Language rest, bool begins) {
    using Kind = Tree::Kind;
    if (!t.asserts) return all_.sequence(plain(t), rest);
    switch (t.kind) {
      case Kind::begin:
        return begins ? rest : Languages::nothing;
      case Kind::end:
        return all_.has_empty(rest) ? Languages::empty : Languages::nothing;
      case Kind::ahead:
        return all_.all_of({rest, with(t.parts[0], any_text_, begins)});
      case Kind::not_ahead:
        return all_.all_of({rest, all_.without(with(t.parts[0], any_text_, begins))});
      case Kind::choice: {
        std::vector<Language> choices;
        for (const Tree& part : t.parts) choices.push_back(with(part, rest, begins));
        return all_.any_of(std::move(choices));
      }
      case Kind::repeat:  // of one at most
        return t.least ? with(t.parts[0], rest, begins) : all_.any_of({rest, with(t.parts[0], rest, begins)});
      default:
        return sequence_with(t, rest, begins);
    }
  }

 private:
  Language sequence_with(const Tree& t, Language rest, bool begins) {
    // where each part begins at the beginning: only after parts that take nothing
    std::vector<bool> at_begin;
    bool still = begins, perhaps = false;
    for (const Tree& part : t.parts) {
      if (perhaps && has_begin(part)) throw Error("^ after what may be empty cannot be kept in a pattern");
      at_begin.push_back(still);
      if (is_assertion(part.kind)) continue;
      perhaps = (still || perhaps) && (part.asserts || all_.has_empty(plain(part)));
      still = false;
    }
    for (size_t i = t.parts.size(); i-- > 0;) rest = with(t.parts[i], rest, at_begin[i]);
    return rest;
  }
  static bool has_begin(const Tree& t) {
    if (t.kind == Tree::Kind::begin) return true;
    for (const Tree& part : t.parts)
      if (has_begin(part)) return true;
    return false;
  }

  Language plain(const Tree& t) {
    using Kind = Tree::Kind;
    switch (t.kind) {
      case Kind::set:
        return written(all_, t.set, how_);
      case Kind::sequence:
      case Kind::choice: {
        std::vector<Language> parts;
        for (const Tree& part : t.parts) parts.push_back(plain(part));
        return t.kind == Kind::choice ? all_.any_of(std::move(parts)) : all_.sequence(parts);
      }
      case Kind::repeat:
        return all_.repeat(plain(t.parts[0]), t.least, t.most);
      default:
        return Languages::empty;
    }
  }

  Languages& all_;
  const Writing how_;
  Language any_text_;
};

}  // namespace

namespace {

// Between any texts, more than the least of what is repeated at an end belongs to those texts as well.
void repeat_least_at(bool first, Tree& t) {
  if (t.kind == Tree::Kind::choice)
    for (Tree& part : t.parts) repeat_least_at(first, part);
  if (t.kind == Tree::Kind::repeat) t.most = t.least;
  if (t.kind != Tree::Kind::sequence) return;
  while (!t.parts.empty()) {
    Tree& part = first ? t.parts.front() : t.parts.back();
    repeat_least_at(first, part);
    if (part.kind != Tree::Kind::repeat || part.most > 0) return;
    t.parts.erase(first ? t.parts.begin() : t.parts.end() - 1);
  }
}

}  // namespace

Language search_pattern(Languages& all, std::string_view pattern, Writing how) {
  Tree tree = PatternReader(pattern).read();
  if (!tree.asserts)
    for (const bool first : {true, false}) repeat_least_at(first, tree);
  PatternLanguage language(all, how);
  const Language rest = language.any_text(), at_begin = language.with(tree, rest, true);
  if (!tree.asserts) return all.sequence(rest, at_begin);
  const Language some = all.repeat(written(all, CodePoints::all(), how), 1);
  return all.any_of({at_begin, all.sequence(some, language.with(tree, rest, false))});
}

Language whole_pattern(Languages& all, std::string_view pattern, Writing how, PatternFlags flags) {
  const Tree tree = PatternReader(pattern, flags).read();
  PatternLanguage language(all, how);
  if (!tree.asserts) return language.with(tree, Languages::empty, true);
  return all.all_of({language.any_text(), language.with(tree, Languages::empty, true)});
}

namespace {

bool has_wide_set(const Tree& t) {
  size_t count = 0;
  for (const CodePoints::Range& r : t.set.ranges()) count += r.last - r.first + 1;
  return count > wide_set_size || std::ranges::any_of(t.parts, has_wide_set);
}
bool has_wide_loop(const Tree& t) {
  if (t.kind == Tree::Kind::repeat && t.most > wide_loop_count && has_wide_set(t.parts[0])) return true;
  return std::ranges::any_of(t.parts, has_wide_loop);
}

}  // namespace

PatternTraits pattern_traits(std::string_view pattern) {
  PatternReader reader(pattern);
  const Tree tree = reader.read();
  return {.asserts = tree.asserts, .lazy = reader.has_lazy(), .wide_loop = has_wide_loop(tree), .counts = tree.counts};
}

}  // namespace heddle::grammar
