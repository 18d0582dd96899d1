// Filters of lists and dicts; then those that yield items on demand: nothing happens, and nothing fails, before the
// first is taken.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "text/jinja/machine.h"
#include "text/jinja/python.h"

namespace heddle::text::jinja {

AttributePath::AttributePath(const Value& attribute) {
  if (!attribute.given() || attribute.is(Kind::none)) return;
  if (!attribute.is(Kind::string)) {
    parts_.push_back(attribute);
    return;
  }
  std::string_view rest = attribute.text();
  for (;;) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string part(rest.substr(0, dot));
    const bool number = !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == part.npos;
    parts_.push_back(number ? Value(int64_t{std::stoll(part)}) : string_value(part));
    if (dot == rest.size()) return;
    rest.remove_prefix(dot + 1);
  }
}

Value AttributePath::get(Machine& machine, Value item, const Value& standard) const {
  for (const Value& part : parts_) {
    machine.sandbox.step();
    item = machine.item(item, part);
    if (item.is(Kind::undefined) && standard.given() && !standard.is(Kind::none)) item = standard;
  }
  return item;
}

Value ignore_case(Machine& machine, const Value& value) {
  if (!value.is(Kind::string)) return value;
  machine.sandbox.bytes(value.text().size());
  return string_value(lower(value.text()));
}

namespace {

// A stable sort by keys that are computed once.
std::vector<Value> sort_by(Machine& machine, std::vector<Value> items, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  machine.sandbox.items(items.size());
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reverse ? machine.less(keys[b], keys[a]) : machine.less(keys[a], keys[b]);
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const size_t at : order) sorted.push_back(std::move(items[at]));
  return sorted;
}

// sort(attribute="a,b") sorts by a, then b; the key is a list also when it is one.
Value do_sort(Machine& machine, Args& args) {
  std::vector<AttributePath> paths;
  if (args.has(2) && args[2].is(Kind::string)) {
    std::string_view rest = args[2].text();
    for (;;) {
      const size_t comma = std::min(rest.find(','), rest.size());
      paths.emplace_back(string_value(std::string(rest.substr(0, comma))));
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    paths.emplace_back(args[2]);
  }
  std::vector<Value> items = machine.to_vector(args.self), keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      Value part = path.get(machine, item);
      key.push_back(args.flag(1) ? part : ignore_case(machine, part));
    }
    keys.push_back(machine.sandbox.list(std::move(key)));
  }
  return machine.sandbox.list(sort_by(machine, std::move(items), keys, args.flag(0)));
}

Value do_dictsort(Machine& machine, Args& args) {
  if (!args.self.is(Kind::dict)) throw Error("dictsort needs a dict, found {}", type_name(args.self));
  const std::string by = args.has(1) ? string_argument(args[1], "dictsort").text() : "key";
  if (by != "key" && by != "value") throw Error("dictsort: expected key or value, found '{}'", by);
  std::vector<Value> items, keys;
  for (const auto& [key, value] : args.self.dict().items) {
    const Value& part = by == "key" ? key : value;
    keys.push_back(args.flag(0) ? part : ignore_case(machine, part));
    items.push_back(machine.sandbox.pair(key, value));
  }
  return machine.sandbox.list(sort_by(machine, std::move(items), keys, args.flag(2)));
}

