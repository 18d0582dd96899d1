// Functions that every template has, and tests: what can stand after `is`.
#include "base/error.h"
#include "text/jinja/functions.h"
#include "text/jinja/machine.h"
#include "text/jinja/python.h"

namespace heddle::text::jinja {
namespace {

constexpr int64_t max_range = 100'000;  // jinja2's limit in its sandbox

class Cycler : public Object {
 public:
  explicit Cycler(Value items) : items_(std::move(items)) {}
  std::string_view type() const override { return "Cycler"; }
  bool attribute(Machine&, std::string_view name, Value& found) override {
    static constexpr Function next = {"next", "/", [](Machine&, Args& args) {
                                        auto* cycler = static_cast<Cycler*>(args.self.object());
                                        const size_t at = cycler->at_++;
                                        cycler->at_ %= cycler->items_.items().size();
                                        return cycler->items_.items()[at];
                                      }};
    static constexpr Function reset = {"reset", "/", [](Machine&, Args& args) {
                                         static_cast<Cycler*>(args.self.object())->at_ = 0;
                                         return Value::none();
                                       }};
    if (name == "current")
      found = items_.items()[at_];
    else if (name == "items")
      found = items_;
    else if (name == "pos")
      found = int64_t(at_);
    else if (name == "next" || name == "reset")
      found = Value(name == "next" ? &next : &reset, std::make_shared<const Bound>(Bound{Value(this)}));
    return found.given();
  }

 private:
  Value items_;
  size_t at_ = 0;
};

class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string_view type() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Machine&, Args& args) override {
    if (!args.list.empty() || !args.named.empty()) throw Error("a joiner is called without arguments");
    return std::exchange(used_, true) ? separator_ : string_value("");
  }
  bool attribute(Machine&, std::string_view name, Value& found) override {
    if (name == "sep") found = separator_;
    if (name == "used") found = used_;
    return found.given();
  }

 private:
  Value separator_;
  bool used_ = false;
};

// dict(pairs or dict, name=value, ...)
Dict make_dict(Machine& machine, Args& args) {
  Dict dict;
  if (args.list.size() > 1) throw Error("dict() takes one argument, found {}", args.list.size());
  if (!args.list.empty() && args.list[0].is(Kind::dict)) {
    machine.sandbox.items(2 * args.list[0].dict().size());
    dict = args.list[0].dict();
  } else if (!args.list.empty()) {
    Walk walk(machine, args.list[0]);
    for (Value item; walk.next(item);) {
      std::vector<Value> pair = machine.to_vector(item);
      if (pair.size() != 2) throw Error("dict() needs pairs, found {} values", pair.size());
      dict.set(std::move(pair[0]), std::move(pair[1]));
    }
  }
  for (auto& [name, value] : args.named) dict.set(string_value(name), std::move(value));
  return dict;
}

Value make_range(Machine&, Args& args) {
  if (args.list.empty() || args.list.size() > 3 || !args.named.empty())
    throw Error("range() takes one to three arguments, found {}", args.list.size() + args.named.size());
  Range range;
  if (args.list.size() == 1) {
    range.stop = integer_argument(args.list[0], "range()");
  } else {
    range.start = integer_argument(args.list[0], "range()");
    range.stop = integer_argument(args.list[1], "range()");
    if (args.list.size() == 3) range.step = integer_argument(args.list[2], "range()");
  }
  if (range.step == 0) throw Error("range() with a step of 0");
  if (range.length() > max_range) throw Error("range() with {} items: more than {}", range.length(), max_range);
  return Value(std::make_shared<const Range>(range));
}

Value raise_exception(Machine& machine, Args& args) {
  const std::string words = machine.print(args[0]);
  throw TemplateRefused("{}", words);
}

constexpr Function table[] = {
    {"range", "*", make_range},
    {"dict", "*", [](Machine& machine, Args& args) { return machine.sandbox.dict(make_dict(machine, args)); }},
    {"namespace", "*",
     [](Machine& machine, Args& args) {
       auto* space = machine.sandbox.object<Namespace>();
       space->members = make_dict(machine, args);
       return Value(space);
     }},
    {"cycler", "*",
     [](Machine& machine, Args& args) {
       if (args.list.empty()) throw Error("cycler() needs at least one value");
       return Value(machine.sandbox.object<Cycler>(machine.sandbox.tuple(std::move(args.list))));
     }},
    {"joiner", "sep",
     [](Machine& machine, Args& args) {
       return Value(machine.sandbox.object<Joiner>(args.has(0) ? args[0] : string_value(", ")));
     }},
    {"lipsum", "*",
     [](Machine&, Args&) -> Value { throw Error("lipsum() gives another text each time: not in heddle"); }},
    {"raise_exception", "message!", raise_exception},
    {"strftime_now", "format!",
     [](Machine& machine, Args& args) {
       const std::string& format = string_argument(args[0], "strftime_now()").text();
       machine.sandbox.bytes(format.size() * 16);
       return machine.sandbox.string(strftime_utc(format, machine.now()));
     }},
};

}  // namespace

std::span<const Function> globals() { return table; }

