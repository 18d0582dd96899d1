#include "grammar/gbnf.h"

#include <unordered_map>

#include "grammar/expression.h"
#include "grammar/text_cursor.h"

namespace heddle::grammar {

namespace {

class GbnfReader {
 public:
  GbnfReader(Grammar& grammar, std::string_view text) : g_(grammar), in_(text) {}

  Symbol read() {
    space(true);
    while (!in_.at_end()) definition();
    for (size_t i = 0; i < rules_.size(); ++i)
      if (!defined_[i]) in_.fail_at(first_use_[i], fmt::format("rule {} is not defined", in_quotes(rules_[i].name)));
    const auto root = numbers_.find("root");
    if (root == numbers_.end()) throw Error("the grammar has no rule root");
    return add_rules(g_, rules_, root->second);
  }

 private:
  // Comments too. Newlines end a rule, except inside of groups and behind ::= and |.
  void space(bool newlines) {
    for (;;) {
      const char c = in_.peek();
      if (in_.at_end()) return;
      if (c == ' ' || c == '\t' || (newlines && (c == '\r' || c == '\n'))) {
        in_.skip();
      } else if (c == '#') {
        while (!in_.at_end() && in_.peek() != '\n' && in_.peek() != '\r') in_.skip();
      } else {
        return;
      }
    }
  }
  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  }
  std::string name() {
    const size_t begin = in_.at();
    while (is_name(in_.peek())) in_.skip();
    if (in_.at() == begin) in_.fail(fmt::format("expected the name of a rule, found {}", in_.found()));
    return std::string(in_.from(begin));
  }
  uint32_t rule(const std::string& name, size_t at) {
    const auto [found, is_new] = numbers_.try_emplace(name, uint32_t(rules_.size()));
    if (is_new) {
      if (rules_.size() >= max_grammar_names) in_.fail_at(at, fmt::format("more than {} rules", max_grammar_names));
      rules_.push_back({name, {}});
      defined_.push_back(false);
      first_use_.push_back(at);
    }
    return found->second;
  }