template <bool largest>
Value extreme(Machine& machine, Args& args) {
  const AttributePath path(args[1]);
  const auto key_of = [&](const Value& item) {
    const Value key = path.get(machine, item);
    return args.flag(0) ? key : ignore_case(machine, key);
  };
  Walk walk(machine, args.self);
  Value best;
  if (!walk.next(best)) return Value::undefined("No aggregated item, sequence was empty.");
  Value best_key = key_of(best);
  for (Value item; walk.next(item);) {
    Value key = key_of(item);
    if (largest ? !machine.less(best_key, key) : !machine.less(key, best_key)) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best;
}

Value do_groupby(Machine& machine, Args& args) {
  const AttributePath path(args[0]);
  const bool cased = args.flag(2);
  std::vector<Value> items = machine.to_vector(args.self), keys;
  const auto key_of = [&](const Value& item) {
    const Value key = path.get(machine, item, args[1]);
    return cased ? key : ignore_case(machine, key);
  };
  for (const Value& item : items) keys.push_back(key_of(item));
  items = sort_by(machine, std::move(items), keys, false);
  std::vector<Value> groups, group;
  Value key;
  const auto close = [&] {
    if (group.empty()) return;
    Value name = cased ? key : path.get(machine, group[0], args[1]);
    groups.push_back(machine.sandbox.group(std::move(name), machine.sandbox.list(std::exchange(group, {}))));
  };
  for (Value& item : items) {
    Value next = key_of(item);
    if (group.empty() || !machine.equal(next, key)) close();
    key = std::move(next);
    group.push_back(std::move(item));
  }
  close();
  return machine.sandbox.list(std::move(groups));
}

Value do_sum(Machine& machine, Args& args) {
  const AttributePath path(args[0]);
  Value total = args.has(1) ? args[1] : Value(0);
  if (total.is(Kind::string)) throw Error("sum cannot begin with a string: use join");
  Walk walk(machine, args.self);
  for (Value item; walk.next(item);) total = machine.operate("+", total, path.get(machine, item));
  return total;
}

Value do_join(Machine& machine, Args& args) {
  const Value separator = args.has(0) ? machine.text_of(args[0]) : string_value("");
  const AttributePath path(args[1]);
  Text out;
  bool first = true;
  Walk walk(machine, args.self);
  for (Value item; walk.next(item); first = false) {
    if (!first) machine.sandbox.append(out, separator.str());
    machine.sandbox.step();
    machine.print_to(out, path.get(machine, item));
  }
  return string_value(std::move(out));
}

Value do_first(Machine& machine, Args& args) {
  Walk walk(machine, args.self);
  Value item;
  return walk.next(item) ? item : Value::undefined("No first item, sequence was empty.");
}

bool has_reverse(const Value& value) { return !value.is(Kind::object); }

Value do_last(Machine& machine, Args& args) {
  if (!has_reverse(args.self)) throw Error("a {} has no last item", type_name(args.self));
  if (args.self.is(Kind::undefined) || machine.length(args.self) == 0)
    return Value::undefined("No last item, sequence was empty.");
  if (args.self.is_list()) return args.self.items().back();
  if (args.self.is(Kind::string)) return machine.item(args.self, Value(-1));
  return machine.to_vector(args.self).back();
}

Value do_reverse(Machine& machine, Args& args) {
  if (args.self.is(Kind::string)) return machine.slice(args.self, {}, {}, Value(-1));
  std::vector<Value> items = machine.to_vector(args.self);
  if (!has_reverse(args.self)) {
    std::reverse(items.begin(), items.end());
    return machine.sandbox.list(std::move(items));
  }
  return machine.iterator("reversed", [items = std::move(items)](Machine&, Value& item) mutable {
    if (items.empty()) return false;
    item = std::move(items.back());
    items.pop_back();
    return true;
  });
}

Value do_length(Machine& machine, Args& args) { return machine.length(args.self); }

Value do_list(Machine& machine, Args& args) {
  if (args.self.is(Kind::list)) return args.self;
  return machine.sandbox.list(machine.to_vector(args.self));
}

Value do_default(Machine&, Args& args) {
  const bool absent = args.self.is(Kind::undefined) || (args.flag(1) && !truth(args.self));
  return !absent ? args.self : args.has(0) ? args[0] : string_value("");
}

Value do_attr(Machine& machine, Args& args) {
  const std::string& name = string_argument(args[0], "attr").text();
  if (args.self.is(Kind::dict) && !find_method(args.self, name) && args.self.dict().find(name))
    return Value::undefined(fmt::format("'dict object' has no attribute '{}'", name));  // never an item
  return machine.attribute(args.self, name);
}

Value refused_random(Machine&, Args&) { throw Error("random gives another result each time: not in heddle"); }

constexpr Function sequence_table[] = {
    {"attr", "name!", do_attr},
    {"count", "/", do_length},
    {"d", "default_value boolean", do_default},
    {"default", "default_value boolean", do_default},
    {"dictsort", "case_sensitive by reverse", do_dictsort},
    {"first", "", do_first},
    {"groupby", "attribute! default case_sensitive", do_groupby},
    {"join", "d attribute", do_join},
    {"last", "", do_last},
    {"length", "/", do_length},
    {"list", "", do_list},
    {"max", "case_sensitive attribute", extreme<true>},
    {"min", "case_sensitive attribute", extreme<false>},
    {"random", "*", refused_random},
    {"reverse", "", do_reverse},
    {"sort", "reverse case_sensitive attribute", do_sort},
    {"sum", "attribute start", do_sum},
};

}  // namespace

std::span<const Function> sequence_filters() { return sequence_table; }

