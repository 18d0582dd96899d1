#include "grammar/grammar.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::grammar {

Symbol Grammar::terminal(Language language) {
  check(!languages.has_empty(language), "a terminal is not empty");
  const auto [found, is_new] = terminal_numbers_.try_emplace(language, uint32_t(terminals_.size()));
  if (is_new) terminals_.push_back(language);
  return {Symbol::Kind::terminal, found->second};
}

Symbol Grammar::symbol_of(Language language) {
  if (!languages.has_empty(language)) return terminal(language);
  const Symbol either = rule();
  add_choice(either, {});
  if (language != Languages::empty)
    add_choice(either, {terminal(languages.all_of({language, languages.without(Languages::empty)}))});
  return either;
}

Symbol Grammar::rule() {
  rules_.emplace_back();
  return {Symbol::Kind::rule, uint32_t(rules_.size() - 1)};
}

void Grammar::add_choice(Symbol rule, std::vector<Symbol> symbols) {
  check(rule.kind == Symbol::Kind::rule, "choices are those of rules");
  rules_[rule.number].push_back(std::move(symbols));
}

void Grammar::set_start(Symbol symbol) {
  if (symbol.kind == Symbol::Kind::terminal) {
    const Symbol start = rule();
    add_choice(start, {symbol});
    symbol = start;
  }
  start_ = symbol.number;
}

// Rules with a choice of which every symbol has a text, or the empty text: each symbol is looked at once.
std::vector<bool> Grammar::rules_where(bool empty_only) {
  std::vector<bool> found(rules_.size());
  std::vector<uint32_t> work;
  std::vector<std::vector<uint32_t>> uses(rules_.size());  // choices in which a rule stands
  std::vector<std::pair<uint32_t, uint32_t>> choices;      // rule, symbols that are still open
  auto add = [&](uint32_t rule) {
    if (!found[rule]) work.push_back(rule);
    found[rule] = true;
  };
  for (uint32_t r = 0; r < rules_.size(); ++r)
    for (const auto& choice : rules_[r]) {
      uint32_t open = 0;
      for (const Symbol& s : choice) {
        if (s.kind == Symbol::Kind::rule) uses[s.number].push_back(uint32_t(choices.size()));
        if (s.kind == Symbol::Kind::rule || empty_only || languages.is_nothing(terminals_[s.number])) ++open;
      }
      choices.push_back({r, open});
      if (open == 0) add(r);
    }
  for (size_t i = 0; i < work.size(); ++i)  // grows
    for (uint32_t c : uses[work[i]])
      if (--choices[c].second == 0) add(choices[c].first);
  return found;
}

bool Grammar::has_text(Symbol rule) { return rules_where(false)[rule.number]; }

Grammar::Parts Grammar::parts() {
  if (start_ >= rules_.size()) throw Error("a grammar without a start");
  const std::vector<bool> has_text = rules_where(false);
  Parts all{.places = {}, .choices = {}, .has_empty = rules_where(true), .start = start_};
  for (uint32_t r = 0; r < rules_.size(); ++r) {
    if (rules_[r].empty()) throw Error("rule {} has no choices", r);
    std::vector<uint32_t> firsts;
    for (const auto& choice : rules_[r]) {
      if (!std::ranges::all_of(choice, [&](const Symbol& s) {
            return s.kind == Symbol::Kind::rule ? has_text[s.number] : !languages.is_nothing(terminals_[s.number]);
          }))
        continue;
      firsts.push_back(uint32_t(all.places.size()));
      for (const Symbol& s : choice) all.places.push_back({.ends = false, .next = s, .rule = r});
      all.places.push_back({.ends = true, .next = {}, .rule = r});
    }
    all.choices.push_back(std::move(firsts));
  }
  return all;
}

}  // namespace heddle::grammar
