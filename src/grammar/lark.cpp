// Terminals are read as expressions over terminals, and made languages when all are known; literals inside of rules are
// terminals without a name.
#include "grammar/lark.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "grammar/expression.h"
#include "grammar/lark_common.h"
#include "grammar/pattern.h"
#include "grammar/text_cursor.h"

namespace heddle::grammar {

namespace {

constexpr size_t max_lark_terminal = 4'000;  // parts of an expression

class LarkReader {
 public:
  LarkReader(Grammar& grammar, std::string_view text) : g_(grammar), in_(text) {}

  Symbol read() {
    for (space(true); !in_.at_end(); space(true)) item();
    for (const Definition& d : all_)
      if (!d.defined) in_.fail_at(d.at, fmt::format("{} is not defined", in_quotes(d.name)));
    const auto start = numbers_.find("start");
    if (start == numbers_.end()) throw Error("the grammar has no rule start");

    std::vector<Language> ignored;
    for (uint32_t i : ignored_) ignored.push_back(whole(i));
    Languages& l = g_.languages;
    const Language gap = l.repeat(l.any_of(std::move(ignored)), 0);
    std::vector<NamedExpression> rules;
    for (uint32_t i = 0; i < all_.size(); ++i) {
      rules.push_back({all_[i].name, {}});
      if (!all_[i].is_terminal) {
        rules.back().body = std::move(all_[i].body);
        continue;
      }
      const Terminal& t = terminal(i);
      rules.back().body = Expression::of_language(l.sequence(whole(i), gap), t.width, t.size, t.counts);
    }
    rules.push_back({"start", Expression::sequence_of({Expression::of_language(gap, Expression::Width::narrow, 1),
                                                       Expression::of_rule(start->second)})});
    return add_rules(g_, rules, uint32_t(rules.size() - 1));
  }

 private:
  struct Terminal {
    Language language;
    Expression::Width width;
    size_t size;
    uint64_t counts;
    bool lazy;
  };
  struct Definition {
    std::string name;
    size_t at;  // where the name stands first
    bool is_terminal;
    bool defined = false;
    bool lazy = false;  // has a lazy repetition
    Expression body{};
    std::optional<Terminal> terminal{};
    bool is_open = false;  // its terminal is being found
  };

  // --- the notation -------------------------------------------------------------------------------------------------
  // Comments too. A newline ends a definition, except inside of groups and before |.
  void space(bool newlines) {
    for (;;) {
      const char c = in_.peek();
      if (in_.at_end()) return;
      if (c == ' ' || c == '\t' || (newlines && (c == '\r' || c == '\n'))) {
        in_.skip();
      } else if (c == '#' || (c == '/' && in_.peek(1) == '/')) {
        while (!in_.at_end() && in_.peek() != '\n') in_.skip();
      } else if (c == '\\' && continues_line()) {
        in_.go_to(in_.at() + in_.rest().find('\n') + 1);
      } else {
        return;
      }
    }
  }
  bool continues_line() const {  // a backslash and nothing else before the end of the line
    const size_t end = in_.rest().find('\n');
    return end != std::string_view::npos &&
           in_.rest().substr(1, end - 1).find_first_not_of(" \t\r") == std::string_view::npos;
  }
  void space_in_definition() {
    space(depth_ > 1);
    if (in_.at_end() || (in_.peek() != '\n' && in_.peek() != '\r')) return;
    const size_t end = in_.at();
    space(true);
    if (in_.peek() != '|') in_.go_to(end);
  }
  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  std::string name() {
    const size_t begin = in_.at();
    while (is_name(in_.peek())) in_.skip();
    const std::string found(in_.from(begin));
    const size_t letter = found.find_first_not_of('_');
    if (letter == std::string::npos || (found[letter] >= '0' && found[letter] <= '9'))
      in_.fail_at(begin, fmt::format("expected the name of a rule or a terminal, found {}", in_.found()));
    const bool upper = std::ranges::any_of(found, [](char c) { return c >= 'A' && c <= 'Z'; });
    const bool lower = std::ranges::any_of(found, [](char c) { return c >= 'a' && c <= 'z'; });
    if (upper == lower)
      in_.fail_at(begin,
                  fmt::format("{} is neither a rule, in lower case, nor a terminal, in upper case", in_quotes(found)));
    return found;
  }
  static bool is_terminal_name(std::string_view name) {
    return std::ranges::any_of(name, [](char c) { return c >= 'A' && c <= 'Z'; });
  }
  uint32_t number_of(const std::string& name, size_t at) {
    const auto [found, is_new] = numbers_.try_emplace(name, uint32_t(all_.size()));
    if (is_new) add_definition(name, at, is_terminal_name(name));
    return found->second;
  }
  uint32_t add_definition(const std::string& name, size_t at, bool is_terminal) {
    if (all_.size() >= max_grammar_names)
      in_.fail_at(at, fmt::format("more than {} rules, terminals and literals", max_grammar_names));
    all_.push_back({.name = name, .at = at, .is_terminal = is_terminal});
    return uint32_t(all_.size() - 1);
  }

