// Context-free grammars of bytes: rules over terminals, which are regular languages.
#pragma once
#include <unordered_map>
#include <vector>

#include "grammar/language.h"

namespace heddle::grammar {

struct Symbol {
  enum class Kind : uint8_t { terminal, rule };
  Kind kind;
  uint32_t number;
  auto operator<=>(const Symbol&) const = default;
};

class Grammar {
 public:
  // Of its languages, until it is compiled.
  static constexpr uint64_t max_steps = 200'000'000;
  static constexpr size_t max_bytes = 256u << 20;
  Grammar() {
    languages.allow_steps(max_steps);
    languages.allow_bytes(max_bytes);
  }

  // Terminals have no empty text: what may be left out is a choice of rules.
  Symbol terminal(Language language);
  Symbol symbol_of(Language language);  // a terminal, or a rule if the language has the empty text
  Symbol rule();                        // without choices, which follow
  void add_choice(Symbol rule, std::vector<Symbol> symbols);
  void set_start(Symbol symbol);  // for a terminal, a rule is added

  // For the parser: the choices of all rules one after the other, each with a place before each symbol and one at its
  // end.
  struct Place {
    bool ends;
    Symbol next;    // unless it ends
    uint32_t rule;  // that the choice is of
  };
  struct Parts {
    std::vector<Place> places;
    std::vector<std::vector<uint32_t>> choices;  // of each rule: the first place
    std::vector<bool> has_empty;                 // rules with the empty text
    uint32_t start;
  };
  // Choices that no text can go through are left out. An Error for a rule without choices, and without a start.
  Parts parts();
  bool has_text(Symbol rule);  // any at all

  Languages languages;
  const std::vector<Language>& terminals() const { return terminals_; }

 private:
  std::vector<bool> rules_where(bool empty_only);

  std::vector<Language> terminals_;
  std::unordered_map<Language, uint32_t> terminal_numbers_;
  std::vector<std::vector<std::vector<Symbol>>> rules_;
  uint32_t start_ = 0xffffffff;
};

// A part of a grammar as a grammar of its own: grammar_of(add_gbnf, text).
template <class Add, class Input>
Grammar grammar_of(Add add, const Input& input) {
  Grammar grammar;
  grammar.set_start(add(grammar, input));
  return grammar;
}

}  // namespace heddle::grammar
