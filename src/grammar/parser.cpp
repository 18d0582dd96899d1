#include "grammar/parser.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::grammar {

namespace {

// The numbers of items in a list, by their contents.
class ItemTable {
 public:
  template <typename Item>
  bool insert(std::vector<Item>& items, const Item& item) {
    if (2 * (items.size() + 1) > slots_.size()) grow(items);
    uint32_t& slot = find(items, item);
    if (slot) return false;
    items.push_back(item);
    slot = uint32_t(items.size());
    return true;
  }

 private:
  template <typename Item>
  uint32_t& find(const std::vector<Item>& items, const Item& item) {
    size_t at = (item.place * 0x9e3779b1u ^ (size_t(item.origin) >> 4) * 0x85ebca6bu) & (slots_.size() - 1);
    while (slots_[at] && !(items[slots_[at] - 1] == item)) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  template <typename Item>
  void grow(const std::vector<Item>& items) {
    slots_.assign(std::max<size_t>(32, slots_.size() * 4), 0);
    for (uint32_t i = 0; i < items.size(); ++i) find(items, items[i]) = i + 1;
  }
  std::vector<uint32_t> slots_;  // 0, or the number plus one
};

}  // namespace

CompiledGrammar::CompiledGrammar(Grammar grammar, const ParseLimits& limits)
    : grammar_(std::move(grammar)), parts_(grammar_.parts()), limits_(limits) {
  Languages& languages = grammar_.languages;
  compiled_bytes_ = languages.bytes();
  languages.allow_bytes(compiled_bytes_ + limits_.added_bytes);
  languages.allow_steps(Languages::no_limit);
}

class Position::LookedAt {
 public:
  LookedAt(const Position& at, size_t taken)
      : languages_(at.grammar_->languages()), max_(at.grammar_->limits().items), taken_(taken) {}
  void add(size_t items) {
    count_ += items;
    if (count_ > max_)
      throw Error("the grammar is too ambiguous after {} bytes: more than {} ways to go on", taken_, max_);
    languages_.spend(items);
  }
  size_t taken() const { return taken_; }  // bytes, with this one