  void item() {
    const size_t begin = in_.at();
    if (in_.takes("%")) {
      statement(begin);
    } else {
      if (in_.peek() == '!') in_.skip();  // these two are about trees
      if (in_.peek() == '?') in_.skip();
      const size_t at = in_.at();
      const std::string defined = name();
      if (in_.peek() == '{') in_.fail("templates cannot be kept");
      if (in_.takes(".")) {  // a priority
        in_.takes("-");
        in_.count();
      }
      space(false);
      if (!in_.takes(":")) in_.fail(fmt::format("expected :, found {}", in_.found()));
      define(number_of(defined, at), at);
    }
    space(false);
    if (!in_.at_end() && in_.peek() != '\n' && in_.peek() != '\r')
      in_.fail(fmt::format("expected the end of the line, found {}", in_.found()));
  }
  void define(uint32_t number, size_t at) {
    if (all_[number].defined) in_.fail_at(at, fmt::format("{} is defined twice", in_quotes(all_[number].name)));
    current_ = number;
    Expression body = choices();
    all_[number].body = std::move(body);
    all_[number].defined = true;
  }
  void statement(size_t begin) {
    const size_t word_at = in_.at();
    while (is_name(in_.peek())) in_.skip();
    const std::string_view word = in_.from(word_at);
    space(false);
    if (word == "ignore") {
      const uint32_t number = add_definition("%ignore", in_.at(), true);
      define(number, in_.at());
      if (all_[number].body.kind == Expression::Kind::sequence && all_[number].body.parts.empty())
        in_.fail(fmt::format("expected a terminal, found {}", in_.found()));
      ignored_.push_back(number);
    } else if (word == "import") {
      import(begin);
    } else {
      in_.fail_at(begin, fmt::format("%{} cannot be kept; %ignore and %import common.NAME can", word));
    }
  }
  void import(size_t begin) {
    if (!in_.takes("common")) in_.fail(fmt::format("only common can be imported, found {}", in_.found()));
    space(false);
    if (in_.takes("(")) {
      do {
        space(true);
        const size_t at = in_.at();
        const std::string one = name();
        import_one(one, one, at);
        space(true);
      } while (in_.takes(","));
      if (!in_.takes(")")) in_.fail(fmt::format("expected ), found {}", in_.found()));
      return;
    }
    if (!in_.takes(".")) in_.fail_at(begin, "expected %import common.NAME");
    const size_t at = in_.at();
    const std::string one = name();
    space(false);
    std::string as = one;
    if (in_.takes("->")) {
      space(false);
      as = name();
      if (!is_terminal_name(as)) in_.fail_at(at, "a terminal is imported under a name in upper case");
    }
    import_one(one, as, at);
  }
  void import_one(const std::string& one, const std::string& as, size_t at) {
    const auto found = std::ranges::find(common_terminals, one, &CommonTerminal::name);
    if (found == common_terminals.end()) in_.fail_at(at, fmt::format("common has no {}", in_quotes(one)));
    Definition& d = all_[number_of(as, at)];
    if (d.defined) in_.fail_at(at, fmt::format("{} is defined twice", in_quotes(as)));
    d.body = pattern_leaf(found->pattern, {}, d.lazy);
    d.defined = true;
  }

