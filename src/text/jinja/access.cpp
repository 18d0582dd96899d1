// a.b, a[b] and a[b:c]. An attribute goes before an item after a dot, and after it in brackets. And the methods of
// list, tuple, range and dict; those that change one in place are refused.
#include <algorithm>

#include "base/error.h"
#include "text/jinja/machine.h"
#include "text/jinja/python.h"

namespace heddle::text::jinja {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Methods Python has and the sandbox refuses, because they change a value in place.
bool changes(const Value& of, std::string_view name) {
  if (of.is(Kind::dict)) return is_one_of(name, {"clear", "pop", "popitem", "setdefault", "update"});
  return of.is(Kind::list) &&
         is_one_of(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
}

bool find_attribute(Machine& machine, const Value& of, std::string_view name, Value& found) {
  if (changes(of, name)) {
    found = Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(of)));
    return true;
  }
  if (of.is(Kind::object)) return of.object()->attribute(machine, name, found);
  if (const Function* method = find_method(of, name)) {
    found = Value(method, std::make_shared<const Bound>(Bound{of}));
    return true;
  }
  if (of.is(Kind::tuple) && of.list().group && is_one_of(name, {"grouper", "list"}))
    found = of.items()[name == "list"];
  else if (of.is_number() && name == "real")
    found = of.is(Kind::real) ? Value(of.real()) : Value(of.integer());
  else if (of.is_number() && name == "imag")
    found = of.is(Kind::real) ? Value(0.0) : Value(0);
  else if (of.is_integer() && is_one_of(name, {"numerator", "denominator"}))
    found = name == "numerator" ? Value(of.integer()) : Value(1);
  else if (of.is(Kind::range) && is_one_of(name, {"start", "stop", "step"}))
    found = name == "start" ? of.range().start : name == "stop" ? of.range().stop : of.range().step;
  return found.given();
}

// The index into `length` items, or nothing.
bool find_index(const Value& key, int64_t length, size_t& index) {
  if (!key.is_integer()) return false;
  const int64_t at = key.integer() < 0 ? key.integer() + length : key.integer();
  index = size_t(at);
  return at >= 0 && at < length;
}

bool find_item(const Value& of, const Value& key, Value& found) {
  size_t index = 0;
  if (of.is(Kind::dict)) {
    const bool can_be_key = !key.is(Kind::list) && !key.is(Kind::dict) && !key.is(Kind::view);
    if (const Value* value = can_be_key ? of.dict().find(key) : nullptr) found = *value;
  } else if (of.is_list()) {
    if (find_index(key, int64_t(of.items().size()), index)) found = of.items()[index];
  } else if (of.is(Kind::string)) {
    if (!find_index(key, int64_t(of.str().length), index)) return false;
    const std::string& text = of.text();
    const size_t start = of.str().ascii() ? index : byte_of(text, index);
    const size_t bytes = byte_of(std::string_view(text).substr(start), 1);
    found = part_of(of.str(), start, bytes);
  } else if (of.is(Kind::range)) {
    if (find_index(key, of.range().length(), index)) found = of.range().at(int64_t(index));
  }
  return found.given();
}

struct Bounds {
  int64_t start, stop, step, count;
};

// Python's rule for a[from:to:step] over `length` items.
Bounds slice_bounds(int64_t length, const Value& from, const Value& to, const Value& step_value) {
  const auto given = [](const Value& value) { return value.given() && !value.is(Kind::none); };
  const int64_t step = given(step_value) ? integer_argument(step_value, "the step of a slice") : 1;
  if (step == 0) throw Error("the step of a slice is 0");
  const int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? length - 1 : length;
  const auto bound = [&](const Value& value, int64_t standard) {
    if (!given(value)) return standard;
    int64_t at = integer_argument(value, "a bound of a slice");
    if (at < 0) at = at < -length ? -1 - length : at;
    return std::clamp(at < 0 ? at + length : at, lowest, highest);
  };
  const int64_t start = bound(from, step < 0 ? highest : lowest), stop = bound(to, step < 0 ? lowest : highest);
  return {start, stop, step, Range{start, stop, step}.length()};
}

}  // namespace

Value Machine::attribute(const Value& of, std::string_view name) {
  const bool internal = name.substr(0, 2) == "__";
  if (!internal) need_defined(of);
  Value found;
  if (find_attribute(*this, of, name, found)) return found;
  if (internal)
    return Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(of)));
  if (of.is(Kind::dict)) {
    if (const Value* value = of.dict().find(name)) return *value;
  }
  return Value::undefined(of.is(Kind::none) ? fmt::format("'None' has no attribute '{}'", name)
                                            : fmt::format("'{} object' has no attribute '{}'", type_name(of), name));
}