 private:
  Languages& languages_;
  size_t max_, taken_, count_ = 0;
};

// One after the other: a set refers to the one before, and so on for as long as the text is.
Position::Set::~Set() {
  if (kept) *kept -= bytes;
  std::vector<SetPointer> open = std::move(origins);
  for (auto& [rule, top] : tops) open.push_back(std::move(top.origin));
  while (!open.empty()) {
    const SetPointer last = std::move(open.back());
    open.pop_back();
    if (!last || last.use_count() > 1) continue;
    auto& set = const_cast<Set&>(*last);  // which is about to go
    std::ranges::move(set.origins, std::back_inserter(open));
    set.origins.clear();
    for (auto& [rule, top] : set.tops) open.push_back(std::move(top.origin));
    set.tops.clear();
  }
}

bool Position::Set::is_like(const Set& other) const {
  return ends == other.ends && std::ranges::equal(items, other.items, [&](const Item& a, const Item& b) {
           return a.place == b.place && (a.origin == b.origin || (a.origin == this && b.origin == &other));
         });
}

std::span<const std::pair<uint32_t, uint32_t>> Position::Set::waiting_for(uint32_t rule,
                                                                          const Grammar::Parts& parts) const {
  if (!is_indexed) {
    for (uint32_t i = 0; i < items.size(); ++i)
      if (const Grammar::Place& place = parts.places[items[i].place];
          !place.ends && place.next.kind == Symbol::Kind::rule)
        waiting.push_back({place.next.number, i});
    std::ranges::sort(waiting);
    is_indexed = true;
  }
  const auto rule_of = &std::pair<uint32_t, uint32_t>::first;
  return {std::ranges::lower_bound(waiting, rule, {}, rule_of), std::ranges::upper_bound(waiting, rule, {}, rule_of)};
}

// If just one item waits for the rule and ends with it, and so on: the end of the last one. Without this, each item of
// a list of at most n would end all before it.
std::optional<Position::Item> Position::top(const Set& set, uint32_t rule, LookedAt& looked_at) const {
  const Grammar::Parts& parts = grammar_->parts();
  std::optional<Top> found;
  std::vector<std::pair<const Set*, uint32_t>> passed;
  const Set* at = &set;
  while (at) {
    const auto known = std::ranges::find(at->tops, rule, &std::pair<uint32_t, Top>::first);
    if (known != at->tops.end()) {
      found = known->second;
      break;
    }
    const auto waiting = at->waiting_for(rule, parts);
    if (waiting.size() != 1) break;
    const Item& item = at->items[waiting[0].second];
    const Item behind{item.place + 1, item.origin};
    // one that began here would make the set its own owner
    if (!parts.places[behind.place].ends || !item.origin || item.origin == at) break;
    found = Top{behind, item.origin->shared_from_this()};
    passed.push_back({at, rule});
    rule = parts.places[behind.place].rule;
    at = item.origin;
  }
  looked_at.add(passed.size());
  for (const auto& [passed_set, passed_rule] : passed) passed_set->tops.push_back({passed_rule, *found});
  if (!found) return {};
  return found->item;
}

// Items that follow from the kernel: the beginnings of rules that are expected, and what goes on behind rules that have
// ended. A rule with the empty text is also gone past when it is expected, so that its end need not be waited for.
Position::SetPointer Position::closed(const std::vector<Item>& kernel, LookedAt& looked_at) const {
  const Grammar::Parts& parts = grammar_->parts();
  auto set = std::make_shared<Set>();
  const Set* self = set.get();
  std::vector<Item>& items = set->items;
  ItemTable seen, seen_ended;
  std::vector<bool> expected(parts.choices.size());
  std::vector<Item> ended;  // rules, by where they began
  for (const Item& item : kernel) seen.insert(items, item);
  for (size_t i = 0; i < items.size(); ++i) {  // grows
    const Item item = items[i];
    looked_at.add(1);
    const Grammar::Place& place = parts.places[item.place];
    if (place.ends) {
      // the start; and a rule that is empty here, which was gone past
      if (!item.origin || item.origin == self) continue;
      if (!seen_ended.insert(ended, Item{place.rule, item.origin})) continue;
      // those that waited for this rule where it began; the sets where they began are in that set's care
      if (const auto last = top(*item.origin, place.rule, looked_at)) {
        seen.insert(items, *last);
        continue;
      }
      const auto waiting = item.origin->waiting_for(place.rule, parts);
      looked_at.add(waiting.size());
      for (const auto& [rule, number] : waiting) {
        const Item& w = item.origin->items[number];
        seen.insert(items, Item{w.place + 1, w.origin});
      }
      continue;
    }
    if (place.next.kind != Symbol::Kind::rule) continue;
    const uint32_t rule = place.next.number;
    if (parts.has_empty[rule]) seen.insert(items, Item{item.place + 1, item.origin});
    if (expected[rule]) continue;
    expected[rule] = true;
    for (uint32_t first : parts.choices[rule]) seen.insert(items, Item{first, self});
  }
  // ends have done their work, but for that of the start
  set->ends = std::ranges::any_of(items, [&](const Item& i) { return !i.origin && parts.places[i.place].ends; });
  std::erase_if(items, [&](const Item& i) { return parts.places[i.place].ends; });
  keep(*set, looked_at);
  return set;
}

// With the sets that its items refer to.
void Position::keep(Set& set, const LookedAt& looked_at) const {
  set.items.shrink_to_fit();
  std::vector<const Set*> used;
  for (const Item& i : set.items)
    if (i.origin && i.origin != &set && (used.empty() || used.back() != i.origin)) used.push_back(i.origin);
  std::ranges::sort(used);
  used.erase(std::unique(used.begin(), used.end()), used.end());
  set.origins.reserve(used.size());
  for (const Set* origin : used) set.origins.push_back(origin->shared_from_this());
  // an item and its entry in the index
  const size_t bytes = sizeof(Set) + set.items.size() * (sizeof(Item) + 8) + used.size() * sizeof(SetPointer);
  const size_t max = grammar_->limits().set_bytes;
  if (*kept_ + bytes > max)
    throw Error("the grammar is too ambiguous after {} bytes: the ways to go on need more than {} MiB",
                looked_at.taken(), max >> 20);
  *kept_ += bytes;
  set.bytes = bytes;
  set.kept = kept_;
}

void Position::begin_terminals(const SetPointer& set, std::vector<Live>& live) const {
  std::vector<uint32_t> terminals;
  for (const Item& item : set->items) {
    const Grammar::Place& place = grammar_->parts().places[item.place];
    if (!place.ends && place.next.kind == Symbol::Kind::terminal) terminals.push_back(place.next.number);
  }
  std::ranges::sort(terminals);
  terminals.erase(std::unique(terminals.begin(), terminals.end()), terminals.end());
  for (uint32_t t : terminals) add({set, t, grammar_->grammar().terminals()[t]}, live);
}

void Position::add(Live added, std::vector<Live>& live) const {
  if (!repeats_ || std::ranges::find(live, added) == live.end()) live.push_back(std::move(added));
}

Position::Position(std::shared_ptr<CompiledGrammar> grammar)
    : grammar_(std::move(grammar)), kept_(std::make_shared<std::atomic<size_t>>(0)) {
  // the start rule's beginnings have no origin: nothing waits for it
  const Grammar::Parts& parts = grammar_->parts();
  std::vector<Item> kernel;
  for (uint32_t first : parts.choices[parts.start]) kernel.push_back({first, nullptr});
  LookedAt looked_at(*this, 0);
  const auto set = closed(kernel, looked_at);
  may_end_ = set->ends;
  begin_terminals(set, live_);
}

void Position::end_terminal(const Live& l, Ended& ended, LookedAt& looked_at) const {
  looked_at.add(l.set->items.size());
  for (const Item& item : l.set->items)
    if (const Grammar::Place& place = grammar_->parts().places[item.place];
        !place.ends && place.next == Symbol{Symbol::Kind::terminal, l.terminal})
      ended.push_back({item.place + 1, item.origin});
}

bool Position::go_on(const Ended& ended, std::vector<Live> live, LookedAt& looked_at) {
  bool ends = false;
  if (!ended.empty()) {
    SetPointer set = closed(ended, looked_at);
    // texts of a repetition may end anywhere, such as words without a space between: what follows is always the same
    const auto same = std::ranges::find_if(live, [&](const Live& l) { return l.set->is_like(*set); });
    if (same != live.end()) {
      set = same->set;
      repeats_ = true;
    }
    ends = set->ends;
    begin_terminals(set, live);
  }
  if (live.empty() && !ends) return false;
  live_ = std::move(live);
  may_end_ = ends;
  return true;
}

void Position::step(uint8_t byte, std::vector<Live>& live, Ended& ended, LookedAt& looked_at) const {
  looked_at.add(live_.size());
  Languages& languages = grammar_->languages();
  for (const Live& l : live_) {
    const Language next = languages.after(l.state, byte);
    if (next == Languages::nothing) continue;
    if (languages.has_empty(next)) end_terminal(l, ended, looked_at);
    if (next != Languages::empty) add({l.set, l.terminal, next}, live);
  }
}

bool Position::take(uint8_t byte) {
  std::vector<Live> live;
  Ended ended;
  LookedAt looked_at(*this, taken_ + 1);
  step(byte, live, ended, looked_at);
  if (!go_on(ended, std::move(live), looked_at)) return false;
  ++taken_;
  return true;
}

Position Position::ended(size_t live) const {
  Position next(*this, taken_);
  Ended ended;
  LookedAt looked_at(*this, taken_);
  end_terminal(live_[live], ended, looked_at);
  next.go_on(ended, {}, looked_at);
  return next;
}

bool Position::can_take(uint8_t byte) const {
  return std::ranges::any_of(
      live_, [&](const Live& l) { return grammar_->languages().after(l.state, byte) != Languages::nothing; });
}

Position Position::after(uint8_t byte) const {
  Position next(*this, taken_ + 1);
  std::vector<Live> live;
  Ended ended;
  LookedAt looked_at(*this, next.taken_);
  step(byte, live, ended, looked_at);
  next.go_on(ended, std::move(live), looked_at);
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
