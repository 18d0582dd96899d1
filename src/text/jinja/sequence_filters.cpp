// Filters of lists and dicts.
#include <algorithm>

#include "base/error.h"
#include "text/jinja/machine.h"
#include "text/jinja/unicode.h"

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
  const std::string separator = args.has(0) ? machine.print(args[0]) : "";
  const AttributePath path(args[1]);
  std::string out;
  bool first = true;
  Walk walk(machine, args.self);
  for (Value item; walk.next(item); first = false) {
    if (!first) machine.sandbox.append(out, separator);
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

}  // namespace heddle::text::jinja
