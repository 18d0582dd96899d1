// Random grammars as trees, printed in the notations that are read, and matched by trying everything.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "grammar/parser.h"

namespace heddle::test {

using grammar::CompiledGrammar, grammar::Position;

inline bool accepts(const std::shared_ptr<CompiledGrammar>& grammar, std::string_view text) {
  Position at(grammar);
  return at.take(text) && at.may_end();
}
inline std::shared_ptr<CompiledGrammar> compile(grammar::Grammar grammar) {
  return std::make_shared<CompiledGrammar>(std::move(grammar));
}

constexpr uint32_t no_limit = 99;
inline const std::u32string alphabet = U"ab\u00e9";

inline std::string utf8(const std::u32string& text) {
  std::string out;
  for (char32_t c : text)
    if (c < 0x80)
      out += char(c);
    else
      out += {char(0xc0 | c >> 6), char(0x80 | (c & 0x3f))};
  return out;
}

class RandomGrammar {
 public:
  struct Node {
    enum class Kind { literal, set, not_set, any, rule, sequence, choice, repeat };
    Kind kind = Kind::literal;
    std::u32string letters{};
    uint32_t rule = 0;
    uint32_t least = 0, most = 0;  // most 99: unbounded
    std::vector<Node> parts{};
  };

  explicit RandomGrammar(uint32_t seed) : random_(seed) {
    const uint32_t count = 1 + below(4);
    for (uint32_t i = 0; i < count; ++i) rules.push_back(node(3, count));
  }
  std::vector<Node> rules;

  // Whether rule 0 has the text, where `gaps` may stand around every literal and set.
  bool matches(const std::u32string& text, bool gaps) {
    text_ = text;
    gaps_ = gaps;
    ends_.assign(rules.size(), std::vector<uint32_t>(text.size() + 1));
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t r = 0; r < rules.size(); ++r)
        for (uint32_t from = 0; from <= text.size(); ++from) {
          const uint32_t found = ends_[r][from] | match(rules[r], 1u << from);
          changed = changed || found != ends_[r][from];
          ends_[r][from] = found;
        }
    }
    uint32_t found = 0;
    for (uint32_t from = 0; from <= text.size(); ++from) {
      found |= ends_[0][from];
      if (!gaps || from == text.size() || text[from] != U' ') break;
    }
    return found >> text.size() & 1;
  }

  std::string gbnf() const {
    std::string out;
    for (size_t r = 0; r < rules.size(); ++r)
      out += fmt::format("{} ::= {}\n", r == 0 ? "root" : fmt::format("r{}", r), print(rules[r], false));
    return out;
  }
  std::string lark() const {
    std::string out;
    for (size_t r = 0; r < rules.size(); ++r)
      out += fmt::format("{}: {}\n", r == 0 ? "start" : fmt::format("r{}", r), print(rules[r], true));
    return out;
  }

 private:
  uint32_t below(uint32_t bound) { return uint32_t(random_() % bound); }
  std::u32string some_letters(uint32_t most) {
    std::u32string all;
    for (uint32_t i = 1 + below(most); i > 0; --i) all += alphabet[below(uint32_t(alphabet.size()))];
    return all;
  }
  Node node(uint32_t depth, uint32_t count) {
    const uint32_t kind = below(depth ? 12 : 6);
    if (kind < 2) return {.kind = Node::Kind::literal, .letters = some_letters(2)};
    if (kind == 2) return {.kind = Node::Kind::set, .letters = some_letters(2)};
    if (kind == 3) return {.kind = Node::Kind::not_set, .letters = some_letters(2)};
    if (kind == 4) return {.kind = below(3) ? Node::Kind::literal : Node::Kind::any, .letters = some_letters(1)};
    if (kind == 5) return {.kind = Node::Kind::rule, .rule = below(count)};
    if (kind >= 10) {
      static constexpr std::pair<uint32_t, uint32_t> counts[] = {{0, no_limit}, {1, no_limit}, {0, 1}, {2, 2},
                                                                 {2, no_limit}, {1, 3},        {0, 2}, {0, 0}};
      const auto [least, most] = counts[below(std::size(counts))];
      Node n{.kind = Node::Kind::repeat, .least = least, .most = most};
      n.parts.push_back(node(depth - 1, count));
      return n;
    }
    Node n{.kind = kind < 8 ? Node::Kind::sequence : Node::Kind::choice};
    for (uint32_t i = 1 + below(3); i > 0; --i) n.parts.push_back(node(depth - 1, count));
    return n;
  }

  // From a set of positions to the set of those behind, as bits.
  uint32_t match(const Node& n, uint32_t from) {
    uint32_t found = 0;
    switch (n.kind) {
      case Node::Kind::sequence:
        found = from;
        for (const Node& part : n.parts) found = match(part, found);
        return found;
      case Node::Kind::choice:
        for (const Node& part : n.parts) found |= match(part, from);
        return found;
      case Node::Kind::repeat: {
        uint32_t at = from;
        for (uint32_t i = 0; i < n.least; ++i) at = match(n.parts[0], at);
        found = at;
        // behind as many times as there are letters nothing is new
        for (uint32_t i = n.least; i < n.most && i < n.least + 10; ++i) found |= at = match(n.parts[0], at);
        return found;
      }
      case Node::Kind::rule:
        for (uint32_t p = 0; p <= text_.size(); ++p)
          if (from >> p & 1) found |= ends_[n.rule][p];
        return found;
      default:
        for (uint32_t p = 0; p <= text_.size(); ++p)
          if (from >> p & 1) found |= match_letters(n, p);
        return found;
    }
  }
  uint32_t match_letters(const Node& n, uint32_t at) const {
    if (n.kind == Node::Kind::literal) {
      if (text_.substr(at, n.letters.size()) != n.letters) return 0;
      return behind(at + uint32_t(n.letters.size()));
    }
    if (at >= text_.size()) return 0;
    const bool in = n.letters.find(text_[at]) != n.letters.npos;
    const bool taken = n.kind == Node::Kind::any || in == (n.kind == Node::Kind::set);
    return taken ? behind(at + 1) : 0;
  }
  uint32_t behind(uint32_t at) const {
    uint32_t found = 1u << at;
    while (gaps_ && at < text_.size() && text_[at] == U' ') found |= 1u << ++at;
    return found;
  }

  std::string print(const Node& n, bool as_lark) const {
    const auto joined = [&](const char* between) {
      std::string out;
      for (const Node& part : n.parts) out += (out.empty() ? "" : between) + print(part, as_lark);
      return "(" + out + ")";
    };
    const std::string slash = as_lark ? "/" : "";
    switch (n.kind) {
      case Node::Kind::literal:
        return '"' + utf8(n.letters) + '"';
      case Node::Kind::set:
        return slash + "[" + utf8(n.letters) + "]" + slash;
      case Node::Kind::not_set:
        return slash + "[^" + utf8(n.letters) + "]" + slash;
      case Node::Kind::any:
        return as_lark ? "/./s" : ".";
      case Node::Kind::rule:
        return n.rule == 0 ? (as_lark ? "start" : "root") : fmt::format("r{}", n.rule);
      case Node::Kind::sequence:
        return joined(" ");
      case Node::Kind::choice:
        return joined(" | ");
      case Node::Kind::repeat:
        return "(" + print(n.parts[0], as_lark) + ")" + counts(n, as_lark);
    }
    return "";
  }
  std::string counts(const Node& n, bool as_lark) const {
    if (n.most == no_limit && n.least < 2) return n.least ? "+" : "*";
    if (n.least == 0 && n.most == 1) return "?";
    if (!as_lark && n.most == no_limit) return fmt::format("{{{},}}", n.least);
    if (!as_lark) return n.least == n.most ? fmt::format("{{{}}}", n.least) : fmt::format("{{{},{}}}", n.least, n.most);
    // Lark has no bound below without one above: more than a text of the test can have
    return n.least == n.most ? fmt::format("~{}", n.least)
                             : fmt::format("~{}..{}", n.least, n.most == no_limit ? 12 : n.most);
  }

  std::mt19937 random_;
  std::u32string text_;
  bool gaps_ = false;
  std::vector<std::vector<uint32_t>> ends_;  // by rule and position, as bits
};

