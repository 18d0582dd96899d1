// By Brzozowski's derivatives. Smart constructors bring a language to a normal form: with unions and intersections
// flat, sorted and without repetition, a language has finitely many derivatives.
#include "grammar/language.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "base/error.h"

namespace heddle::grammar {

Languages::Languages(const Languages* base) : base_(base) {
  if (base) {
    first_ = Language(base->nodes_.size());
    first_set_ = uint32_t(base->sets_.size());
    return;
  }
  add({.kind = Kind::nothing, .has_empty = false});
  add({.kind = Kind::empty, .has_empty = true});
  add({.kind = Kind::anything, .has_empty = true});
}

void Languages::throw_too_slow() const {
  throw Error("the grammar needs more than {} steps at once: it is too ambiguous, or its patterns have too many states",
              allowed_steps_);
}

void Languages::use_bytes(size_t bytes) {
  if (bytes > allowed_bytes_ || bytes_ > allowed_bytes_ - bytes)
    throw Error("the patterns of the grammar have too many states: {}, more than {} MiB", size() - first_,
                allowed_bytes_ >> 20);
  bytes_ += bytes;
}

size_t Languages::hash(const Node& n) {
  size_t h = size_t(n.kind) + 1;
  auto mix = [&](size_t v) { h = (h ^ v) * 0x9e3779b97f4a7c15u + (h >> 29); };
  mix(n.set);
  mix(n.least);
  mix(n.most);
  for (Language part : n.parts) mix(part);
  return h ^ h >> 32;
}

Language Languages::find(size_t hash, const Node& n) const {
  if (base_)
    if (const Language found = base_->find(hash, n); found != unknown) return found;
  if (slots_.empty()) return unknown;
  for (size_t at = hash & (slots_.size() - 1); slots_[at]; at = (at + 1) & (slots_.size() - 1))
    if (nodes_[slots_[at] - 1] == n) return first_ + slots_[at] - 1;
  return unknown;
}

void Languages::keep_slot(size_t hash, Language own) {
  size_t at = hash & (slots_.size() - 1);
  while (slots_[at]) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = own + 1;
}

bool Languages::has_text(const Node& n) const {
  auto part_has = [&](Language a) { return node(a).has_text; };
  switch (n.kind) {
    case Kind::nothing:
      return false;
    case Kind::empty:
    case Kind::anything:
    case Kind::bytes:
      return true;
    case Kind::sequence:
      return std::ranges::all_of(n.parts, part_has);
    case Kind::any_of:
      return std::ranges::any_of(n.parts, part_has);
    case Kind::repeat:
      return n.least == 0 || part_has(n.parts[0]);
    case Kind::all_of:
    case Kind::without:
    case Kind::automaton:
      return n.has_empty;
  }
  return false;
}

Language Languages::add(Node n) {
  n.has_text = n.has_empty || has_text(n);
  const size_t by = hash(n);
  if (const Language found = find(by, n); found != unknown) return found;
  use_bytes(sizeof(Node) + sizeof(Language) * (n.parts.size() + 4));  // with its slots
  const auto added = Language(size());
  nodes_.push_back(std::move(n));
  if (2 * nodes_.size() > slots_.size()) {
    slots_.assign(std::max<size_t>(64, 2 * slots_.size()), 0);
    for (Language own = 0; own < nodes_.size(); ++own) keep_slot(hash(nodes_[own]), own);
  } else {
    keep_slot(by, added - first_);
  }
  return added;
}

// --- construction ---------------------------------------------------------------------------------------------------
Language Languages::bytes(const Bytes& set) {
  if (set.none()) return nothing;
  uint32_t number = 0;
  if (const auto common = base_ ? base_->set_numbers_.find(set) : set_numbers_.end();
      base_ && common != base_->set_numbers_.end()) {
    number = common->second;
  } else {
    const auto [found, is_new] = set_numbers_.try_emplace(set, first_set_ + uint32_t(sets_.size()));
    if (is_new) sets_.push_back(set);
    number = found->second;
  }
  return add({.kind = Kind::bytes, .has_empty = false, .set = number});
}

Language Languages::text(std::string_view text) {
  Language all = empty;
  for (size_t i = text.size(); i-- > 0;) all = sequence(bytes(Bytes().set(uint8_t(text[i]))), all);
  return all;
}

// To the right: the first part is never a sequence.
Language Languages::sequence(Language first, Language second) {
  if (first == nothing || second == nothing) return nothing;
  if (first == empty) return second;
  if (second == empty) return first;
  std::vector<Language> firsts;
  for (; node(first).kind == Kind::sequence; first = node(first).parts[1]) firsts.push_back(node(first).parts[0]);
  firsts.push_back(first);
  for (; !firsts.empty(); firsts.pop_back()) {
    const Language one = firsts.back();
    if (one == anything && second == anything) continue;
    second = add({.kind = Kind::sequence, .has_empty = has_empty(one) && has_empty(second), .parts = {one, second}});
  }
  return second;
}

Language Languages::sequence(std::span<const Language> parts) {
  Language all = empty;
  for (size_t i = parts.size(); i-- > 0;) all = sequence(parts[i], all);
  return all;
}

Language Languages::any_of(std::vector<Language> choices) {
  std::vector<Language> flat;
  Bytes single;
  for (size_t i = 0; i < choices.size(); ++i) {  // grows
    const Node& n = node(choices[i]);
    if (n.kind == Kind::anything) return anything;
    if (n.kind == Kind::any_of) {
      const std::vector<Language> parts = n.parts;
      choices.insert(choices.end(), parts.begin(), parts.end());
    } else if (n.kind == Kind::bytes) {
      single |= set(n.set);
    } else if (n.kind != Kind::nothing) {
      flat.push_back(choices[i]);
    }
  }
  if (single.any()) flat.push_back(bytes(single));
  std::ranges::sort(flat);
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  // the empty text is in another choice already
  if (flat.size() > 1 && flat[0] == empty &&
      std::ranges::any_of(flat.begin() + 1, flat.end(), [&](Language a) { return has_empty(a); }))
    flat.erase(flat.begin());
  if (flat.empty()) return nothing;
  if (flat.size() == 1) return flat[0];
  const bool with_empty = std::ranges::any_of(flat, [&](Language a) { return has_empty(a); });
  return add({.kind = Kind::any_of, .has_empty = with_empty, .parts = std::move(flat)});
}

Language Languages::all_of(std::vector<Language> limits) {
  std::vector<Language> flat;
  for (size_t i = 0; i < limits.size(); ++i) {  // grows
    const Node& n = node(limits[i]);
    if (n.kind == Kind::nothing) return nothing;
    if (n.kind == Kind::all_of) {
      const std::vector<Language> parts = n.parts;
      limits.insert(limits.end(), parts.begin(), parts.end());
    } else if (n.kind != Kind::anything) {
      flat.push_back(limits[i]);
    }
  }
  std::ranges::sort(flat);
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) return anything;
  if (flat.size() == 1) return flat[0];
  const bool with_empty = std::ranges::all_of(flat, [&](Language a) { return has_empty(a); });
  if (flat[0] == empty) return with_empty ? empty : nothing;
  // one byte long: the bytes in all of them
  if (std::ranges::all_of(flat, [&](Language a) { return node(a).kind == Kind::bytes; })) {
    Bytes common = set(node(flat[0]).set);
    for (Language a : flat) common &= set(node(a).set);
    return bytes(common);
  }
  return add({.kind = Kind::all_of, .has_empty = with_empty, .parts = std::move(flat)});
}

