#include "grammar/grammar.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::grammar {

Symbol Grammar::terminal(Language language) {
  check(!languages.has_empty(language), "a terminal is not empty");
  const auto found = std::ranges::find(terminals_, language);
  if (found == terminals_.end()) terminals_.push_back(language);
  return {Symbol::Kind::terminal, uint32_t(std::ranges::find(terminals_, language) - terminals_.begin())};
}

Symbol Grammar::rule() {
  rules_.emplace_back();
  return {Symbol::Kind::rule, uint32_t(rules_.size() - 1)};
}

void Grammar::add_choice(Symbol rule, std::vector<Symbol> symbols) {
  check(rule.kind == Symbol::Kind::rule, "choices are those of rules");
  rules_[rule.number].push_back(std::move(symbols));
}

Grammar::Parts Grammar::parts() const {
  if (start_ >= rules_.size()) throw Error("a grammar without a start");
  Parts all{.places = {}, .choices = {}, .has_empty = std::vector<bool>(rules_.size()), .start = start_};
  for (uint32_t r = 0; r < rules_.size(); ++r) {
    if (rules_[r].empty()) throw Error("rule {} has no choices", r);
    std::vector<uint32_t> firsts;
    for (const auto& choice : rules_[r]) {
      firsts.push_back(uint32_t(all.places.size()));
      for (const Symbol& s : choice) all.places.push_back({.ends = false, .next = s, .rule = r});
      all.places.push_back({.ends = true, .next = {}, .rule = r});
    }
    all.choices.push_back(std::move(firsts));
  }
  // until nothing changes: a rule has the empty text if all symbols of a choice have
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t r = 0; r < rules_.size(); ++r) {
      if (all.has_empty[r]) continue;
      all.has_empty[r] = std::ranges::any_of(rules_[r], [&](const auto& choice) {
        return std::ranges::all_of(
            choice, [&](const Symbol& s) { return s.kind == Symbol::Kind::rule && all.has_empty[s.number]; });
      });
      changed = changed || all.has_empty[r];
    }
  }
  return all;
}

}  // namespace heddle::grammar
