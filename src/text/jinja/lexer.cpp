#include "text/jinja/lexer.h"

#include <algorithm>
#include <charconv>

#include "base/utf8.h"
#include "text/jinja/python.h"

namespace heddle::text::jinja {
namespace {

bool is_number_start(char c) { return c >= '0' && c <= '9'; }

// "\r\n" and "\r" become "\n"; a line end at the end of the source is dropped.
std::string with_plain_line_ends(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text();
    push(Token::Kind::end, at_);
    return std::move(tokens_);
  }

 private:
  bool starts(size_t at, std::string_view what) const { return source_.compare(at, what.size(), what) == 0; }
  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  size_t after_space(size_t at) const {
    while (at < source_.size()) {
      const CodePoint point = code_point_at(source_, at);
      if (!is_space(point.value)) break;
      at += point.bytes;
    }
    return at;
  }

  // Positions are asked for in growing order, so counting lines goes over the source once.
  Place place(size_t at) {
    for (; counted_ < at; ++counted_) {
      if (source_[counted_] != '\n') continue;
      ++line_;
      line_start_ = counted_ + 1;
    }
    return {line_, uint32_t(at - line_start_ + 1)};
  }
  Token& push(Token::Kind kind, size_t at, std::string text = {}) {
    return tokens_.emplace_back(Token{kind, place(at), std::move(text), {}});
  }

  size_t find_tag(size_t from) const {
    for (size_t at = source_.find('{', from); at != source_.npos; at = source_.find('{', at + 1))
      if (at + 1 < source_.size() && (source_[at + 1] == '{' || source_[at + 1] == '%' || source_[at + 1] == '#'))
        return at;
    return source_.npos;
  }

  // Text up to a tag that begins at `end` with the sign `sign` ('-', '+' or none).
  void push_text(size_t start, size_t end, char sign, bool is_print) {
    std::string_view text = std::string_view(source_).substr(start, end - start);
    if (sign == '-') {
      text = strip(text, false, true);
    } else if (sign != '+' && !is_print) {
      const size_t line = text.rfind('\n') + 1;  // 0 when there is none
      const bool from_line_start = line > 0 || start == 0 || source_[start - 1] == '\n';
      if (from_line_start && strip(text.substr(line)).empty()) text = text.substr(0, line);
    }
    if (!text.empty()) push(Token::Kind::text, start, std::string(text));
  }
  char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  void text() {
    const size_t start = at_, tag = find_tag(at_);
    if (tag == source_.npos) {
      push(Token::Kind::text, start, source_.substr(start));
      at_ = source_.size();
      return;
    }
    const char sign = sign_at(tag + 2);
    push_text(start, tag, sign, source_[tag + 1] == '{');
    at_ = tag + 2 + (sign != 0);
    if (source_[tag + 1] == '#')
      comment(tag);
    else if (source_[tag + 1] == '{')
      inside(tag, Token::Kind::print_begin, Token::Kind::print_end, "}}");
    else if (!raw(tag))
      inside(tag, Token::Kind::tag_begin, Token::Kind::tag_end, "%}");
  }

  // What may stand before the closing characters, and what goes after them. Returns whether a tag ended here.
  bool close(std::string_view end) {
    size_t at = at_;
    const bool trims_line = end != "}}";
    const char sign = sign_at(at);
    if (sign == '+' && !trims_line) return false;
    if (sign) ++at;
    if (!starts(at, end)) return false;
    at_ = at + 2;
    if (sign == '-')
      at_ = after_space(at_);
    else if (sign == 0 && trims_line && peek() == '\n')
      ++at_;
    return true;
  }

  void comment(size_t start) {
    const size_t end = source_.find("#}", at_);
    if (end == source_.npos) fail_at(place(start), "the comment that begins here has no end");
    at_ = end > at_ && sign_at(end - 1) ? end - 1 : end;
    close("#}");
  }