Language Languages::without(Language a) {
  if (a == nothing) return anything;
  if (a == anything) return nothing;
  if (node(a).kind == Kind::without) return node(a).parts[0];
  return add({.kind = Kind::without, .has_empty = !has_empty(a), .parts = {a}});
}

Language Languages::repeat(Language a, uint32_t least, uint32_t most) {
  if (least > most) throw Error("a repetition of at least {} and at most {}", least, most);
  if (a == nothing) return least ? nothing : empty;
  if (most == 0 || a == empty) return empty;
  if (least == 1 && most == 1) return a;
  if (a == anything) return anything;
  if (has_empty(a)) least = 0;  // as many empty ones as need be
  const Node& inner = node(a);
  if (inner.kind == Kind::repeat && inner.least == 0 && inner.most == unbounded) return a;  // (x*)* and the like
  return add({.kind = Kind::repeat, .has_empty = least == 0, .least = least, .most = most, .parts = {a}});
}

Language Languages::accepted(Automaton automaton, uint32_t state) {
  check(automaton.next.size() == automaton.ends.size() && state < automaton.next.size(), "a state of the automaton");
  automata_.push_back(std::move(automaton));
  return in_state(uint32_t(automata_.size() - 1), state);
}

Language Languages::in_state(uint32_t automaton, uint32_t state) {
  if (state == Automaton::none) return nothing;
  return add(
      {.kind = Kind::automaton, .has_empty = automata_[automaton].ends[state], .set = automaton, .least = state});
}