  // --- expressions --------------------------------------------------------------------------------------------------
  Expression choices() {
    if (++depth_ > max_grammar_depth) in_.fail(fmt::format("groups more than {} deep", max_grammar_depth));
    std::vector<Expression> all;
    do {
      all.push_back(sequence());
      if (in_.takes("->")) {  // a name for the tree
        space(false);
        name();
        space_in_definition();
      }
    } while (in_.takes("|"));
    --depth_;
    return Expression::choice_of(std::move(all));
  }
  Expression sequence() {
    std::vector<Expression> parts;
    for (;;) {
      space_in_definition();
      std::optional<Expression> part = atom();
      if (!part) return Expression::sequence_of(std::move(parts));
      parts.push_back(repeated(std::move(*part)));
    }
  }
  std::optional<Expression> atom() {
    const size_t at = in_.at();
    const char c = in_.peek();
    if (c == '(' || c == '[') {
      in_.skip();
      Expression inside = choices();
      const char* close = c == '(' ? ")" : "]";
      if (!in_.takes(close)) in_.fail(fmt::format("expected {}, found {}", close, in_.found()));
      return c == '(' ? inside : Expression::repeated(std::move(inside), 0, 1);
    }
    if (c == '"') return literal(string_or_range());
    if (c == '/') return literal(regular_expression());
    if (c == '<' || c == '@') in_.fail("tokens and grammars by name cannot be kept");
    if (c == '%') in_.fail("what % begins cannot be kept inside of a rule");
    if (!is_name(c)) return {};
    const std::string used = name();
    if (in_.peek() == '{') in_.fail("templates cannot be kept");
    if (all_[current_].is_terminal && !is_terminal_name(used))
      in_.fail_at(at, fmt::format("a terminal cannot be made of the rule {}", in_quotes(used)));
    return Expression::of_rule(number_of(used, at));
  }
  Expression repeated(Expression part) {
    for (uint32_t times = 0;; ++times) {
      space(false);
      const size_t at = in_.at();
      uint32_t least = 0, most = Languages::unbounded;
      if (in_.takes("*")) {
      } else if (in_.takes("+")) {
        least = 1;
      } else if (in_.takes("?")) {
        most = 1;
      } else if (in_.takes("~")) {
        space(false);
        least = most = in_.count();
        space(false);
        if (in_.takes("..")) {
          space(false);
          most = in_.count();
        }
        if (least > most) in_.fail_at(at, fmt::format("a repetition of at least {} and at most {}", least, most));
      } else {
        return part;
      }
      if (times == 4) in_.fail_at(at, "more than 4 repetitions of repetitions");
      part = Expression::repeated(std::move(part), least, most);
    }
  }
  // A literal in a rule is a terminal without a name.
  struct Literal {
    Expression leaf;
    bool lazy = false;
    std::string written;
    size_t at;
  };
  Expression literal(Literal found) {
    if (all_[current_].is_terminal) {
      all_[current_].lazy = all_[current_].lazy || found.lazy;
      return std::move(found.leaf);
    }
    const auto [known, is_new] = literals_.try_emplace(found.written, 0);
    if (is_new) {
      known->second = add_definition(found.written, found.at, true);
      Definition& d = all_.back();
      d.body = std::move(found.leaf);
      d.lazy = found.lazy;
      d.defined = true;
    }
    return Expression::of_rule(known->second);
  }
  std::u32string string_text() {
    std::u32string text;
    if (!in_.takes("\"")) in_.fail(fmt::format("expected a string, found {}", in_.found()));
    while (!in_.takes("\"")) {
      if (in_.at_end() || in_.peek() == '\n') in_.fail("expected \" before the end of the line");
      const size_t at = in_.at();
      if (!in_.takes("\\")) {
        text += in_.next_code_point();
        continue;
      }
      const char c = in_.peek();
      constexpr std::string_view letters = "nrtfvab0\\\"'/";
      in_.skip();
      if (c == 'x' || c == 'u' || c == 'U') {
        const uint32_t value = in_.hex(c == 'x' ? 2 : c == 'u' ? 4 : 8);
        if (value > CodePoints::largest || (value >= 0xd800 && value <= 0xdfff))
          in_.fail_at(at, fmt::format("{:X} is no code point that UTF-8 can write", value));
        text += char32_t(value);
      } else if (const size_t known = c ? letters.find(c) : letters.npos; known != letters.npos) {
        text += char32_t(std::string_view("\n\r\t\f\v\a\b\0\\\"'/", 12)[known]);
      } else {
        in_.fail_at(at, "an unknown escape");
      }
    }
    return text;
  }
  Literal string_or_range() {
    const size_t at = in_.at();
    const std::u32string first = string_text();
    Literal found{.leaf = {}, .written = {}, .at = at};
    if (in_.takes("..")) {
      const std::u32string last = string_text();
      if (first.size() != 1 || last.size() != 1) in_.fail_at(at, "a range is of two single characters");
      if (first[0] > last[0]) in_.fail_at(at, "a range that ends before it begins");
      found.leaf = Expression::of_set(g_.languages, {{first[0], last[0]}});
    } else if (in_.peek() == 'i' && !is_name(in_.peek(1))) {
      in_.skip();
      std::vector<Language> parts;
      for (char32_t c : first) parts.push_back(written(g_.languages, CodePoints{{c, c}}.in_any_case(), Writing::utf8));
      found.leaf = Expression::of_language(g_.languages.sequence(parts), Expression::Width::narrow, first.size());
    } else {
      std::string text;
      for (char32_t c : first) append_utf8(text, c);
      found.leaf = Expression::of_text(g_.languages, text);
    }
    found.written = std::string(in_.from(at));
    return found;
  }
  Literal regular_expression() {
    const size_t at = in_.at();
    in_.skip();
    while (in_.peek() != '/') {
      if (in_.at_end() || in_.peek() == '\n') in_.fail("expected / before the end of the line");
      if (in_.peek() == '\\') in_.skip();
      if (in_.at_end()) in_.fail("expected / before the end of the line");
      in_.next_code_point();
    }
    const std::string pattern(in_.from(at + 1));
    in_.skip();
    PatternFlags flags;
    for (; is_name(in_.peek()); in_.skip()) {
      const char flag = in_.peek();
      if (flag == 'i')
        flags.ignore_case = true;
      else if (flag == 's')
        flags.dot_all = true;
      else if (flag != 'u' && flag != 'm')  // m is about anchors, which are refused
        in_.fail(fmt::format("the flag {} of a regular expression cannot be kept; i, m, s and u can", flag));
    }
    Literal found{.leaf = {}, .written = std::string(in_.from(at)), .at = at};
    try {
      found.leaf = pattern_leaf(pattern, flags, found.lazy);
    } catch (const Error& e) {
      in_.fail_at(at, e.what());
    }
    return found;
  }
  Expression pattern_leaf(std::string_view pattern, PatternFlags flags, bool& lazy) {
    const std::string read = without_python(pattern, flags);
    const PatternTraits traits = pattern_traits(read);
    if (traits.asserts) throw Error("anchors and lookahead cannot be kept in a terminal");
    lazy = traits.lazy;
    return Expression::of_language(whole_pattern(g_.languages, read, Writing::utf8, flags),
                                   traits.wide_loop ? Expression::Width::wide_loop : Expression::Width::narrow,
                                   read.size(), traits.counts);
  }
  // Python names groups by (?P<name>, and its dot is anything but a newline.
  static std::string without_python(std::string_view pattern, PatternFlags flags) {
    std::string read;
    bool in_class = false;
    for (size_t i = 0; i < pattern.size(); ++i) {
      const char c = pattern[i];
      if (c == '\\' && i + 1 < pattern.size()) {
        read += pattern.substr(i++, 2);
        continue;
      }
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      if (!in_class && pattern.substr(i).starts_with("(?P<")) {
        read += "(?<";
        i += 3;
      } else if (!in_class && c == '.' && !flags.dot_all) {
        read += "[^\\n]";
      } else {
        read += c;
      }
    }
    return read;
  }