namespace {

template <Kind kind>
Value is_kind(Machine&, Args& args) {
  return args.self.is(kind);
}

bool has_remainder(Machine& machine, const Value& value, const Value& by, const Value& expected) {
  return machine.equal(machine.operate("%", value, by), expected);
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::view:
    case Kind::range:
      return true;
    case Kind::object:
      return value.object()->iterable();
    default:
      return false;
  }
}
bool is_sequence(const Value& value) { return is_iterable(value) && !value.is(Kind::object) && !value.is(Kind::view); }

bool is_callable(const Value& value) {
  return value.is(Kind::undefined) || value.is(Kind::function) ||
         (value.is(Kind::object) && value.object()->callable());
}

template <const Function* (*find)(std::string_view)>
Value names(Machine&, Args& args) {
  key_of(args.self);  // refuses what Python cannot look up in a dict
  return args.self.is(Kind::string) && find(args.self.text()) != nullptr;
}

// Letters of one case only, and at least one: str.islower(), str.isupper() of the value's text.
template <bool (*right)(char32_t), bool (*wrong)(char32_t)>
Value has_one_case(Machine& machine, Args& args) {
  bool any = false;
  for (const char32_t c : decode(machine.print(args.self))) {
    if (wrong(c) || is_title(c)) return false;
    any = any || right(c);
  }
  return any;
}

template <bool swapped, bool negated>
Value ordered(Machine& machine, Args& args) {
  const auto is_nan = [](const Value& value) { return value.is(Kind::real) && value.real() != value.real(); };
  const Value &a = swapped ? args[0] : args.self, &b = swapped ? args.self : args[0];
  const bool less = machine.less(a, b);
  return negated ? !less && !is_nan(a) && !is_nan(b) : less;
}
Value equals(Machine& machine, Args& args) { return machine.equal(args.self, args[0]); }
Value differs(Machine& machine, Args& args) { return !machine.equal(args.self, args[0]); }
constexpr auto less = ordered<false, false>;
constexpr auto greater = ordered<true, false>;
constexpr auto at_most = ordered<true, true>;
constexpr auto at_least = ordered<false, true>;

constexpr Function test_table[] = {
    {"odd", "", [](Machine& m, Args& args) { return Value(has_remainder(m, args.self, Value(2), Value(1))); }},
    {"even", "", [](Machine& m, Args& args) { return Value(has_remainder(m, args.self, Value(2), Value(0))); }},
    {"divisibleby", "num!",
     [](Machine& m, Args& args) { return Value(has_remainder(m, args.self, args[0], Value(0))); }},
    {"defined", "", [](Machine&, Args& args) { return Value(!args.self.is(Kind::undefined)); }},
    {"undefined", "", is_kind<Kind::undefined>},
    {"filter", "", names<find_filter>},
    {"test", "", names<find_test>},
    {"none", "", is_kind<Kind::none>},
    {"boolean", "", is_kind<Kind::boolean>},
    {"false", "", [](Machine&, Args& args) { return Value(args.self.is(Kind::boolean) && !args.self.boolean()); }},
    {"true", "", [](Machine&, Args& args) { return Value(args.self.is(Kind::boolean) && args.self.boolean()); }},
    {"integer", "", [](Machine&, Args& args) { return Value(args.self.is(Kind::integer) || args.self.is(Kind::big)); }},
    {"float", "", is_kind<Kind::real>},
    {"lower", "", has_one_case<is_lower, is_upper>},
    {"upper", "", has_one_case<is_upper, is_lower>},
    {"string", "", is_kind<Kind::string>},
    {"mapping", "", is_kind<Kind::dict>},
    {"number", "", [](Machine&, Args& args) { return Value(args.self.is_number() || args.self.is(Kind::big)); }},
    {"sequence", "", [](Machine&, Args& args) { return Value(is_sequence(args.self)); }},
    {"iterable", "", [](Machine&, Args& args) { return Value(is_iterable(args.self)); }},
    {"callable", "", [](Machine&, Args& args) { return Value(is_callable(args.self)); }},
    {"sameas", "other!", [](Machine&, Args& args) { return Value(args.self.same_as(args[0])); }},
    {"escaped", "", [](Machine&, Args& args) { return Value(args.self.is(Kind::string) && args.self.str().markup); }},
    {"in", "seq!", [](Machine& machine, Args& args) { return Value(machine.contains(args[0], args.self)); }},
    {"==", "/b!", equals},
    {"eq", "/b!", equals},
    {"equalto", "/b!", equals},
    {"!=", "/b!", differs},
    {"ne", "/b!", differs},
    {">", "/b!", greater},
    {"gt", "/b!", greater},
    {"greaterthan", "/b!", greater},
    {">=", "/b!", at_least},
    {"ge", "/b!", at_least},
    {"<", "/b!", less},
    {"lt", "/b!", less},
    {"lessthan", "/b!", less},
    {"<=", "/b!", at_most},
    {"le", "/b!", at_most},
};

}  // namespace

std::span<const Function> tests() { return test_table; }

}  // namespace heddle::text::jinja