  bool raw(size_t start) {
    size_t at = after_space(at_);
    if (!starts(at, "raw")) return false;
    at = after_space(at + 3);
    if (starts(at, "-%}"))
      at_ = after_space(at + 3);
    else if (starts(at, "%}"))
      at_ = at + 2;
    else
      return false;
    const size_t body = at_;
    for (size_t tag = source_.find("{%", body); tag != source_.npos; tag = source_.find("{%", tag + 1)) {
      const char sign = sign_at(tag + 2);
      const size_t word = after_space(tag + 2 + (sign != 0));
      if (!starts(word, "endraw")) continue;
      at_ = after_space(word + 6);
      if (!close("%}")) continue;
      push_text(body, tag, sign, false);
      return true;
    }
    fail_at(place(start), "the raw block that begins here has no end");
  }

  void inside(size_t start, Token::Kind begin, Token::Kind end_kind, std::string_view end) {
    push(begin, start);
    std::vector<char> open;
    for (;;) {
      at_ = after_space(at_);
      if (at_ >= source_.size()) fail_at(place(start), "the tag that begins here has no end");
      const size_t at = at_;
      if (open.empty() && close(end)) {
        push(end_kind, at);
        return;
      }
      if (is_number_start(source_[at]))
        number();
      else if (source_[at] == '"' || source_[at] == '\'')
        string();
      else if (!name())
        sign(open);
    }
  }

  // Digits with single underscores between them.
  size_t digits(size_t at, bool (*is)(char)) const {
    while (at < source_.size() &&
           (is(source_[at]) || (source_[at] == '_' && at + 1 < source_.size() && is(source_[at + 1]))))
      ++at;
    return at;
  }
  void number() {
    const size_t start = at_;
    size_t end = digits(start, is_number_start);
    bool real = false;
    const bool may_be_real = start == 0 || source_[start - 1] != '.';  // in a.0.1 both are integers
    if (may_be_real && end + 1 < source_.size() && source_[end] == '.' && is_number_start(source_[end + 1])) {
      real = true;
      end = digits(end + 1, is_number_start);
    }
    if (may_be_real && end < source_.size() && (source_[end] | 0x20) == 'e') {
      const size_t power = end + 1 + (sign_at(end + 1) != 0);
      if (power < source_.size() && is_number_start(source_[power])) {
        real = true;
        end = digits(power, is_number_start);
      }
    }
    if (!real) end = integer_end(start);
    std::string text = source_.substr(start, end - start);
    std::erase(text, '_');
    Token& token = push(Token::Kind::number, start, text);
    const auto value = real ? std::nullopt : parse_integer(text, 0);
    if (!real && (!value || value->is(heddle::text::jinja::Kind::big)))
      fail_at(token.at, "the integer {} needs more than 64 bits", text);
    token.number = real ? Value(*parse_real(text)) : *value;
    at_ = end;
  }
  size_t integer_end(size_t start) const {
    const char letter = start + 1 < source_.size() ? char(source_[start + 1] | 0x20) : '\0';
    bool (*is)(char) = nullptr;
    if (source_[start] == '0' && letter == 'x')
      is = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
    if (source_[start] == '0' && letter == 'o') is = [](char c) { return c >= '0' && c <= '7'; };
    if (source_[start] == '0' && letter == 'b') is = [](char c) { return c == '0' || c == '1'; };
    if (is && digits(start + 2, is) > start + 2) return digits(start + 2, is);
    if (source_[start] == '0') return digits(start + 1, [](char c) { return c == '0'; });
    return digits(start, is_number_start);
  }

  bool name() {
    const size_t start = at_;
    while (at_ < source_.size()) {
      const CodePoint point = code_point_at(source_, at_);
      const char32_t c = point.value;
      const bool letter = c == '_' || is_alpha(c);
      const bool later = is_decimal(c) || (c >= 0x300 && !is_space(c) && is_printable(c) && c < 0x2000);
      if (!letter && !(at_ > start && later)) break;
      at_ += point.bytes;
    }
    if (at_ == start) return false;
    push(Token::Kind::name, start, source_.substr(start, at_ - start));
    return true;
  }

