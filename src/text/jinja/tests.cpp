// What can stand after `is`.
#include "base/error.h"
#include "text/jinja/machine.h"
#include "text/jinja/unicode.h"

namespace heddle::text::jinja {
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
