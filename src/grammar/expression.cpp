// Rules without recursion are regular. They are found in the order in which each needs only those before it, and each
// is made a language of the languages of those. What is left is written rule by rule, where neighbours that are regular
// are one terminal.
#include "grammar/expression.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"

namespace heddle::grammar {

Expression Expression::of_text(Languages& all, std::string_view text) {
  return of_language(all.text(text), Width::narrow, text.size());
}
Expression Expression::of_set(Languages& all, const CodePoints& set) {
  size_t count = 0;
  for (const CodePoints::Range& r : set.ranges()) count += r.last - r.first + 1;
  return of_language(written(all, set, Writing::utf8), count > wide_set_size ? Width::wide_set : Width::narrow, 1);
}
Expression Expression::of_language(Language language, Width width, size_t size, uint64_t counts) {
  return {.kind = Kind::language, .language = language, .width = width, .size = size, .counts = counts};
}
Expression Expression::of_rule(uint32_t rule) { return {.kind = Kind::rule, .rule = rule}; }
Expression Expression::sequence_of(std::vector<Expression> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return {.kind = Kind::sequence, .parts = std::move(parts)};
}
Expression Expression::choice_of(std::vector<Expression> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return {.kind = Kind::choice, .parts = std::move(parts)};
}
Expression Expression::repeated(Expression part, uint32_t least, uint32_t most) {
  Expression all{.kind = Kind::repeat, .least = least, .most = most};
  all.parts.push_back(std::move(part));
  return all;
}

uint64_t nested_counts(uint64_t inner, uint32_t least, uint32_t most) {
  const uint64_t count = most == Languages::unbounded ? least : most;
  return count > 1 ? count * std::max<uint64_t>(inner, 1) : inner;
}

namespace {

using Width = Expression::Width;

constexpr size_t max_terminal_size = 4'000;    // parts of an expression, and so the nesting of its language
constexpr uint32_t max_counted_rules = 5'000;  // repetitions of what is not regular: each is a symbol
constexpr size_t max_symbols = 500'000;        // of the rules of a grammar

class RuleWriter {
 public:
  RuleWriter(Grammar& grammar, const std::vector<NamedExpression>& rules)
      : g_(grammar), rules_(rules), known_(rules.size()), references_(rules.size()) {}

  Symbol write(uint32_t start) {
    expect_ends(start);
    find_regular();
    const Symbol first = symbol_of(start);
    while (!open_.empty()) {
      const uint32_t rule = open_.back();
      open_.pop_back();
      current_ = rule;
      write_choices(*symbols_[rule], rules_[rule].body);
    }
    return first;
  }

 private:
  struct Regular {
    Language language;
    Width width;
    size_t size;
    uint64_t counts = 0;
  };

  template <class See>
  static void for_references(const Expression& e, See&& see) {
    if (e.kind == Expression::Kind::rule) see(e.rule);
    for (const Expression& part : e.parts) for_references(part, see);
  }

  // --- rules that end -----------------------------------------------------------------------------------------------
  // What waits for parts to end: a sequence for all of them, a choice for one. Counted down, so that the time is linear
  // however the rules depend on each other.
  struct Waiting {
    size_t parent;  // in waiting_; of the body of a rule itself
    size_t left;
    uint32_t rule;  // that it is the body of, or `nowhere`
  };
  static constexpr uint32_t nowhere = 0xffffffff;

  void expect_ends(uint32_t start) {
    std::vector<Waiting> waiting;
    std::vector<std::vector<size_t>> for_rule(rules_.size());
    std::vector<size_t> ended;
    const auto add = [&](auto&& self, const Expression& e, size_t parent, uint32_t rule) -> void {
      const size_t at = waiting.size();
      using Kind = Expression::Kind;
      const size_t left = e.kind == Kind::sequence ? e.parts.size() : 1;
      waiting.push_back({parent == nowhere ? at : parent, left, rule});
      if (e.kind == Kind::rule) for_rule[e.rule].push_back(at);
      if (left == 0 || (e.kind == Kind::language && e.language != Languages::nothing) ||
          (e.kind == Kind::repeat && e.least == 0)) {
        waiting[at].left = 0;
        ended.push_back(at);
      }
      for (const Expression& part : e.parts) self(self, part, at, nowhere);
    };
    for (uint32_t r = 0; r < rules_.size(); ++r) add(add, rules_[r].body, nowhere, r);
    std::vector<bool> ends(rules_.size());
    const auto count_down = [&](size_t at) {
      if (waiting[at].left != 0 && --waiting[at].left == 0) ended.push_back(at);
    };
    while (!ended.empty()) {
      const Waiting& w = waiting[ended.back()];
      const size_t at = ended.back();
      ended.pop_back();
      if (w.rule != nowhere) {
        ends[w.rule] = true;
        for (size_t user : for_rule[w.rule]) count_down(user);
      } else if (w.parent != at) {
        count_down(w.parent);
      }
    }
    std::vector<bool> seen(rules_.size());
    std::vector<uint32_t> work{start};
    while (!work.empty()) {
      const uint32_t rule = work.back();
      work.pop_back();
      if (seen[rule]) continue;
      seen[rule] = true;
      if (!ends[rule]) throw Error("rule {} never ends: no finite text is one", rules_[rule].name);
      for_references(rules_[rule].body, [&](uint32_t other) { work.push_back(other); });
    }
  }

