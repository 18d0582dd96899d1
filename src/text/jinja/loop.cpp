#include "text/jinja/loop.h"

#include "base/error.h"
#include "text/jinja/number.h"

namespace heddle::text::jinja {
namespace {

constexpr Function loop_methods[] = {
    {"cycle", "*", [](Machine&, Args& args) { return static_cast<Loop*>(args.self.object())->cycle(args); }},
    {"changed", "*",
     [](Machine& machine, Args& args) { return static_cast<Loop*>(args.self.object())->changed(machine, args); }},
};

}  // namespace

bool Loop::peek() {
  if (!ahead_.empty()) return true;
  Value item;
  if (!next_ || !next_(item)) return false;
  ahead_.push_back(std::move(item));
  return true;
}

bool Loop::advance(Value& item) {
  if (!peek()) return false;
  item = std::move(ahead_.back());
  ahead_.pop_back();
  ++index_;
  before_ = std::move(current_);
  current_ = item;
  return true;
}

int64_t Loop::length() {
  if (!length_) {
    std::vector<Value> rest;
    for (Value item; next_ && next_(item);) rest.push_back(std::move(item));
    rest.insert(rest.begin(), ahead_.begin(), ahead_.end());
    length_ = int64_t(rest.size()) + index_ + 1;
    ahead_.assign(rest.rbegin(), rest.rend());
  }
  return *length_;
}

bool Loop::attribute(Machine&, std::string_view name, Value& found) {
  if (name == "index")
    found = index_ + 1;
  else if (name == "index0")
    found = index_;
  else if (name == "first")
    found = index_ == 0;
  else if (name == "last")
    found = !peek();
  else if (name == "length")
    found = length();
  else if (name == "revindex")
    found = length() - index_;
  else if (name == "revindex0")
    found = length() - index_ - 1;
  else if (name == "depth")
    found = depth_ + 1;
  else if (name == "depth0")
    found = depth_;
  else if (name == "previtem")
    found = index_ == 0 ? Value::undefined("there is no previous item") : before_;
  else if (name == "nextitem")
    found = peek() ? ahead_.back() : Value::undefined("there is no next item");
  else
    for (const Function& method : loop_methods)
      if (method.name == name) found = Value(&method, std::make_shared<const Bound>(Bound{Value(this)}));
  return found.given();
}

Value Loop::cycle(const Args& args) const {
  if (args.list.empty()) throw Error("loop.cycle() needs at least one value");
  return args.list[size_t(index_) % args.list.size()];
}

Value Loop::changed(Machine& machine, Args& args) {
  Value now = machine.sandbox.tuple(std::move(args.list));
  if (changed_.given() && machine.equal(changed_, now)) return false;
  changed_ = std::move(now);
  return true;
}

Value Loop::call(Machine& machine, Args& args) {
  if (!stmt_.recursive) throw Error("loop() can be called only in a loop marked recursive");
  if (args.list.size() != 1) throw Error("loop() takes one argument, found {}", args.list.size());
  return machine.sandbox.string(machine.render_loop(stmt_, args.list[0], *scope_, depth_ + 1));
}

bool Macro::attribute(Machine& machine, std::string_view name, Value& found) {
  if (name == "name") {
    found = string_value(spec_->name);
  } else if (name == "arguments") {
    std::vector<Value> names;
    for (const Parameter& parameter : spec_->parameters) names.push_back(string_value(parameter.text));
    found = machine.sandbox.list(std::move(names));
  } else if (name == "catch_kwargs" || name == "catch_varargs" || name == "caller") {
    found = name == "caller" ? spec_->caller.has_value()
                             : (name == "catch_kwargs" ? spec_->named : spec_->rest).has_value();
  }
  return found.given();
}

std::string Macro::print(Machine& machine) const { return "<Macro " + machine.repr(string_value(spec_->name)) + ">"; }

Value Macro::call(Machine& machine, Args& args) {
  machine.sandbox.step();
  Machine::Inner scope(machine, scope_);
  const auto take_named = [&](std::string_view name) {
    Value value;
    std::erase_if(args.named, [&](auto& named) {
      if (named.first != name) return false;
      value = std::move(named.second);
      return true;
    });
    return value;
  };
  const size_t positional = std::min(args.list.size(), spec_->parameters.size());
  bool caller_is_parameter = false;
  std::vector<const Parameter*> missing;
  for (size_t i = 0; i < spec_->parameters.size(); ++i) {
    const Parameter& parameter = spec_->parameters[i];
    Value value = i < positional ? args.list[i] : take_named(parameter.text);
    caller_is_parameter |= parameter.text == "caller";
    if (!value.given()) {
      if (parameter.standard) missing.push_back(&parameter);
      value = Value::undefined(fmt::format("parameter '{}' was not provided", parameter.text));
    }
    (*scope).set(parameter.name, std::move(value));
  }
  if (spec_->caller && !caller_is_parameter) {
    Value caller = take_named("caller");
    (*scope).set(*spec_->caller, caller.given() ? caller : Value::undefined("No caller defined"));
  }
  if (spec_->named) {
    Dict named;
    for (auto& [name, value] : args.named) named.set(string_value(name), std::move(value));
    (*scope).set(*spec_->named, machine.sandbox.dict(std::move(named)));
  } else if (!args.named.empty()) {
    throw Error("the macro '{}' takes no argument named '{}'", spec_->name, args.named[0].first);
  }
  if (spec_->rest)
    (*scope).set(*spec_->rest, machine.sandbox.tuple({args.list.begin() + int64_t(positional), args.list.end()}));
  else if (args.list.size() > positional)
    throw Error("the macro '{}' takes {} arguments, found {}", spec_->name, positional, args.list.size());
  for (const Parameter* parameter : missing)
    (*scope).set(parameter->name, machine.evaluate(*parameter->standard, *scope));
  return string_value(machine.render(spec_->body, *scope));
}

}  // namespace heddle::text::jinja