std::optional<Languages::Count> Languages::counted(Language a, Language unit, Language end) const {
  if (a == end) return Count{0, 0};
  const Node& n = node(a);
  if (n.kind != Kind::sequence || n.parts[1] != end) return {};
  if (n.parts[0] == unit) return Count{1, 1};
  const Node& units = node(n.parts[0]);
  if (units.kind != Kind::repeat || units.parts[0] != unit) return {};
  return Count{units.least, units.most};
}

// --- derivatives ----------------------------------------------------------------------------------------------------
Language Languages::derive(Language a, uint8_t byte) {
  const Node& n = node(a);
  spend(1 + n.parts.size());
  switch (n.kind) {
    case Kind::nothing:
    case Kind::empty:
      return nothing;
    case Kind::anything:
      return anything;
    case Kind::bytes:
      return set(n.set)[byte] ? empty : nothing;
    case Kind::sequence: {
      const Language first = sequence(step(n.parts[0], byte), n.parts[1]);
      return has_empty(n.parts[0]) ? any_of({first, step(n.parts[1], byte)}) : first;
    }
    case Kind::any_of:
    case Kind::all_of: {
      std::vector<Language> parts;
      for (Language part : n.parts) parts.push_back(step(part, byte));
      return n.kind == Kind::any_of ? any_of(std::move(parts)) : all_of(std::move(parts));
    }
    case Kind::without:
      return without(step(n.parts[0], byte));
    case Kind::automaton:
      return in_state(n.set, automata_[n.set].next[n.least][byte]);
    case Kind::repeat: {
      // an inner text that is empty brings nothing, so the first one that takes the byte counts as the first of all
      const uint32_t most = n.most == unbounded ? unbounded : n.most - 1;
      return sequence(step(n.parts[0], byte), repeat(n.parts[0], n.least ? n.least - 1 : 0, most));
    }
  }
  return nothing;
}

namespace {

// Sets that tell apart whatever either list tells apart.
std::vector<Bytes> refine(const std::vector<Bytes>& a, const std::vector<Bytes>& b) {
  if (a.size() == 1) return b;
  if (b.size() == 1) return a;
  std::vector<Bytes> all;
  for (const Bytes& x : a)
    for (const Bytes& y : b)
      if (const Bytes both = x & y; both.any()) all.push_back(both);
  return all;
}

}  // namespace

std::vector<Bytes> Languages::find_kinds(Language a) {
  const Node& n = node(a);
  const std::vector<Bytes> all_alike{Bytes().set()};
  switch (n.kind) {
    case Kind::nothing:
    case Kind::empty:
    case Kind::anything:
      return all_alike;
    case Kind::bytes:
      if (set(n.set).all()) return all_alike;
      return {set(n.set), ~set(n.set)};
    case Kind::sequence:
      return has_empty(n.parts[0]) ? refine(kinds(n.parts[0]), kinds(n.parts[1])) : kinds(n.parts[0]);
    case Kind::automaton: {
      std::map<uint32_t, Bytes> by_next;
      for (size_t byte = 0; byte < 256; ++byte) by_next[automata_[n.set].next[n.least][byte]].set(byte);
      std::vector<Bytes> all;
      for (const auto& [next, bytes] : by_next) all.push_back(bytes);
      return all;
    }
    case Kind::any_of:
    case Kind::all_of:
    case Kind::without:
    case Kind::repeat: {
      std::vector<Bytes> all = all_alike;
      for (Language part : n.parts) {
        const std::vector<Bytes>& others = kinds(part);
        spend(all.size() * others.size());
        all = refine(all, others);
      }
      return all;
    }
  }
  return all_alike;
}

const Languages::Kinds* Languages::shared_kinds(std::vector<Bytes> sets) {
  size_t hash = 0;
  for (const Bytes& one : sets) hash = hash * 0x9e3779b97f4a7c15u + std::hash<Bytes>()(one);
  for (auto [known, end] = kinds_.equal_range(hash); known != end; ++known)
    if (known->second->sets == sets) return known->second.get();
  use_bytes(sizeof(Kinds) + sets.size() * sizeof(Bytes));
  auto added = std::make_unique<Kinds>();
  for (size_t k = 0; k < sets.size(); ++k)
    for (size_t byte = 0; byte < 256; ++byte)
      if (sets[k][byte]) added->of[byte] = uint8_t(k);
  added->sets = std::move(sets);
  return kinds_.emplace(hash, std::move(added))->second.get();
}

