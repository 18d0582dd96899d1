// A place in the text of a grammar, which errors name by line and column.
#pragma once
#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle::grammar {

// Grammars are written by people and by programs that translate schemas: neither needs more.
constexpr size_t max_grammar_text = 1 << 20;  // bytes
constexpr size_t max_grammar_names = 20'000;
constexpr uint32_t max_grammar_depth = 200;  // of groups

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {
    if (text.size() > max_grammar_text)
      throw Error("the grammar has {} bytes; at most {} are read", text.size(), max_grammar_text);
    if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) fail_at(bad, "no valid UTF-8");
  }

  size_t at() const { return at_; }
  void go_to(size_t at) { at_ = at; }
  bool at_end() const { return at_ == text_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  std::string_view rest() const { return text_.substr(at_); }
  std::string_view from(size_t begin) const { return text_.substr(begin, at_ - begin); }
  bool takes(std::string_view what) {
    if (!rest().starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  void skip() { ++at_; }
  char32_t next_code_point() {
    const CodePoint c = code_point_at(text_, at_);
    at_ += c.bytes;
    return c.value;
  }
  // As many digits as said, in hexadecimal.
  uint32_t hex(uint32_t digits) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const int d = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
      if (d < 0) fail(fmt::format("expected {} hexadecimal digits", digits));
      value = value * 16 + uint32_t(d);
    }
    return value;
  }
  // A number of repetitions.
  uint32_t count() {
    if (peek() < '0' || peek() > '9') fail("expected a number");
    uint64_t value = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      value = std::min<uint64_t>(value * 10 + uint64_t(peek() - '0'), 1'000'001);
    if (value > 1'000'000) fail_at(begin, "more than a million repetitions");
    return uint32_t(value);
  }

  [[noreturn]] void fail(std::string_view what) const { fail_at(at_, what); }
  [[noreturn]] void fail_at(size_t at, std::string_view what) const {
    const std::string_view before = text_.substr(0, at);
    const size_t line = size_t(std::ranges::count(before, '\n')) + 1;
    const size_t line_begin = before.rfind('\n') + 1;  // npos is one before 0
    size_t column = 1;
    for (size_t i = line_begin; i < at; i += code_point_at(text_, i).bytes) ++column;
    throw Error("line {}, column {}: {}", line, column, what);
  }
  // What stands here, for errors.
  std::string found() const {
    if (at_end()) return "the end";
    return in_quotes(text_.substr(at_, std::max<size_t>(code_point_at(text_, at_).bytes, 1)));
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace heddle::grammar