  void definition() {
    const size_t begin = in_.at();
    const std::string rule_name = name();
    const uint32_t number = rule(rule_name, begin);
    if (defined_[number]) in_.fail_at(begin, fmt::format("rule {} is defined twice", in_quotes(rule_name)));
    space(false);
    if (!in_.takes("::=")) in_.fail(fmt::format("expected ::=, found {}", in_.found()));
    space(true);
    Expression body = choices(false);
    if (!in_.at_end() && in_.peek() != '\n' && in_.peek() != '\r')
      in_.fail(fmt::format("expected a part of a rule or the end of the line, found {}", in_.found()));
    rules_[number].body = std::move(body);
    defined_[number] = true;
    space(true);
  }
  Expression choices(bool in_group) {
    if (++depth_ > max_grammar_depth) in_.fail(fmt::format("groups more than {} deep", max_grammar_depth));
    std::vector<Expression> all{sequence(in_group)};
    while (in_.takes("|")) {
      space(true);
      all.push_back(sequence(in_group));
    }
    --depth_;
    return Expression::choice_of(std::move(all));
  }
  Expression sequence(bool in_group) {
    std::vector<Expression> parts;
    uint32_t repeated = 0;  // how often the last part is
    for (;;) {
      const char c = in_.peek();
      const size_t begin = in_.at();
      const bool repeats = c == '*' || c == '+' || c == '?' || c == '{';
      repeated = repeats ? repeated + 1 : 0;
      if (in_.takes("\"")) {
        parts.push_back(literal());
      } else if (in_.takes("[")) {
        parts.push_back(character_class());
      } else if (in_.takes(".")) {
        parts.push_back(Expression::of_set(g_.languages, CodePoints::all()));
      } else if (in_.takes("(")) {
        space(true);
        parts.push_back(choices(true));
        if (!in_.takes(")")) in_.fail(fmt::format("expected ), found {}", in_.found()));
      } else if (c == '<' || c == '!') {
        in_.fail("tokens such as <think> or <[1000]> cannot be kept: write the text of the token in quotation marks");
      } else if (is_name(c)) {
        const std::string used = name();
        parts.push_back(Expression::of_rule(rule(used, begin)));
      } else if (repeats) {
        if (repeated > 4) in_.fail("more than 4 repetitions of repetitions");
        if (parts.empty()) in_.fail(fmt::format("nothing to repeat before {}", in_.found()));
        repetition(parts.back(), in_group);
      } else {
        return Expression::sequence_of(std::move(parts));
      }
      space(in_group);
    }
  }
  void repetition(Expression& part, bool in_group) {
    uint32_t least = 0, most = Languages::unbounded;
    if (in_.takes("*")) {
    } else if (in_.takes("+")) {
      least = 1;
    } else if (in_.takes("?")) {
      most = 1;
    } else {
      const size_t begin = in_.at();
      in_.skip();
      space(in_group);
      least = most = in_.count();
      space(in_group);
      if (in_.takes(",")) {
        space(in_group);
        most = in_.peek() == '}' ? Languages::unbounded : in_.count();
        space(in_group);
      }
      if (!in_.takes("}")) in_.fail(fmt::format("expected }}, found {}", in_.found()));
      if (least > most) in_.fail_at(begin, fmt::format("a repetition of at least {} and at most {}", least, most));
    }
    part = Expression::repeated(std::move(part), least, most);
  }
  char32_t character() {
    const size_t begin = in_.at();
    if (!in_.takes("\\")) return in_.next_code_point();
    const char c = in_.peek();
    if (in_.at_end()) in_.fail("expected an escape, found the end");
    in_.skip();
    switch (c) {
      case 'x':
        return in_.hex(2);
      case 'u':
      case 'U': {
        const uint32_t value = in_.hex(c == 'u' ? 4 : 8);
        if (value > CodePoints::largest || (value >= 0xd800 && value <= 0xdfff))
          in_.fail_at(begin, fmt::format("{:X} is no code point that UTF-8 can write", value));
        return value;
      }
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'n':
        return '\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return char32_t(c);
      default:
        in_.fail_at(begin, "an unknown escape");
    }
  }
  Expression literal() {
    std::string text;
    while (!in_.takes("\"")) {
      if (in_.at_end()) in_.fail("expected \", found the end");
      append_utf8(text, character());
    }
    return Expression::of_text(g_.languages, text);
  }
  Expression character_class() {
    const size_t begin = in_.at() - 1;
    const bool others = in_.takes("^");
    CodePoints set;
    while (!in_.takes("]")) {
      if (in_.at_end()) in_.fail("expected ], found the end");
      const size_t range_begin = in_.at();
      const char32_t first = character();
      char32_t last = first;
      if (in_.peek() == '-' && in_.peek(1) != ']') {
        in_.skip();
        if (in_.at_end()) in_.fail("expected ], found the end");
        last = character();
      }
      if (first > last) in_.fail_at(range_begin, "a range that ends before it begins");
      set.add(first, last);
      if (set.ranges().size() > 4000) in_.fail_at(begin, "a class of more than 4000 ranges");
    }
    if (set.empty()) in_.fail_at(begin, "a class without characters");
    if (others) set = set.complement();
    if (set.common(CodePoints{{0xd800, 0xdfff}}.complement()).empty())
      in_.fail_at(begin, "a class that no character is in");
    return Expression::of_set(g_.languages, set);
  }

  Grammar& g_;
  TextCursor in_;
  std::vector<NamedExpression> rules_;
  std::vector<bool> defined_;
  std::vector<size_t> first_use_;  // where the name stands first
  std::unordered_map<std::string, uint32_t> numbers_;
  uint32_t depth_ = 0;
};

}  // namespace

Symbol add_gbnf(Grammar& grammar, std::string_view text) { return GbnfReader(grammar, text).read(); }

Grammar gbnf(std::string_view text) { return grammar_of(add_gbnf, text); }

}  // namespace heddle::grammar
