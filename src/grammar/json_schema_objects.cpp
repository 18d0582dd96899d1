// Objects: the names of the schema in their order, then others.
#include <algorithm>

#include "base/error.h"
#include "grammar/json_schema_writer.h"

namespace heddle::grammar {

struct SchemaWriter::Members {
  struct Named {
    std::string name;
    Literals value;
    bool required, never;
    uint32_t meets;  // which of the shape's `members` it may be, by bits
  };
  std::vector<Named> named;  // in the order of the schema
  std::vector<Named> free;   // required, but not described: anywhere behind those
  struct Others {
    Language names;
    Literals value;
    uint32_t meets;
  };
  std::vector<Others> others;
};

// What is said about the value of this name, and whether it can never be there.
Literals SchemaWriter::literals_for(const Shape& s, const std::string& name, bool& never) {
  Literals all;
  for (const auto& clause : s.objects) {
    bool matched = false;
    if (const auto found = clause->properties.find(name); found != clause->properties.end()) {
      all.push_back(found->second);
      matched = true;
    }
    for (const auto& [names, value] : clause->patterns)
      if (contains_name(names, name)) {
        all.push_back(value);
        matched = true;
      }
    if (!matched && clause->additional) all.push_back(*clause->additional);
  }
  never = std::ranges::any_of(all, [&](Literal l) { return *places_[l / 2].schema == (l % 2 != 0); }) ||
          std::ranges::any_of(s.names, [&](Language names) { return !contains_name(names, name); });
  return all;
}

SchemaWriter::Members SchemaWriter::members_of(const Shape& s) {
  Members all;
  if (s.members.size() > 4) refuse_schema(s.pointer, "more than 4 negations of members of one object cannot be kept");
  for (const std::string& name : s.order) {
    Members::Named one{name, {}, s.required.contains(name), false, 0};
    one.value = literals_for(s, name, one.never);
    for (size_t i = 0; i < s.members.size(); ++i)
      if (contains_name(s.members[i].first, name)) one.meets |= 1u << i;
    const bool described =
        std::ranges::any_of(s.objects, [&](const auto& clause) { return clause->properties.contains(name); });
    (described ? all.named : all.free).push_back(std::move(one));
  }
  if (s.members.size() + all.free.size() > 5) {  // a rule for each set of them would be too many
    std::ranges::move(all.free, std::back_inserter(all.named));
    all.free.clear();
  }
  split_names(s, all);
  return all;
}

// Names that are not in the schema, by the patterns that they match.
void SchemaWriter::split_names(const Shape& s, Members& members) {
  Languages& l = g_.languages;
  struct Segment {
    Language names;
    std::set<Language> in;
  };
  std::vector<Language> limits = s.names;
  limits.push_back(l.repeat(json_.any_char, 0));
  if (!s.order.empty()) limits.push_back(l.without(texts_inside(s.order, Form::every)));
  std::vector<Segment> parts{{l.all_of(limits), {}}};
  std::set<Language> patterns;
  for (const auto& clause : s.objects)
    for (const auto& [names, value] : clause->patterns) patterns.insert(names);
  for (const auto& [names, value] : s.members) patterns.insert(names);
  for (Language p : patterns) {
    std::vector<Segment> next;
    for (const Segment& part : parts) {
      work(s.pointer, 10);
      Segment with{l.all_of({part.names, p}), part.in};
      with.in.insert(p);
      const Segment without{l.all_of({part.names, l.without(p)}), part.in};
      for (const Segment& one : {with, without})
        if (!l.is_nothing(one.names)) next.push_back(one);
    }
    parts = std::move(next);
    if (parts.size() > 200) refuse_schema(s.pointer, "patterns of names overlap in more than 200 ways");
  }
  for (const Segment& part : parts) {
    Members::Others one{part.names, {}, 0};
    for (const auto& clause : s.objects) {
      bool matched = false;
      for (const auto& [names, value] : clause->patterns)
        if (part.in.contains(names)) {
          one.value.push_back(value);
          matched = true;
        }
      if (!matched && clause->additional) one.value.push_back(*clause->additional);
    }
    for (size_t i = 0; i < s.members.size(); ++i)
      if (part.in.contains(s.members[i].first)) one.meets |= 1u << i;
    const bool never =
        std::ranges::any_of(one.value, [&](Literal x) { return *places_[x / 2].schema == (x % 2 != 0); });
    if (!never && !l.is_nothing(part.names)) members.others.push_back(std::move(one));
  }
}

void SchemaWriter::write_object(Symbol rule, const Shape& s) {
  const Members members = members_of(s);
  if (s.required.size() > s.max_properties || s.min_properties > s.max_properties) return;
  auto is_impossible = [](const Members::Named& m) { return m.required && m.never; };
  if (std::ranges::any_of(members.named, is_impossible) || std::ranges::any_of(members.free, is_impossible)) return;
  choice(rule, {sign('{'), write_members(s, members)});
}

// A rule for each place in the order, number of members so far, and set of `members` and free names that were met: what
// may follow, to the closing brace.
Symbol SchemaWriter::write_members(const Shape& s, const Members& all) {
  const Symbol comma = sign(','), colon = sign(':'), close = sign('}'),
               close_empty = g_.terminal(g_.languages.text("}"));  // space has come behind the opening one
  const bool at_least = s.min_properties > s.required.size(),
             at_most = s.max_properties < all.named.size() + all.free.size() ||
                       (s.max_properties != Languages::unbounded && !all.others.empty());
  // members are counted as far as it matters; the first has no comma before it
  const uint32_t last_count = std::max({1u, at_least ? s.min_properties : 0, at_most ? s.max_properties : 0});
  const uint32_t met_all = (1u << (s.members.size() + all.free.size())) - 1, states = (last_count + 1) * (met_all + 1);
  if (uint64_t(states) * (all.named.size() + 1) > 50'000 || last_count > 10'000)
    refuse_schema(s.pointer, "counting its properties would need more than 50000 rules");
  auto state = [&](uint32_t count, uint32_t met) { return count * (met_all + 1) + met; };
  // a member in state (count, met), for each set of those that it meets
  auto add_member = [&](Symbol from, uint32_t count, uint32_t met, uint32_t own, Symbol name, const Literals& value,
                        uint32_t meets, const std::vector<Symbol>& next) {
    if (at_most && count == s.max_properties) return;
    for (uint32_t set = 0; set <= met_all; ++set) {
      if ((set & meets) != set || (set & met) != 0) continue;
      Literals with = value;
      for (size_t i = 0; i < s.members.size(); ++i)
        if (set >> i & 1) with.push_back(s.members[i].second);
      std::vector<Symbol> symbols{name, colon, rule_of(std::move(with)),
                                  next[state(std::min(count + 1, last_count), met | own | set)]};
      if (count > 0) symbols.insert(symbols.begin(), comma);
      choice(from, std::move(symbols));
    }
  };
  // behind the names of the schema
  std::vector<Symbol> next;
  for (uint32_t i = 0; i < states; ++i) next.push_back(new_rule(s.pointer));
  std::optional<Symbol> more;  // without an end
  if (!all.others.empty()) {
    const Symbol pair = new_rule(s.pointer);
    for (const auto& other : all.others) choice(pair, {g_.terminal(quoted(other.names)), colon, rule_of(other.value)});
    more = new_rule(s.pointer);
    choice(*more, {pair});
    choice(*more, {*more, comma, pair});
  }
  for (uint32_t count = 0; count <= last_count; ++count)
    for (uint32_t met = 0; met <= met_all; ++met) {
      const Symbol from = next[state(count, met)];
      const bool may_end = met == met_all && (!at_least || count >= s.min_properties);
      choice(from, {!may_end ? impossible() : count == 0 ? close_empty : close});
      for (size_t i = 0; i < all.free.size(); ++i) {
        const uint32_t bit = 1u << (s.members.size() + i);
        const Members::Named& one = all.free[i];
        if (!(met & bit))
          add_member(from, count, met, bit, g_.terminal(quoted(text_inside(one.name, Form::plain))), one.value,
                     one.meets, next);
      }
      if (!more) continue;
      if (may_end && !at_most)
        choice(from, count == 0 ? std::vector{*more, close} : std::vector{comma, *more, close});
      else
        for (const auto& other : all.others)
          add_member(from, count, met, 0, g_.terminal(quoted(other.names)), other.value, other.meets, next);
    }
  for (size_t i = all.named.size(); i-- > 0;) {
    const Members::Named& one = all.named[i];
    if (one.never) continue;
    std::vector<Symbol> here;
    const Symbol name = g_.terminal(quoted(text_inside(one.name, Form::plain)));
    for (uint32_t count = 0; count <= last_count; ++count)
      for (uint32_t met = 0; met <= met_all; ++met) {
        here.push_back(new_rule(s.pointer));
        choice(here.back(), {one.required ? impossible() : next[state(count, met)]});
        if (count <= i || count == last_count) add_member(here.back(), count, met, 0, name, one.value, one.meets, next);
      }
    next = std::move(here);
  }
  return next[state(0, 0)];
}

}  // namespace heddle::grammar