  // --- regular rules ------------------------------------------------------------------------------------------------
  void find_regular() {
    std::vector<size_t> needed(rules_.size());  // references to rules that are not known yet
    std::vector<std::vector<uint32_t>> users(rules_.size());
    for (uint32_t r = 0; r < rules_.size(); ++r)
      for_references(rules_[r].body, [&](uint32_t other) {
        ++needed[r];
        ++references_[other];
        users[other].push_back(r);
      });
    std::vector<uint32_t> ready;
    for (uint32_t r = 0; r < rules_.size(); ++r)
      if (needed[r] == 0) ready.push_back(r);
    for (size_t i = 0; i < ready.size(); ++i) {
      const uint32_t r = ready[i];
      current_ = r;
      known_[r] = regular(rules_[r].body);
      for (uint32_t user : users[r])
        if (--needed[user] == 0) ready.push_back(user);
    }
  }
  // Whether it is a terminal of its own wherever it is used.
  bool is_shared(uint32_t rule) const {
    return known_[rule] && known_[rule]->width == Width::wide_loop && references_[rule] > 1;
  }
  std::optional<Regular> regular(const Expression& e) {
    using Kind = Expression::Kind;
    switch (e.kind) {
      case Kind::language:
        return Regular{e.language, e.width, e.size, e.counts};
      case Kind::rule:
        return is_shared(e.rule) ? std::nullopt : known_[e.rule];
      case Kind::sequence: {
        std::optional<Regular> all = Regular{Languages::empty, Width::narrow, 1};
        for (size_t i = e.parts.size(); all && i-- > 0;) all = joined(regular(e.parts[i]), all);
        return all;
      }
      case Kind::choice:
        return united(e.parts);
      case Kind::repeat: {
        std::optional<Regular> all = regular(e.parts[0]);
        if (!all) return {};
        const uint64_t counts = nested_counts(all->counts, e.least, e.most);
        if (all->counts && counts > max_nested_counts)
          throw Error("rule {} has repetitions of repetitions that count to more than {}", rules_[current_].name,
                      max_nested_counts);
        if (all->width == Width::wide_set && e.most > wide_loop_count) all->width = Width::wide_loop;
        return Regular{g_.languages.repeat(all->language, e.least, e.most), all->width, all->size + 1, counts};
      }
    }
    return {};
  }
  std::optional<Regular> joined(const std::optional<Regular>& a, const std::optional<Regular>& b) {
    if (!a || !b || a->size + b->size > max_terminal_size) return {};
    return Regular{g_.languages.sequence(a->language, b->language), std::max(a->width, b->width), a->size + b->size,
                   a->counts + b->counts};
  }
  std::optional<Regular> united(const std::vector<Expression>& choices) {
    Regular all{Languages::nothing, Width::narrow, 1};
    std::vector<Language> languages;
    for (const Expression& choice : choices) {
      const std::optional<Regular> one = regular(choice);
      if (!one || all.size + one->size > max_terminal_size) return {};
      languages.push_back(one->language);
      all.width = std::max(all.width, one->width);
      all.size += one->size;
      all.counts += one->counts;
    }
    all.language = g_.languages.any_of(std::move(languages));
    return all;
  }

  // --- the rest as rules --------------------------------------------------------------------------------------------
  Symbol symbol_of(uint32_t rule) {
    if (known_[rule]) return symbol_of_language(known_[rule]->language);
    const auto [found, is_new] = symbols_.try_emplace(rule);
    if (is_new) {
      found->second = g_.rule();
      open_.push_back(rule);
    }
    return *found->second;
  }
  Symbol symbol_of_language(Language language) {
    const auto [found, is_new] = of_language_.try_emplace(language);
    if (is_new) found->second = g_.symbol_of(language);
    return *found->second;
  }
  void add(Symbol rule, std::vector<Symbol> symbols) {
    written_ += symbols.size() + 1;
    if (written_ > max_symbols)
      throw Error("rule {} makes the grammar larger than {} symbols", rules_[current_].name, max_symbols);
    g_.add_choice(rule, std::move(symbols));
  }