Value Machine::item(const Value& of, const Value& key) {
  need_defined(of);
  Value found;
  if (find_item(of, key, found)) return found;
  if (key.is(Kind::string)) {
    if (find_attribute(*this, of, key.text(), found)) return found;
    return Value::undefined(fmt::format("'{} object' has no attribute '{}'", type_name(of), key.text()));
  }
  const bool short_key = key.is_number() || key.is(Kind::none);
  return Value::undefined(
      fmt::format("{} object has no element {}", type_name(of), short_key ? print(key) : std::string(type_name(key))));
}

Value Machine::slice(const Value& of, const Value& from, const Value& to, const Value& step) {
  need_defined(of);
  if (of.is_list()) {
    const std::vector<Value>& all = of.items();
    const Bounds bounds = slice_bounds(int64_t(all.size()), from, to, step);
    sandbox.items(size_t(bounds.count));
    std::vector<Value> items;
    items.reserve(size_t(bounds.count));
    for (int64_t i = 0; i < bounds.count; ++i) items.push_back(all[size_t(bounds.start + i * bounds.step)]);
    return of.is(Kind::list) ? sandbox.list(std::move(items)) : sandbox.tuple(std::move(items));
  }
  if (of.is(Kind::string)) {
    const Str& text = of.str();
    const Bounds bounds = slice_bounds(int64_t(text.length), from, to, step);
    sandbox.bytes(text.text.size());
    if (bounds.step == 1) {
      const size_t start = text.ascii() ? size_t(bounds.start) : byte_of(text.text, size_t(bounds.start));
      const std::string_view rest = std::string_view(text.text).substr(start);
      return part_of(text, start, byte_of(rest, size_t(bounds.count)));
    }
    const std::u32string points = decode(text.text);
    std::u32string picked;
    for (int64_t i = 0; i < bounds.count; ++i) picked += points[size_t(bounds.start + i * bounds.step)];
    return string_value(encode(picked), text.markup);
  }
  if (of.is(Kind::range)) {
    const Range& range = of.range();
    const Bounds bounds = slice_bounds(range.length(), from, to, step);
    const auto at = [&](int64_t index) { return add(range.start, multiply(index, range.step)); };
    return Value(
        std::make_shared<const Range>(Range{at(bounds.start), at(bounds.stop), multiply(range.step, bounds.step)}));
  }
  throw Error("a {} cannot be sliced", type_name(of));
}

namespace {

Value count(Machine& machine, Args& args) {
  int64_t found = 0;
  Walk walk(machine, args.self);
  for (Value item; walk.next(item);) found += machine.equal(item, args[0]);
  return found;
}

Value index(Machine& machine, Args& args) {
  const int64_t length = machine.length(args.self);
  const auto bound = [&](size_t at, int64_t standard) {
    if (!args.has(at)) return standard;
    const int64_t given = integer_argument(args[at], "index()");
    return given < 0 ? std::max<int64_t>(given < -length ? 0 : given + length, 0) : given;
  };
  const int64_t start = bound(1, 0), stop = bound(2, length);
  Walk walk(machine, args.self);
  Value item;
  for (int64_t at = 0; walk.next(item); ++at)
    if (at >= start && at < stop && machine.equal(item, args[0])) return at;
  throw Error("index(): the value is not in the {}", type_name(args.self));
}

template <View::Of of>
Value view(Machine&, Args& args) {
  return Value(std::make_shared<const View>(View{of, args.self.shared_dict()}));
}

Value get(Machine&, Args& args) {
  const Value* found = args.self.dict().find(args[0]);
  return found ? *found : args.has(1) ? args[1] : Value::none();
}

Value from_keys(Machine& machine, Args& args) {
  Dict dict;
  for (Value& key : machine.to_vector(args[0])) dict.set(std::move(key), args.has(1) ? args[1] : Value::none());
  return machine.sandbox.dict(std::move(dict));
}

constexpr Function list_table[] = {
    {"count", "/value!", count},
    {"index", "/value! start stop", index},
    {"copy", "/", [](Machine&, Args& args) { return args.self; }},
};
constexpr Function tuple_table[] = {
    {"count", "/value!", count},
    {"index", "/value! start stop", index},
};
constexpr Function dict_table[] = {
    {"get", "/key! default", get},
    {"items", "/", view<View::Of::items>},
    {"keys", "/", view<View::Of::keys>},
    {"values", "/", view<View::Of::values>},
    {"copy", "/", [](Machine&, Args& args) { return args.self; }},
    {"fromkeys", "/iterable! value", from_keys},
};

}  // namespace

std::span<const Function> list_methods() { return list_table; }
std::span<const Function> tuple_methods() { return tuple_table; }
std::span<const Function> dict_methods() { return dict_table; }

}  // namespace heddle::text::jinja