namespace {

// Shared by the copies of a std::function.
using Source = std::shared_ptr<Walk>;

// map("upper") or map(attribute="a.b", default=x)
Value do_map(Machine& machine, Args& args) {
  const auto state = std::make_shared<Args>(std::move(args));
  return machine.iterator("generator", [state, source = Source()](Machine& m, Value& item) mutable {
    if (!truth(state->self)) return false;
    if (!source) source = std::make_shared<Walk>(m, state->self);
    const auto named = [&](std::string_view name) {
      for (const auto& [given, value] : state->named)
        if (given == name) return value;
      return Value();
    };
    const Value attribute = named("attribute");
    if (state->list.empty() && attribute.given()) {
      const Value standard = named("default");
      if (state->named.size() > 1u + standard.given()) throw Error("map takes attribute and default, or a filter");
      if (!source->next(item)) return false;
      item = AttributePath(attribute).get(m, item, standard);
      return true;
    }
    if (state->list.empty()) throw Error("map needs the name of a filter");
    const std::string& name = string_argument(state->list[0], "the filter of map").text();
    if (!source->next(item)) return false;
    const Function* filter = find_filter(name);
    if (!filter) throw Error("there is no filter \"{}\"", name);
    Args call{std::move(item), {state->list.begin() + 1, state->list.end()}, state->named};
    item = m.call(*filter, std::move(call));
    return true;
  });
}

template <bool by_attribute, bool wanted>
Value do_select(Machine& machine, Args& args) {
  const auto state = std::make_shared<Args>(std::move(args));
  return machine.iterator("generator", [state, source = Source()](Machine& m, Value& item) mutable {
    if (!truth(state->self)) return false;
    if (!source) source = std::make_shared<Walk>(m, state->self);
    constexpr size_t test_at = by_attribute;
    if (state->list.size() < test_at) throw Error("selectattr and rejectattr need the name of an attribute");
    const AttributePath path(by_attribute ? state->list[0] : Value());
    const Function* test = nullptr;
    if (state->list.size() > test_at) {
      const std::string& name = string_argument(state->list[test_at], "a test").text();
      test = find_test(name);
      if (!test) throw Error("there is no test \"{}\"", name);
    }
    while (source->next(item)) {
      m.sandbox.step();
      Value tested = path.get(m, item);
      if (test) {
        Args call{std::move(tested), {state->list.begin() + test_at + 1, state->list.end()}, state->named};
        tested = m.call(*test, std::move(call));
      }
      if (truth(tested) == wanted) return true;
    }
    return false;
  });
}

Value do_unique(Machine& machine, Args& args) {
  const auto source = std::make_shared<Walk>(machine, args.self);
  const auto seen = std::make_shared<std::set<std::string>>();
  return machine.iterator("generator",
                          [=, cased = args.flag(0), path = AttributePath(args[1])](Machine& m, Value& item) {
                            while (source->next(item)) {
                              const Value key = path.get(m, item);
                              m.sandbox.step();
                              std::string text = jinja::key_of(cased ? key : ignore_case(m, key));
                              m.sandbox.bytes(text.size() + 64);
                              if (seen->insert(std::move(text)).second) return true;
                            }
                            return false;
                          });
}

Value do_batch(Machine& machine, Args& args) {
  const auto source = std::make_shared<Walk>(machine, args.self);
  const Value fill = args[1];
  const Value size_value = args[0];
  return machine.iterator("generator", [=, held = Value(), done = false](Machine& m, Value& batch) mutable {
    if (done) return false;
    const int64_t size = integer_argument(size_value, "batch");
    std::vector<Value> items;
    if (held.given()) items.push_back(std::exchange(held, Value()));
    Value item;
    while (source->next(item)) {
      if (int64_t(items.size()) == size && !(items.empty() && size == 0 && held.given())) {
        held = std::move(item);
        batch = m.sandbox.list(std::move(items));
        return true;
      }
      m.sandbox.step();
      items.push_back(std::move(item));
    }
    done = true;
    if (items.empty()) return false;
    if (fill.given() && !fill.is(Kind::none) && int64_t(items.size()) < size) {
      m.sandbox.items(size_t(size));
      items.resize(size_t(size), fill);
    }
    batch = m.sandbox.list(std::move(items));
    return true;
  });
}

Value do_slice(Machine& machine, Args& args) {
  const auto state = std::make_shared<Args>(std::move(args));
  return machine.iterator("generator",
                          [state, at = int64_t{0}, items = std::vector<Value>()](Machine& m, Value& part) mutable {
                            const int64_t slices = integer_argument((*state)[0], "slice");
                            if (slices == 0) throw Error("slice into 0 parts");
                            if (at == 0) items = m.to_vector(state->self);
                            if (at >= slices) return false;
                            const auto length = int64_t(items.size());
                            const int64_t each = length / slices, extra = length % slices;
                            const int64_t start = at * each + std::min(at, extra), size = each + (at < extra);
                            std::vector<Value> picked(items.begin() + start, items.begin() + start + size);
                            const bool fills = state->has(1) && !(*state)[1].is(Kind::none);
                            if (fills && at >= extra) picked.push_back((*state)[1]);
                            ++at;
                            part = m.sandbox.list(std::move(picked));
                            return true;
                          });
}

Value do_items(Machine& machine, Args& args) {
  const Value dict = args.self;
  return machine.iterator("generator", [dict, at = size_t{0}](Machine& m, Value& item) mutable {
    if (dict.is(Kind::undefined)) return false;
    if (!dict.is(Kind::dict)) throw Error("items needs a dict, found {}", type_name(dict));
    if (at >= dict.dict().size()) return false;
    const auto& [key, value] = dict.dict().items[at++];
    item = m.sandbox.pair(key, value);
    return true;
  });
}

constexpr Function selecting_table[] = {
    {"batch", "linecount! fill_with", do_batch},
    {"items", "", do_items},
    {"map", "*", do_map},
    {"reject", "*", do_select<false, false>},
    {"rejectattr", "*", do_select<true, false>},
    {"select", "*", do_select<false, true>},
    {"selectattr", "*", do_select<true, true>},
    {"slice", "slices! fill_with", do_slice},
    {"unique", "case_sensitive attribute", do_unique},
};

}  // namespace

std::span<const Function> selecting_filters() { return selecting_table; }

}  // namespace heddle::text::jinja