Languages::Moves& Languages::moves(Language a) {
  if (is_common(a)) return *base_->moves_[a];
  const Language own = a - first_;
  if (own >= moves_.size()) moves_.resize(nodes_.size());
  if (moves_[own]) return *moves_[own];
  auto found = std::make_unique<Moves>();
  found->kinds = shared_kinds(find_kinds(a));
  const size_t kinds = found->kinds->sets.size();
  use_bytes(sizeof(Moves) + kinds * sizeof(Language) + 64);  // with what the three allocations take
  found->after.assign(kinds, unknown);
  found->is_resolved.assign(kinds, false);
  if (own >= moves_.size()) moves_.resize(nodes_.size());
  moves_[own] = std::move(found);
  return *moves_[own];
}

const std::vector<Bytes>& Languages::kinds(Language a) { return moves(a).kinds->sets; }

Language Languages::step(Language a, uint8_t byte) {
  Moves& m = moves(a);  // stays where it is
  Language& next = m.after[m.kinds->of[byte]];
  if (next == unknown) next = derive(a, byte);
  return next;
}

Language Languages::after(Language a, uint8_t byte) {
  Moves& m = moves(a);
  const uint8_t kind = m.kinds->of[byte];
  if (m.is_resolved[kind]) return m.after[kind];
  Language next = step(a, byte);
  // one too large to be sure of is gone on with: grammars with it are refused when they are compiled
  if (find_nothing(next, max_searched).value_or(false)) next = nothing;
  m.after[kind] = next;
  m.is_resolved[kind] = true;
  return next;
}

Language Languages::after(Language a, std::string_view text) {
  for (char c : text) a = after(a, uint8_t(c));
  return a;
}

bool Languages::is_nothing(Language a, size_t most) {
  const auto found = find_nothing(a, most);
  if (!found) throw Error("a language has more than {} states", most);
  return *found;
}

// Depth first, by the states that can be reached: none has a text. Quotation marks come first, since they end most
// languages in which this is in question.
std::optional<bool> Languages::find_nothing(Language a, size_t most) {
  if (node(a).has_text) return false;
  if (a == nothing) return true;
  auto known = [&](Language x) -> int8_t {
    if (node(x).has_text) return 0;
    if (is_common(x)) return base_->known_nothing_[x];
    return x - first_ < known_nothing_.size() ? known_nothing_[x - first_] : int8_t(-1);
  };
  auto set_known = [&](Language x, bool is) {
    if (is_common(x)) return;
    if (x - first_ >= known_nothing_.size()) known_nothing_.resize(nodes_.size(), -1);
    known_nothing_[x - first_] = is;
  };
  if (known(a) >= 0) return known(a) == 1;
  struct Reached {
    Language at;
    size_t from;  // in the list
  };
  std::vector<Reached> reached{{a, 0}};
  std::vector<size_t> open{0};
  std::unordered_set<Language> seen{a};
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    if (reached.size() > most) return {};
    const Kinds& kinds = *moves(reached[at].at).kinds;
    const size_t count = kinds.sets.size();
    spend(count);
    for (size_t k = 0; k <= count; ++k) {
      // the kind of the quotation mark is last, and so is looked at first
      if (k < count && k == kinds.of['"']) continue;
      const size_t kind = k < count ? k : kinds.of['"'];
      const Language next = step(reached[at].at, uint8_t(kinds.sets[kind]._Find_first()));
      if (known(next) == 0) {
        for (size_t i = at;; i = reached[i].from) {
          set_known(reached[i].at, false);
          if (i == 0) return false;
        }
      }
      if (next == nothing || known(next) == 1 || !seen.insert(next).second) continue;
      open.push_back(reached.size());
      reached.push_back({next, at});
    }
  }
  for (const Reached& r : reached) set_known(r.at, true);
  return true;
}

// Everything that can follow from what is here.
void Languages::complete() {
  for (Language a = 0; a < size(); ++a) {  // grows
    const std::vector<Bytes>& sets = kinds(a);
    for (const Bytes& one : sets) after(a, uint8_t(one._Find_first()));
    is_nothing(a);
  }
  moves_.resize(size());
  known_nothing_.resize(size(), -1);
}

}  // namespace heddle::grammar