  void write_choices(Symbol rule, const Expression& e) {
    if (e.kind != Expression::Kind::choice) {
      add(rule, symbols_of(e));
      return;
    }
    std::vector<Expression> together;  // the choices that are regular
    for (const Expression& choice : e.parts)
      if (regular(choice))
        together.push_back(choice);
      else if (ends(choice))
        add(rule, symbols_of(choice));
    if (const std::optional<Regular> all = united(together)) {
      if (all->language != Languages::nothing) add(rule, {symbol_of_language(all->language)});
    } else {
      for (const Expression& one : together)
        if (ends(one)) add(rule, symbols_of(one));
    }
  }
  // All rules end, so only a language can be without a text.
  static bool ends(const Expression& e) {
    switch (e.kind) {
      case Expression::Kind::language:
        return e.language != Languages::nothing;
      case Expression::Kind::choice:
        return std::ranges::any_of(e.parts, ends);
      case Expression::Kind::repeat:
        return e.least == 0 || ends(e.parts[0]);
      default:
        return std::ranges::all_of(e.parts, ends);
    }
  }

  std::vector<Symbol> symbols_of(const Expression& e) {
    if (const std::optional<Regular> all = regular(e)) {
      if (all->language == Languages::empty) return {};
      return {symbol_of_language(all->language)};
    }
    if (e.kind != Expression::Kind::sequence) return {symbol_of_part(e)};
    std::vector<Symbol> symbols;
    std::vector<Language> run;  // neighbours that are regular
    size_t run_size = 0;
    const auto flush = [&] {
      if (const Language all = g_.languages.sequence(run); all != Languages::empty)
        symbols.push_back(symbol_of_language(all));
      run.clear();
      run_size = 0;
    };
    for (const Expression& part : e.parts) {
      const std::optional<Regular> one = regular(part);
      if (!one || run_size + one->size > max_terminal_size) flush();
      if (!one) {
        symbols.push_back(symbol_of_part(part));
        continue;
      }
      run.push_back(one->language);
      run_size += one->size;
    }
    flush();
    return symbols;
  }

  Symbol symbol_of_part(const Expression& e) {
    if (e.kind == Expression::Kind::rule) return symbol_of(e.rule);
    const Symbol rule = g_.rule();
    if (e.kind == Expression::Kind::repeat)
      write_repeat(rule, e);
    else
      write_choices(rule, e);
    return rule;
  }

  // By recursion to the left, which needs the fewest items.
  void write_repeat(Symbol rule, const Expression& e) {
    const uint32_t counted = e.most == Languages::unbounded ? e.least : e.most;
    if (counted > max_counted_rules)
      throw Error("rule {} repeats what is not regular {} times; at most {} can be counted", rules_[current_].name,
                  counted, max_counted_rules);
    if (!ends(e.parts[0])) {  // no time is the only one
      add(rule, {});
      return;
    }
    const std::vector<Symbol> parts = symbols_of(e.parts[0]);
    Symbol part = parts.size() == 1 ? parts[0] : g_.rule();
    if (parts.size() != 1) add(part, parts);
    const std::vector<Symbol> least(e.least, part);
    if (e.most == Languages::unbounded) {
      add(rule, least);
      add(rule, {rule, part});
      return;
    }
    if (e.most == e.least) {
      add(rule, least);
      return;
    }
    // up to n more: a rule for each number of times
    const Symbol more = g_.rule();
    add(more, {});
    Symbol times = part;
    add(more, {times});
    for (uint32_t i = 2; i <= e.most - e.least; ++i) {
      const Symbol next = g_.rule();
      add(next, {times, part});
      add(more, {next});
      times = next;
    }
    std::vector<Symbol> all = least;
    all.push_back(more);
    add(rule, std::move(all));
  }

  Grammar& g_;
  const std::vector<NamedExpression>& rules_;
  std::vector<std::optional<Regular>> known_;  // of rules that are regular
  std::vector<size_t> references_;
  std::map<uint32_t, std::optional<Symbol>> symbols_;  // of rules that are not
  std::map<Language, std::optional<Symbol>> of_language_;
  std::vector<uint32_t> open_;  // rules that are to be written
  uint32_t current_ = 0;
  size_t written_ = 0;
};

}  // namespace

Symbol add_rules(Grammar& grammar, const std::vector<NamedExpression>& rules, uint32_t start) {
  return RuleWriter(grammar, rules).write(start);
}

}  // namespace heddle::grammar
