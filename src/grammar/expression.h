// Grammars as people write them: for each rule an expression over characters and other rules. What is regular in them
// becomes terminals as large as possible, since a parser is slower than an automaton.
#pragma once
#include <string>
#include <vector>

#include "grammar/code_points.h"
#include "grammar/grammar.h"

namespace heddle::grammar {

struct Expression {
  enum class Kind : uint8_t { language, rule, sequence, choice, repeat };
  // How many tokens its states allow: a string's inside allows most of a vocabulary, and is worth a terminal that all
  // rules share, so that its masks are found once.
  enum class Width : uint8_t { narrow, wide_set, wide_loop };

  Kind kind = Kind::sequence;  // without parts: the empty text
  Language language = Languages::empty;
  Width width = Width::narrow;   // of a language
  size_t size = 1;               // of a language: roughly the parts that it was written with
  uint64_t counts = 0;           // of a language: what its repetitions count to, 0 without any
  uint32_t rule = 0;             // in the list of rules
  uint32_t least = 0, most = 0;  // repeat, of one part
  std::vector<Expression> parts{};

  static Expression of_text(Languages& all, std::string_view text);
  static Expression of_set(Languages& all, const CodePoints& set);  // one of these, as UTF-8
  static Expression of_language(Language language, Width width, size_t size, uint64_t counts = 0);
  static Expression of_rule(uint32_t rule);
  static Expression sequence_of(std::vector<Expression> parts);
  static Expression choice_of(std::vector<Expression> parts);
  static Expression repeated(Expression part, uint32_t least, uint32_t most);
};

constexpr size_t wide_set_size = 64;  // code points: more than the letters of an alphabet, fewer than any complement
constexpr uint32_t wide_loop_count = 16;
// What nested repetitions may count to together, such as 100 times 100: a text can be in that many states of them at
// once, and each byte leads them all on.
constexpr uint64_t max_nested_counts = 20'000;

// What a repetition of `least` to `most` times counts to, with those that are in it.
uint64_t nested_counts(uint64_t inner, uint32_t least, uint32_t most);

struct NamedExpression {
  std::string name;  // for errors
  Expression body;
};

// Adds those that `start` needs, and gives the symbol that stands for it. An Error for a rule that never ends, and for
// one that is too large.
Symbol add_rules(Grammar& grammar, const std::vector<NamedExpression>& rules, uint32_t start);

}  // namespace heddle::grammar
