#include "grammar/parser.h"

#include <algorithm>
#include <set>

namespace heddle::grammar {

// Items that follow from the kernel: the beginnings of rules that are expected, and what goes on behind rules that have
// ended. A rule with the empty text is also gone past when it is expected, so that its end need not be waited for.
std::shared_ptr<const Position::Set> Position::closed(std::vector<Item> kernel,
                                                      std::vector<std::shared_ptr<const Set>> origins) const {
  const Grammar::Parts& parts = grammar_->parts();
  auto set = std::make_shared<Set>();
  const Set* self = set.get();
  std::set<Item> seen(kernel.begin(), kernel.end());
  std::vector<Item> work(seen.begin(), seen.end());
  std::vector<bool> expected(parts.choices.size());
  auto add = [&](Item item) {
    if (seen.insert(item).second) work.push_back(item);
  };
  for (size_t i = 0; i < work.size(); ++i) {
    const Item item = work[i];
    const Grammar::Place& place = parts.places[item.place];
    if (place.ends) {
      if (!item.origin) continue;  // the start
      // those that waited for this rule where it began; the sets where they began are in that set's care
      const bool here = item.origin == self;
      if (!here) origins.insert(origins.end(), item.origin->origins.begin(), item.origin->origins.end());
      const std::vector<Item> waiting = here ? std::vector<Item>(seen.begin(), seen.end()) : item.origin->items;
      for (const Item& w : waiting) {
        const Grammar::Place& before = parts.places[w.place];
        if (!before.ends && before.next == Symbol{Symbol::Kind::rule, place.rule}) add({w.place + 1, w.origin});
      }
      continue;
    }
    if (place.next.kind != Symbol::Kind::rule) continue;
    const uint32_t rule = place.next.number;
    if (parts.has_empty[rule]) add({item.place + 1, item.origin});
    if (expected[rule]) continue;
    expected[rule] = true;
    for (uint32_t first : parts.choices[rule]) add({first, self});
  }
  set->items.assign(seen.begin(), seen.end());
  // only sets that an item still refers to are kept
  for (const auto& origin : origins)
    if (std::ranges::find(set->origins, origin) == set->origins.end() &&
        std::ranges::any_of(set->items, [&](const Item& i) { return i.origin == origin.get(); }))
      set->origins.push_back(origin);
  return set;
}

void Position::begin_terminals(const std::shared_ptr<const Set>& set, std::vector<Live>& live) const {
  std::vector<uint32_t> terminals;
  for (const Item& item : set->items) {
    const Grammar::Place& place = grammar_->parts().places[item.place];
    if (!place.ends && place.next.kind == Symbol::Kind::terminal) terminals.push_back(place.next.number);
  }
  std::ranges::sort(terminals);
  terminals.erase(std::unique(terminals.begin(), terminals.end()), terminals.end());
  for (uint32_t t : terminals) live.push_back({set, t, grammar_->grammar().terminals()[t]});
}

Position::Position(std::shared_ptr<CompiledGrammar> grammar) : grammar_(std::move(grammar)) {
  // the start rule's beginnings have no origin: nothing waits for it
  const Grammar::Parts& parts = grammar_->parts();
  std::vector<Item> kernel;
  for (uint32_t first : parts.choices[parts.start]) kernel.push_back({first, nullptr});
  const auto set = closed(std::move(kernel), {});
  may_end_ =
      std::ranges::any_of(set->items, [&](const Item& i) { return i.origin == nullptr && parts.places[i.place].ends; });
  begin_terminals(set, live_);
}

void Position::end_terminal(const Live& l, Ended& ended) const {
  for (const Item& item : l.set->items)
    if (const Grammar::Place& place = grammar_->parts().places[item.place];
        !place.ends && place.next == Symbol{Symbol::Kind::terminal, l.terminal})
      ended.kernel.push_back({item.place + 1, item.origin});
  ended.origins.push_back(l.set);
  ended.origins.insert(ended.origins.end(), l.set->origins.begin(), l.set->origins.end());
}

bool Position::go_on(Ended ended, std::vector<Live> live) {
  bool ends = false;
  if (!ended.kernel.empty()) {
    const auto set = closed(std::move(ended.kernel), std::move(ended.origins));
    ends = std::ranges::any_of(
        set->items, [&](const Item& i) { return i.origin == nullptr && grammar_->parts().places[i.place].ends; });
    begin_terminals(set, live);
  }
  if (live.empty() && !ends) return false;
  live_ = std::move(live);
  may_end_ = ends;
  return true;
}

bool Position::take(uint8_t byte) {
  Languages& languages = grammar_->languages();
  std::vector<Live> live;
  Ended ended;
  for (const Live& l : live_) {
    const Language next = languages.after(l.state, byte);
    if (next == Languages::nothing) continue;
    if (languages.has_empty(next)) end_terminal(l, ended);
    if (next != Languages::empty) live.push_back({l.set, l.terminal, next});
  }
  return go_on(std::move(ended), std::move(live));
}

Position Position::ended(size_t live) const {
  Position next = *this;
  Ended ended;
  end_terminal(live_[live], ended);
  next.live_.clear();
  next.may_end_ = false;
  next.go_on(std::move(ended), {});
  return next;
}

bool Position::take(std::string_view text) {
  Position next = *this;
  for (char c : text)
    if (!next.take(uint8_t(c))) return false;
  *this = std::move(next);
  return true;
}

Bytes Position::next_bytes() const {
  Bytes all;
  Languages& languages = grammar_->languages();
  for (const Live& l : live_) {
    for (const Bytes& kind : languages.kinds(l.state))
      if (languages.after(l.state, uint8_t(kind._Find_first())) != Languages::nothing) all |= kind;
  }
  return all;
}

}  // namespace heddle::grammar
