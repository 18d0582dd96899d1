// Calls, iteration, and the default behaviour of objects.
#include <algorithm>

#include "base/error.h"
#include "text/jinja/machine.h"
#include "text/jinja/python.h"

namespace heddle::text::jinja {

void bind(const Function& function, Args& args) {
  std::string_view rest = function.parameters;
  if (rest == "*") return;
  const bool by_position = rest.substr(0, 1) == "/";
  if (by_position) rest.remove_prefix(1);
  if (by_position && !args.named.empty()) throw Error("{}() takes no named arguments", function.name);
  size_t count = 0;
  while (!rest.empty()) {
    const size_t space = std::min(rest.find(' '), rest.size());
    std::string_view name = rest.substr(0, space);
    rest.remove_prefix(std::min(space + 1, rest.size()));
    const bool required = name.back() == '!';
    if (required) name.remove_suffix(1);
    const bool positional = count < args.list.size();
    if (!positional) args.list.emplace_back();
    for (auto& [given, value] : args.named)
      if (given == name) {
        if (positional) throw Error("{}() got two values for '{}'", function.name, name);
        args.list[count] = std::move(value);
        given.clear();
      }
    if (required && !args.list[count].given()) throw Error("{}() misses the argument '{}'", function.name, name);
    ++count;
  }
  if (args.list.size() > count)
    throw Error("{}() takes {} arguments, found {}", function.name, count, args.list.size());
  for (const auto& named : args.named)
    if (!named.first.empty()) throw Error("{}() takes no argument named '{}'", function.name, named.first);
}

int64_t integer_argument(const Value& value, std::string_view what) {
  need_defined(value);
  if (!value.is_integer()) throw Error("expected an integer for {}, found {}", what, type_name(value));
  return value.integer();
}
const Value& string_argument(const Value& value, std::string_view what) {
  need_defined(value);
  if (!value.is(Kind::string)) throw Error("expected a string for {}, found {}", what, type_name(value));
  return value;
}

Value Machine::call(const Function& function, Args args) {
  const Sandbox::Deeper deeper(sandbox);
  sandbox.step();
  bind(function, args);
  return function.run(*this, args);
}

Value Machine::call(const Value& callee, Args args) {
  need_defined(callee);
  if (callee.is(Kind::function)) {
    if (callee.bound()) args.self = callee.bound()->self;
    return call(*callee.function(), std::move(args));
  }
  if (!callee.is(Kind::object)) throw Error("a {} cannot be called", type_name(callee));
  const Sandbox::Deeper deeper(sandbox);
  return callee.object()->call(*this, args);
}

Value Object::call(Machine&, Args&) { throw Error("a {} cannot be called", type()); }
std::string Object::print(Machine&) const {
  throw Error("a {} has no text of its own: use |list to see its items", type());
}

bool Iterator::next(Machine& machine, Value& value) {
  if (running_) throw Error("a {} is used inside itself", type_);
  struct Running {
    ~Running() { flag = false; }
    bool& flag;
  } running{running_};
  running_ = true;
  const Sandbox::Deeper deeper(machine.sandbox);
  machine.sandbox.step();
  if (next_ && next_(machine, value)) return true;
  next_ = nullptr;
  return false;
}

bool Namespace::attribute(Machine&, std::string_view name, Value& found) {
  const Value* member = members.find(name);
  if (member) found = *member;
  return member != nullptr;
}
std::string Namespace::print(Machine& machine) const {
  const Sandbox::Deeper deeper(machine.sandbox);
  return "<Namespace " + machine.repr(machine.sandbox.dict(members)) + ">";
}

Value Machine::iterator(std::string_view type, Iterator::Next next) {
  return Value(sandbox.object<Iterator>(type, std::move(next)));
}

Walk::Walk(Machine& machine, Value value) : machine_(machine), value_(std::move(value)) {
  const bool iterable = value_.is(Kind::undefined) || value_.is(Kind::string) || value_.is_list() ||
                        value_.is(Kind::dict) || value_.is(Kind::view) || value_.is(Kind::range) ||
                        (value_.is(Kind::object) && value_.object()->iterable());
  if (!iterable) throw Error("a {} cannot be iterated", type_name(value_));
}

bool Walk::next(Value& item) {
  switch (value_.kind()) {
    case Kind::string: {
      const std::string& text = value_.text();
      if (at_ >= text.size()) return false;
      const size_t start = at_++;
      while (at_ < text.size() && (static_cast<unsigned char>(text[at_]) & 0xC0u) == 0x80u) ++at_;
      Text character;
      machine_.sandbox.append(character, value_.str(), start, at_ - start);
      item = string_value(std::move(character));
      return true;
    }
    case Kind::list:
    case Kind::tuple:
      if (at_ >= value_.items().size()) return false;
      item = value_.items()[at_++];
      return true;
    case Kind::dict:
      if (at_ >= value_.dict().size()) return false;
      item = value_.dict().items[at_++].first;
      return true;
    case Kind::view: {
      const auto& [of, dict] = value_.view();
      if (at_ >= dict->size()) return false;
      const auto& [key, value] = dict->items[at_++];
      item = of == View::Of::keys ? key : of == View::Of::values ? value : machine_.sandbox.pair(key, value);
      return true;
    }
    case Kind::range:
      if (at_ >= size_t(value_.range().length())) return false;
      item = value_.range().at(int64_t(at_++));
      return true;
    case Kind::object:
      return value_.object()->next(machine_, item);
    default:
      return false;
  }
}

std::vector<Value> Machine::to_vector(const Value& iterable) {
  if (iterable.is_list()) {
    sandbox.items(iterable.items().size());
    return iterable.items();
  }
  std::vector<Value> items;
  Walk walk(*this, iterable);
  for (Value item; walk.next(item);) {
    items.push_back(std::move(item));
    sandbox.step();
    if (items.size() % 1024 == 0) sandbox.items(items.size());
  }
  return items;
}

int64_t Machine::length(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return int64_t(value.str().length);
    case Kind::list:
    case Kind::tuple:
      return int64_t(value.items().size());
    case Kind::dict:
      return int64_t(value.dict().size());
    case Kind::view:
      return int64_t(value.view().dict->size());
    case Kind::range:
      return value.range().length();
    default:
      throw Error("a {} has no length", type_name(value));
  }
}

const Function* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), markup_filters(), number_filters(), sequence_filters(), selecting_filters()})
    for (const Function& function : table)
      if (function.name == name) return &function;
  return nullptr;
}
namespace {
const Function* find_in(std::span<const Function> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [name](const Function& one) { return one.name == name; });
  return found == table.end() ? nullptr : &*found;
}
}  // namespace
const Function* find_test(std::string_view name) { return find_in(tests(), name); }
const Function* find_global(std::string_view name) { return find_in(globals(), name); }
const Function* find_method(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Kind::string:
      if (const Function* method = find_in(string_methods(), name)) return method;
      return find_in(splitting_methods(), name);
    case Kind::list:
      return find_in(list_methods(), name);
    case Kind::tuple:
    case Kind::range:
      return find_in(tuple_methods(), name);
    case Kind::dict:
      return find_in(dict_methods(), name);
    default:
      return nullptr;
  }
}

}  // namespace heddle::text::jinja
