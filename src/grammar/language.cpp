// By Brzozowski's derivatives. Smart constructors bring a language to a normal form: with unions and intersections
// flat, sorted and without repetition, a language has finitely many derivatives.
#include "grammar/language.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace heddle::grammar {

Languages::Languages() {
  nodes_ = {{.kind = Kind::nothing, .has_empty = false},
            {.kind = Kind::empty, .has_empty = true},
            {.kind = Kind::anything, .has_empty = true}};
  for (Language i = 0; i < nodes_.size(); ++i) numbers_.emplace(nodes_[i], i);
}

Language Languages::add(Node node) {
  const auto [found, is_new] = numbers_.try_emplace(node, Language(nodes_.size()));
  if (is_new) nodes_.push_back(std::move(node));
  return found->second;
}

// --- construction ---------------------------------------------------------------------------------------------------
Language Languages::bytes(const Bytes& set) {
  if (set.none()) return nothing;
  const auto [found, is_new] = set_numbers_.try_emplace(set.to_string(), uint32_t(sets_.size()));
  if (is_new) sets_.push_back(set);
  return add({.kind = Kind::bytes, .has_empty = false, .set = found->second});
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
  if (first == anything && second == anything) return anything;
  if (nodes_[first].kind == Kind::sequence) {
    const std::vector<Language> parts = nodes_[first].parts;
    return sequence(parts[0], sequence(parts[1], second));
  }
  return add({.kind = Kind::sequence, .has_empty = has_empty(first) && has_empty(second), .parts = {first, second}});
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
    const Node& n = nodes_[choices[i]];
    if (n.kind == Kind::anything) return anything;
    if (n.kind == Kind::any_of) {
      const std::vector<Language> parts = n.parts;
      choices.insert(choices.end(), parts.begin(), parts.end());
    } else if (n.kind == Kind::bytes) {
      single |= sets_[n.set];
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
    const Node& n = nodes_[limits[i]];
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
  if (std::ranges::all_of(flat, [&](Language a) { return nodes_[a].kind == Kind::bytes; })) {
    Bytes common = sets_[nodes_[flat[0]].set];
    for (Language a : flat) common &= sets_[nodes_[a].set];
    return bytes(common);
  }
  return add({.kind = Kind::all_of, .has_empty = with_empty, .parts = std::move(flat)});
}

Language Languages::without(Language a) {
  if (a == nothing) return anything;
  if (a == anything) return nothing;
  if (nodes_[a].kind == Kind::without) return nodes_[a].parts[0];
  return add({.kind = Kind::without, .has_empty = !has_empty(a), .parts = {a}});
}

Language Languages::repeat(Language a, uint32_t least, uint32_t most) {
  if (least > most) throw Error("a repetition of at least {} and at most {}", least, most);
  if (a == nothing) return least ? nothing : empty;
  if (most == 0 || a == empty) return empty;
  if (least == 1 && most == 1) return a;
  if (a == anything) return anything;
  if (has_empty(a)) least = 0;  // as many empty ones as need be
  const Node& inner = nodes_[a];
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

// --- derivatives ----------------------------------------------------------------------------------------------------
Language Languages::derive(Language a, uint8_t byte) {
  const Node n = nodes_[a];  // a copy: others are added
  switch (n.kind) {
    case Kind::nothing:
    case Kind::empty:
      return nothing;
    case Kind::anything:
      return anything;
    case Kind::bytes:
      return sets_[n.set][byte] ? empty : nothing;
    case Kind::sequence: {
      const Language first = sequence(after(n.parts[0], byte), n.parts[1]);
      return has_empty(n.parts[0]) ? any_of({first, after(n.parts[1], byte)}) : first;
    }
    case Kind::any_of:
    case Kind::all_of: {
      std::vector<Language> parts;
      for (Language part : n.parts) parts.push_back(after(part, byte));
      return n.kind == Kind::any_of ? any_of(std::move(parts)) : all_of(std::move(parts));
    }
    case Kind::without:
      return without(after(n.parts[0], byte));
    case Kind::automaton:
      return in_state(n.set, automata_[n.set].next[n.least][byte]);
    case Kind::repeat: {
      // an inner text that is empty brings nothing, so the first one that takes the byte counts as the first of all
      const uint32_t most = n.most == unbounded ? unbounded : n.most - 1;
      return sequence(after(n.parts[0], byte), repeat(n.parts[0], n.least ? n.least - 1 : 0, most));
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
  const Node n = nodes_[a];
  const std::vector<Bytes> all_alike{Bytes().set()};
  switch (n.kind) {
    case Kind::nothing:
    case Kind::empty:
    case Kind::anything:
      return all_alike;
    case Kind::bytes:
      if (sets_[n.set].all()) return all_alike;
      return {sets_[n.set], ~sets_[n.set]};
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
      for (Language part : n.parts) all = refine(all, kinds(part));
      return all;
    }
  }
  return all_alike;
}

Languages::Moves& Languages::moves(Language a) {
  if (a >= moves_.size()) moves_.resize(std::max<size_t>(nodes_.size(), a + 1));
  if (moves_[a]) return *moves_[a];
  auto found = std::make_unique<Moves>();
  found->kinds = find_kinds(a);
  found->after.assign(found->kinds.size(), unknown);
  for (size_t k = 0; k < found->kinds.size(); ++k)
    for (size_t byte = 0; byte < 256; ++byte)
      if (found->kinds[k][byte]) found->of[byte] = uint16_t(k);
  if (a >= moves_.size()) moves_.resize(nodes_.size());
  moves_[a] = std::move(found);
  return *moves_[a];
}

const std::vector<Bytes>& Languages::kinds(Language a) { return moves(a).kinds; }

Language Languages::after(Language a, uint8_t byte) {
  Moves& m = moves(a);
  const uint16_t kind = m.of[byte];
  if (m.after[kind] == unknown) {
    const Language next = derive(a, byte);
    moves(a).after[kind] = next;
    return next;
  }
  return m.after[kind];
}

Language Languages::after(Language a, std::string_view text) {
  for (char c : text) a = after(a, uint8_t(c));
  return a;
}

// By the states that can be reached: none has the empty text.
bool Languages::is_nothing(Language a, size_t most) {
  if (a < known_nothing_.size() && known_nothing_[a] >= 0) return known_nothing_[a];
  std::vector<Language> reached{a};
  std::vector<bool> seen;
  bool found = false;
  for (size_t i = 0; i < reached.size() && !found; ++i) {
    const Language at = reached[i];
    if (has_empty(at) || (at < known_nothing_.size() && known_nothing_[at] == 0)) {
      found = true;
      break;
    }
    if (reached.size() > most) throw Error("a language has more than {} states", most);
    const std::vector<Bytes> all = kinds(at);
    for (const Bytes& kind : all) {
      const Language next = after(at, uint8_t(kind._Find_first()));
      if (next >= seen.size()) seen.resize(nodes_.size());
      if (!seen[next]) reached.push_back(next);
      seen[next] = true;
    }
  }
  known_nothing_.resize(nodes_.size(), -1);
  // without one that has a text, none of the states has
  for (Language at : reached)
    if (!found || at == a) known_nothing_[at] = !found;
  return !found;
}

}  // namespace heddle::grammar