  // --- terminals ----------------------------------------------------------------------------------------------------
  const Terminal& terminal(uint32_t number) {
    Definition& d = all_[number];
    if (d.terminal) return *d.terminal;
    if (d.is_open) in_.fail_at(d.at, fmt::format("terminal {} is made of itself", in_quotes(d.name)));
    if (++terminal_depth_ > max_grammar_depth)
      in_.fail_at(d.at, fmt::format("terminals more than {} deep", max_grammar_depth));
    d.is_open = true;
    Terminal t = terminal_of(d.body, d);
    --terminal_depth_;
    t.lazy = t.lazy || d.lazy;
    if (t.language == Languages::nothing)
      in_.fail_at(d.at, fmt::format("no text is the terminal {}", in_quotes(d.name)));
    d.terminal = t;
    return *d.terminal;
  }
  // A lazy repetition ends as soon as it can: the texts are those of which no shorter beginning is one, since Lark's
  // own lexer finds these too.
  Language whole(uint32_t number) {
    Languages& l = g_.languages;
    const Terminal& t = terminal(number);
    if (!t.lazy) return t.language;
    const Language longer = l.sequence(t.language, l.sequence(l.bytes(Bytes().set()), Languages::anything));
    return l.all_of({t.language, l.without(longer)});
  }
  Terminal terminal_of(const Expression& e, const Definition& d) {
    using Kind = Expression::Kind;
    using Width = Expression::Width;
    Languages& l = g_.languages;
    if (e.kind == Kind::language) return {e.language, e.width, e.size, e.counts, false};
    if (e.kind == Kind::rule) return terminal(e.rule);
    Terminal all{Languages::empty, Width::narrow, 1, 0, false};
    std::vector<Language> parts;
    for (const Expression& part : e.parts) {
      const Terminal one = terminal_of(part, d);
      parts.push_back(one.language);
      all.width = std::max(all.width, one.width);
      all.size += one.size;
      all.counts += one.counts;
      all.lazy = all.lazy || one.lazy;
      if (all.size > max_lark_terminal) in_.fail_at(d.at, fmt::format("terminal {} is too large", in_quotes(d.name)));
    }
    if (e.kind == Kind::repeat) {
      const uint64_t counts = nested_counts(all.counts, e.least, e.most);
      if (all.counts && counts > max_nested_counts)
        in_.fail_at(d.at, fmt::format("terminal {} has repetitions of repetitions that count to more than {}",
                                      in_quotes(d.name), max_nested_counts));
      all.counts = counts;
    }
    if (e.kind == Kind::repeat && all.width == Width::wide_set && e.most > wide_loop_count)
      all.width = Width::wide_loop;
    all.language = e.kind == Kind::sequence ? l.sequence(parts)
                   : e.kind == Kind::choice ? l.any_of(std::move(parts))
                                            : l.repeat(parts[0], e.least, e.most);
    return all;
  }

  Grammar& g_;
  TextCursor in_;
  std::vector<Definition> all_;
  std::unordered_map<std::string, uint32_t> numbers_;
  std::unordered_map<std::string, uint32_t> literals_;  // in rules, by how they are written
  std::vector<uint32_t> ignored_;
  uint32_t current_ = 0;  // the definition that is being read
  uint32_t depth_ = 0, terminal_depth_ = 0;
};

}  // namespace

Symbol add_lark(Grammar& grammar, std::string_view text) { return LarkReader(grammar, text).read(); }

Grammar lark(std::string_view text) { return grammar_of(add_lark, text); }

}  // namespace heddle::grammar