// All texts of these letters up to a length.
inline std::vector<std::u32string> all_texts(const std::u32string& letters, size_t longest) {
  std::vector<std::u32string> all{U""};
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].size() < longest)
      for (char32_t c : letters) all.push_back(all[i] + c);
  return all;
}

// Random grammars from seed `first` on, each as `read` reads it: they have the texts, among these, that they should,
// and those that are refused have a rule that never ends. `gaps`: blanks may stand around all parts.
struct Compared {
  size_t grammars = 0, accepted = 0;  // that could be read, and texts of them
};
template <class Read>
Compared compare_random_grammars(uint32_t first, uint32_t count, const std::vector<std::u32string>& texts, bool gaps,
                                 const Read& read) {
  Compared all;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    RandomGrammar random(seed);
    std::shared_ptr<grammar::CompiledGrammar> grammar;
    try {
      grammar = compile(read(random));
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("never ends"), std::string::npos) << e.what() << "\n" << random.gbnf();
      continue;
    }
    ++all.grammars;
    for (const std::u32string& text : texts) {
      const bool should = random.matches(text, gaps);
      all.accepted += should;
      if (accepts(grammar, utf8(text)) == should) continue;
      ADD_FAILURE() << utf8(text) << (should ? " is refused by\n" : " is accepted by\n") << random.gbnf();
      return all;
    }
  }
  return all;
}

// What is wrong with a grammar as text; "none" if nothing is.
template <class Read>
std::string grammar_error(const Read& read, std::string_view text) {
  try {
    compile(read(text));
    return "none";
  } catch (const Error& e) {
    return e.what();
  }
}

inline void expect_texts(const std::shared_ptr<grammar::CompiledGrammar>& grammar,
                         std::initializer_list<std::string_view> accepted,
                         std::initializer_list<std::string_view> refused) {
  for (std::string_view text : accepted) EXPECT_TRUE(accepts(grammar, text)) << text;
  for (std::string_view text : refused) EXPECT_FALSE(accepts(grammar, text)) << text;
}

}  // namespace heddle::test
