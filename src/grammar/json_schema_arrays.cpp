// Arrays: their items in order, counted as far as it matters.
#include <algorithm>
#include <bit>

#include "base/error.h"
#include "grammar/json_schema_writer.h"

namespace heddle::grammar {

Literals SchemaWriter::literals_at(const Shape& s, uint32_t index) {
  Literals all;
  for (const auto& clause : s.arrays) {
    if (index < clause->prefix.size())
      all.push_back(clause->prefix[index]);
    else if (clause->rest)
      all.push_back(*clause->rest);
  }
  return all;
}

void SchemaWriter::write_array(Symbol rule, const Shape& s) {
  // a false schema for an item ends the array before it
  uint32_t max_items = s.max_items, prefix = 0;
  for (const auto& clause : s.arrays) prefix = std::max(prefix, uint32_t(clause->prefix.size()));
  for (uint32_t i = 0; i <= prefix && i < max_items; ++i) {
    const Literals all = literals_at(s, i);
    if (std::ranges::any_of(all, [&](Literal l) { return *places_[l / 2].schema == (l % 2 != 0); })) max_items = i;
  }
  if (s.min_items > max_items) return;
  if (!s.unique_at.empty() && max_items > 1) {
    if (!write_unique_items(rule, s, max_items))
      refuse_schema(s.unique_at, "it can only be kept for finitely many values");
    return;
  }
  if (s.contains.empty())
    write_plain_items(rule, s, max_items);
  else
    choice(rule, {sign('['), write_items(s, max_items), sign(']')});
}

void SchemaWriter::write_plain_items(Symbol rule, const Shape& s, uint32_t max_items) {
  const Symbol open = sign('['), close = sign(']'), comma = sign(',');
  if (s.min_items == 0) choice(rule, {open, g_.terminal(g_.languages.text("]"))});
  if (max_items == 0) return;
  uint32_t prefix = 0;
  for (const auto& clause : s.arrays) prefix = std::max(prefix, uint32_t(clause->prefix.size()));
  const uint32_t fixed = std::max({s.min_items, std::min(prefix, max_items), 1u});
  if (fixed > 20'000 || (max_items != Languages::unbounded && max_items > 20'000))
    refuse_schema(s.pointer, "more than 20000 items cannot be counted");
  // from the end: what may follow item i
  Symbol tail = new_rule(s.pointer);
  choice(tail, {});
  if (max_items == Languages::unbounded) {
    const Symbol more = new_rule(s.pointer), item = rule_of(literals_at(s, fixed));
    choice(more, {comma, item});
    choice(more, {more, comma, item});
    choice(tail, {more});
  }
  for (uint32_t i = max_items == Languages::unbounded ? fixed : max_items; i-- > 1;) {
    const Symbol before = new_rule(s.pointer);
    choice(before, {comma, rule_of(literals_at(s, i)), tail});
    if (i >= s.min_items) choice(before, {});
    tail = before;
  }
  choice(rule, {open, rule_of(literals_at(s, 0)), tail, close});
}

