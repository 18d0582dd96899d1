// Statements; the variable `loop` inside a for, and macros.
#include "base/error.h"
#include "text/jinja/machine.h"
#include "text/jinja/python.h"

namespace heddle::text::jinja {
namespace {

// Redirects the output while it lives.
class Redirect {
 public:
  Redirect(Text*& out, Text& to) : out_(out), before_(std::exchange(out, &to)) {}
  ~Redirect() { out_ = before_; }
  Redirect(const Redirect&) = delete;

 private:
  Text*& out_;
  Text* before_;
};

}  // namespace

Machine::Machine(const Ast& ast, const TemplateLimits& limits, Dict variables, int64_t now)
    : sandbox(limits), ast_(ast), context_(ast.names.size()), now_(now) {
  for (size_t i = 0; i < ast.names.size(); ++i) {
    if (const Value* value = variables.find(ast.names[i]))
      context_[i] = *value;
    else if (const Function* function = find_global(ast.names[i]))
      context_[i] = Value(function);
  }
}

Text Machine::run() {
  Inner scope(*this, nullptr);
  try {
    return render(ast_.body, *scope);
  } catch (const TemplateRefused&) {
    throw;
  } catch (const Error& error) {
    fail_at(at_, "{}", error.what());
  }
}

Machine::Inner::Inner(Machine& machine, Scope* parent) : machine_(machine) {
  if (machine.spare_scopes_.empty()) {
    scope_ = std::make_unique<Scope>();
  } else {
    scope_ = std::move(machine.spare_scopes_.back());
    machine.spare_scopes_.pop_back();
  }
  scope_->parent = parent;
}
Machine::Inner::~Inner() {
  if (scope_->kept) {
    machine_.kept_scopes_.push_back(std::move(scope_));
    return;
  }
  scope_->variables.clear();
  machine_.spare_scopes_.push_back(std::move(scope_));
}

Text Machine::render(const Body& body, Scope& scope) {
  const Sandbox::Deeper deeper(sandbox);
  Text text;
  const Redirect redirect(out_, text);
  execute(body, scope);
  return text;
}

Text Machine::render_loop(const Stmt& stmt, const Value& items, Scope& scope, int64_t depth) {
  const Sandbox::Deeper deeper(sandbox);
  Text text;
  const Redirect redirect(out_, text);
  execute_loop(stmt, items, scope, depth);
  return text;
}

Text Machine::capture(const Body& body, Scope& parent, Flow& flow) {
  Text text;
  const Redirect redirect(out_, text);
  Inner scope(*this, &parent);
  flow = execute(body, *scope);
  return text;
}

Machine::Flow Machine::execute(const Body& body, Scope& scope) {
  const Sandbox::Deeper deeper(sandbox);
  for (const auto& stmt : body) {
    sandbox.step();
    if (const Flow flow = execute(*stmt, scope); flow != Flow::next) return flow;
  }
  return Flow::next;
}

Machine::Flow Machine::execute(const Stmt& stmt, Scope& scope) {
  at_ = stmt.at;
  Flow flow = Flow::next;
  switch (stmt.kind) {
    case Stmt::Kind::text:
      write(stmt.text);
      break;
    case Stmt::Kind::print: {
      const Value value = evaluate(*stmt.value, scope);
      print_to(*out_, value);
      break;
    }
    case Stmt::Kind::branch:
      return execute_branch(stmt, scope);
    case Stmt::Kind::loop:
      execute_loop(stmt, evaluate(*stmt.value, scope), scope, 0);
      break;
    case Stmt::Kind::set:
      assign(stmt.target, evaluate(*stmt.value, scope), scope);
      break;
    case Stmt::Kind::set_block:
    case Stmt::Kind::filter_block: {
      Value text = string_value(capture(stmt.body, scope, flow));
      if (flow != Flow::next) return flow;
      if (stmt.value) text = evaluate_filters(*stmt.value, scope, std::move(text));
      if (stmt.kind == Stmt::Kind::set_block)
        assign(stmt.target, std::move(text), scope);
      else
        print_to(*out_, text);
      break;
    }
    case Stmt::Kind::with:
      return execute_with(stmt, scope);
    case Stmt::Kind::macro:
      scope.set(stmt.target.name, make_macro(stmt.macro, scope));
      break;
    case Stmt::Kind::call:
      execute_call(stmt, scope);
      break;
    case Stmt::Kind::scope: {
      Inner inner(*this, &scope);
      return execute(stmt.body, *inner);
    }
    case Stmt::Kind::evaluate:
      evaluate(*stmt.value, scope);
      break;
    case Stmt::Kind::stop:
      return Flow::stop;
    case Stmt::Kind::skip:
      return Flow::skip;
  }
  return flow;
}

Machine::Flow Machine::execute_branch(const Stmt& stmt, Scope& scope) {
  for (const Stmt::Branch& branch : stmt.branches)
    if (!branch.condition || truth(evaluate(*branch.condition, scope))) return execute(branch.body, scope);
  return Flow::next;
}

void Machine::execute_loop(const Stmt& stmt, const Value& items, Scope& scope, int64_t depth) {
  at_ = stmt.at;
  if (stmt.recursive) keep(scope);
  Walk walk(*this, items);
  const auto next = [&](Value& item) {
    for (;;) {
      sandbox.step();
      if (!walk.next(item)) return false;
      if (!stmt.condition) return true;
      Inner inner(*this, &scope);
      assign(stmt.target, item, *inner);
      if (truth(evaluate(*stmt.condition, *inner))) return true;
    }
  };
  const bool has_length = !stmt.condition && !(items.is(Kind::object));
  auto* loop = sandbox.object<Loop>(stmt, scope, depth, next, has_length ? std::optional(length(items)) : std::nullopt);
  struct Finish {  // `next` refers to this function's variables
    ~Finish() { loop->finish(); }
    Loop* loop;
  } finish{loop};
  bool empty = true;
  for (Value item; loop->advance(item);) {
    empty = false;
    Inner inner(*this, &scope);
    (*inner).set(Ast::loop, Value(loop));
    assign(stmt.target, std::move(item), *inner);
    if (execute(stmt.body, *inner) == Flow::stop) break;
  }
  if (!empty || stmt.otherwise.empty()) return;
  Inner inner(*this, &scope);
  execute(stmt.otherwise, *inner);
}

Machine::Flow Machine::execute_with(const Stmt& stmt, Scope& scope) {
  Inner inner(*this, &scope);
  for (size_t i = 0; i < stmt.targets.size(); ++i) assign(stmt.targets[i], evaluate(*stmt.values[i], scope), *inner);
  return execute(stmt.body, *inner);
}

void Machine::keep(Scope& scope) {
  for (Scope* at = &scope; at && !at->kept; at = at->parent) at->kept = true;
}

Value Machine::make_macro(const std::shared_ptr<const MacroSpec>& spec, Scope& scope) {
  keep(scope);
  return Value(sandbox.object<Macro>(spec, scope));
}

void Machine::execute_call(const Stmt& stmt, Scope& scope) {
  const Expr& expr = *stmt.value;
  const Value callee = evaluate(*expr.of[0], scope);
  Args args = evaluate_args(expr.args, scope);
  args.named.emplace_back("caller", make_macro(stmt.macro, scope));
  at_ = stmt.at;
  const Value text = call(callee, std::move(args));
  print_to(*out_, text);
}

void Machine::assign(const Target& target, Value value, Scope& scope) {
  if (target.kind == Target::Kind::name) {
    sandbox.step(scope.variables.size() / 32);
    scope.set(target.name, std::move(value));
    return;
  }
  at_ = target.at;
  if (target.kind == Target::Kind::member) {
    const Value space = lookup(target.name, scope);
    auto* members = space.is(Kind::object) ? dynamic_cast<Namespace*>(space.object()) : nullptr;
    if (!members)
      throw Error("{}.{} is set, but '{}' is not a namespace but a {}", ast_.names[target.name], target.member,
                  ast_.names[target.name], type_name(space));
    sandbox.bytes(sizeof(Value));
    members->members.set(string_value(target.member), std::move(value));
    return;
  }
  std::vector<Value> items = to_vector(value);
  if (items.size() != target.items.size())
    throw Error("expected {} values to assign, found {}", target.items.size(), items.size());
  for (size_t i = 0; i < items.size(); ++i) assign(target.items[i], std::move(items[i]), scope);
}

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
