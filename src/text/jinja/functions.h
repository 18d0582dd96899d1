// Functions, filters, tests and methods: tables of name, parameters and implementation; and what these share,
// formatting and JSON included.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace heddle::text::jinja {

class Machine;

// The arguments of a call. After bind() `list` has one value per parameter, Kind::missing where none was given.
struct Args {
  const Value& operator[](size_t index) const { return list[index]; }
  bool has(size_t index) const { return list[index].given(); }
  bool flag(size_t index) const { return has(index) && truth(list[index]); }

  Value self;  // the object of a method, the value before a filter or test
  std::vector<Value> list;
  std::vector<std::pair<std::string, Value>> named;
};

struct Function {
  std::string_view name;
  // Names separated by spaces: "old! new! count". "!": required. Only "*": any arguments, not bound. "/" first: none of
  // them can be given by name.
  std::string_view parameters;
  Value (*run)(Machine&, Args&);
};

void bind(const Function& function, Args& args);  // throws Error for arguments it does not take

const Function* find_filter(std::string_view name);
const Function* find_test(std::string_view name);
const Function* find_global(std::string_view name);
const Function* find_method(const Value& self, std::string_view name);  // string, list, tuple, dict, range

// The tables, each in the file of its subject.
std::span<const Function> text_filters();
std::span<const Function> markup_filters();
std::span<const Function> number_filters();
std::span<const Function> sequence_filters();
std::span<const Function> selecting_filters();
std::span<const Function> tests();
std::span<const Function> globals();
std::span<const Function> string_methods();
std::span<const Function> splitting_methods();
std::span<const Function> list_methods();
std::span<const Function> tuple_methods();
std::span<const Function> dict_methods();

// Arguments of the type a function needs; throw Error naming it.
int64_t integer_argument(const Value& value, std::string_view what);
const Value& string_argument(const Value& value, std::string_view what);

// Shared by filters and methods.

// As str.replace(): at most `limit` times; negative: all.
Text replace_text(Machine& machine, const Str& text, std::string_view from, const Str& to, int64_t limit);

// "a.b.0": the attribute argument of sort, map, groupby and others.
class AttributePath {
 public:
  explicit AttributePath(const Value& attribute);  // missing or none: the item itself
  // `standard` replaces what is undefined along the path, if it is given.
  Value get(Machine& machine, Value item, const Value& standard = {}) const;

 private:
  std::vector<Value> parts_;
};

Value ignore_case(Machine& machine, const Value& value);  // a string in lower case, anything else as it is

// Formatting as in Python: "%s" % value, "{}".format(value), and dates by strftime.
Value format_percent(Machine& machine, const Value& format, const Value& values);
Value format_braces(Machine& machine, const Value& format, Args& args);
// One value by a specification such as ">8.2f".
std::string format_value(Machine& machine, const Value& value, std::string_view spec);

// A date by strftime's directives, in UTC and English whatever the locale. `seconds`: since 1970.
std::string strftime_utc(std::string_view format, int64_t seconds);

// Keeps the order of members; of two members of one name the last counts, at the place of the first, as in Python.
Value parse_json(std::string_view text, std::string_view where, uint32_t max_depth);

struct JsonStyle {
  bool ascii = false, sorted = false, lines = false;
  std::string indent, item_separator = ", ", key_separator = ": ";
};
std::string to_json(Machine& machine, const Value& value, const JsonStyle& style);

}  // namespace heddle::text::jinja