  void string() {
    const size_t start = at_;
    const char quote = source_[at_++];
    std::string text;
    while (peek() != quote) {
      if (at_ >= source_.size()) fail_at(place(start), "the string that begins here has no end");
      if (source_[at_] == '\\')
        escape(text, start);
      else
        text += source_[at_++];
    }
    ++at_;
    push(Token::Kind::string, start, std::move(text));
  }
  void escape(std::string& text, size_t start) {
    const char c = peek(1);
    static constexpr std::string_view letters = "abfnrtv\\'\"", meant = "\a\b\f\n\r\t\v\\'\"";
    at_ += 2;
    if (const size_t known = letters.find(c); c != 0 && known != letters.npos) {
      text += meant[known];
    } else if (c == '\n') {
      return;  // a line continued
    } else if (c >= '0' && c <= '7') {
      size_t end = at_;
      while (end < source_.size() && end < at_ + 2 && source_[end] >= '0' && source_[end] <= '7') ++end;
      code(text, at_ - 1, end, 8, start);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      code(text, at_, at_ + count, 16, start);
    } else if (c == 'N') {
      fail_at(place(start), "a string with a character by name (\\N): heddle knows no names of characters");
    } else {
      text += '\\';
      --at_;  // an unknown escape is the two characters
      if (c == 0) fail_at(place(start), "the string that begins here has no end");
    }
  }
  void code(std::string& text, size_t from, size_t to, int base, size_t start) {
    uint32_t value = 0;
    const char* first = source_.data() + std::min(from, source_.size());
    const char* last = source_.data() + std::min(to, source_.size());
    const auto [end, error] = std::from_chars(first, last, value, base);
    if (error != std::errc{} || end != source_.data() + to)
      fail_at(place(start), "a string with an escape that has too few digits");
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      fail_at(place(start), "a string with the escape of {:X}, which is not a character", value);
    append_utf8(text, value);
    at_ = to;
  }

  void sign(std::vector<char>& open) {
    const size_t start = at_;
    const char c = source_[at_];
    static constexpr std::string_view doubles[] = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view singles = "+-/*%~[](){}><=.:|,;";
    size_t length = singles.find(c) != singles.npos ? 1 : 0;
    for (const std::string_view two : doubles)
      if (starts(at_, two)) length = 2;
    if (length == 0)
      fail_at(place(start), "unexpected character \"{}\"", source_.substr(start, code_point_at(source_, start).bytes));
    if (c == '(' || c == '[' || c == '{') open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail_at(place(start), "unexpected \"{}\"", c);
      if (open.back() != c) fail_at(place(start), "expected \"{}\", found \"{}\"", open.back(), c);
      open.pop_back();
    }
    at_ += length;
    push(Token::Kind::sign, start, source_.substr(start, length));
  }

  std::string source_;
  size_t at_ = 0;
  size_t counted_ = 0, line_start_ = 0;
  uint32_t line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::string describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::text:
      return "text";
    case Token::Kind::print_begin:
      return "{{";
    case Token::Kind::print_end:
      return "}}";
    case Token::Kind::tag_begin:
      return "{%";
    case Token::Kind::tag_end:
      return "%}";
    case Token::Kind::string:
      return "a string";
    case Token::Kind::name:
    case Token::Kind::number:
    case Token::Kind::sign:
      return "\"" + token.text + "\"";
    case Token::Kind::end:
      return "the end of the template";
  }
  return {};
}

std::vector<Token> tokenize(std::string_view source) {
  if (const size_t bad = find_invalid_utf8(source); bad != source.npos)
    throw Error("template: no valid UTF-8 at byte {}", bad);
  return Lexer(with_plain_line_ends(source)).run();
}

}  // namespace heddle::text::jinja