// With `contains`: a rule for each index and number of items found, as far as they matter. Items that are counted are
// those that are said to be; where there is a maximum, the others must not satisfy it.
Symbol SchemaWriter::write_items(const Shape& s, uint32_t max_items) {
  const Symbol comma = sign(',');
  uint32_t last = std::max({s.min_items, max_items == Languages::unbounded ? 0 : max_items, 1u});
  for (const auto& clause : s.arrays) last = std::max(last, uint32_t(clause->prefix.size()));
  uint64_t states = 1;
  std::vector<uint32_t> counted;  // the largest count of each that is told apart
  for (const auto& c : s.contains) {
    last = std::max(last, c.from);
    counted.push_back(c.most == Languages::unbounded ? c.least : c.most);
    states *= counted.back() + 1;
    if (states > 50'000 || s.contains.size() > 4)
      refuse_schema(s.pointer, "counting its items would need more than 50000 rules");
  }
  if (states * last > 50'000) refuse_schema(s.pointer, "counting its items would need more than 50000 rules");
  auto ends = [&](std::vector<uint32_t>& found) {
    for (size_t k = 0; k < found.size(); ++k)
      if (found[k] < s.contains[k].least) return false;
    return true;
  };
  // state: index, then what was found; written when it is first met
  std::map<std::vector<uint32_t>, Symbol> rules;
  std::vector<std::vector<uint32_t>> open;
  auto rule_for = [&](const std::vector<uint32_t>& state) {
    const auto found = rules.find(state);
    if (found != rules.end()) return found->second;
    open.push_back(state);
    return rules.emplace(state, new_rule(s.pointer)).first->second;
  };
  const Symbol start = rule_for(std::vector<uint32_t>(s.contains.size() + 1, 0));
  while (!open.empty()) {
    const std::vector<uint32_t> at = open.back();
    open.pop_back();
    const Symbol rule = rules.at(at);
    const uint32_t index = at[0];
    std::vector<uint32_t> found(at.begin() + 1, at.end());
    choice(rule, index >= s.min_items && ends(found) ? std::vector<Symbol>{} : std::vector{impossible()});
    if (index >= max_items) continue;
    for (uint32_t marked = 0; marked < 1u << s.contains.size(); ++marked) {
      Literals item = literals_at(s, index);
      std::vector<uint32_t> next{std::min(index + 1, last)};
      bool is_possible = true;
      for (size_t k = 0; k < s.contains.size(); ++k) {
        const Shape::Contains& c = s.contains[k];
        const bool has_most = c.most != Languages::unbounded, is_marked = marked >> k & 1;
        if (is_marked) {
          is_possible = is_possible && index >= c.from && (has_most ? found[k] < c.most : found[k] < c.least);
          item.push_back(c.item);
        } else if (has_most && index >= c.from) {
          item.push_back(negation(c.item));
        }
        next.push_back(found[k] + is_marked);
      }
      if (!is_possible) continue;
      std::vector<Symbol> symbols{rule_of(std::move(item)), rule_for(next)};
      if (index > 0) symbols.insert(symbols.begin(), comma);
      choice(rule, std::move(symbols));
    }
  }
  return start;
}

// Different items: those of a list of values, each at most once; or items that are never equal.
bool SchemaWriter::write_unique_items(Symbol rule, const Shape& s, uint32_t max_items) {
  uint32_t prefix = 0;
  for (const auto& clause : s.arrays) prefix = std::max(prefix, uint32_t(clause->prefix.size()));
  if (!s.contains.empty()) return false;
  if (max_items <= prefix && max_items <= 50) {
    for (uint32_t i = 0; i < max_items; ++i)
      for (uint32_t k = i + 1; k < max_items; ++k) {
        Literals both = literals_at(s, i);
        for (Literal l : literals_at(s, k)) both.push_back(l);
        if (!is_unsatisfiable(both, 3)) return false;
      }
    write_plain_items(rule, s, max_items);
    return true;
  }
  if (prefix > 0) return false;
  const auto values = values_of(literals_at(s, 0));
  if (!values) return false;
  const Symbol open = sign('['), close = sign(']'), comma = sign(',');
  max_items = std::min(max_items, uint32_t(values->size()));
  if (s.min_items > max_items) return true;
  if (s.min_items == 0) choice(rule, {open, g_.terminal(g_.languages.text("]"))});
  if (max_items == 0) return true;
  std::vector<Symbol> value;
  for (const SchemaJson& v : *values) value.push_back(constant(v));
  const auto n = uint32_t(values->size());
  if (n <= 8) {
    // a rule for each set of values that are there
    std::vector<Symbol> rules;
    for (uint32_t set = 0; set < 1u << n; ++set) rules.push_back(new_rule(s.unique_at));
    for (uint32_t set = 0; set < 1u << n; ++set) {
      const auto count = uint32_t(std::popcount(set));
      choice(rules[set], count >= s.min_items && count > 0 ? std::vector<Symbol>{} : std::vector{impossible()});
      for (uint32_t i = 0; i < n && count < max_items; ++i)
        if (!(set >> i & 1))
          choice(rules[set], count ? std::vector{comma, value[i], rules[set | 1u << i]}
                                   : std::vector{value[i], rules[set | 1u << i]});
    }
    choice(rule, {open, rules[0], close});
    return true;
  }
  // of more values, only in the order of the list: a rule for each value and count
  const uint32_t last = std::max({1u, s.min_items, max_items < n ? max_items : 0});
  if (uint64_t(last) * n > 50'000) refuse_schema(s.unique_at, "counting its items would need more than 50000 rules");
  std::vector<Symbol> next;
  for (uint32_t count = 0; count <= last; ++count) {
    next.push_back(new_rule(s.unique_at));
    choice(next.back(), count >= std::max(s.min_items, 1u) ? std::vector<Symbol>{} : std::vector{impossible()});
  }
  for (uint32_t i = n; i-- > 0;) {
    std::vector<Symbol> here;
    for (uint32_t count = 0; count <= last; ++count) {
      here.push_back(new_rule(s.unique_at));
      choice(here.back(), {next[count]});
      if (count == max_items) continue;
      const Symbol then = next[std::min(count + 1, last)];
      choice(here.back(), count ? std::vector{comma, value[i], then} : std::vector{value[i], then});
    }
    next = std::move(here);
  }
  choice(rule, {open, next[0], close});
  return true;
}

}  // namespace heddle::grammar
