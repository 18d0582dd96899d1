// Expressions.
#include "base/error.h"
#include "text/jinja/machine.h"
#include "text/jinja/number.h"

namespace heddle::text::jinja {

void fail_undefined(const Value& value) { throw Error("{}", value.why().reason); }

Value Machine::lookup(NameId name, Scope& scope) {
  for (Scope* at = &scope; at; at = at->parent) {
    sandbox.step(at->variables.size() / 32);
    if (const Value* found = at->find(name)) return *found;
  }
  if (context_[name].given()) return context_[name];
  return Value::undefined(fmt::format("'{}' is undefined", ast_.names[name]));
}

Value Machine::evaluate(const Expr& expr, Scope& scope) {
  sandbox.step();
  if (expr.kind == Expr::Kind::constant) return expr.value;
  if (expr.kind == Expr::Kind::name) return lookup(expr.name, scope);
  const Sandbox::Deeper deeper(sandbox);
  return evaluate_inner(expr, scope);
}

Value Machine::evaluate_inner(const Expr& expr, Scope& scope) {
  const auto of = [&](size_t index) { return evaluate(*expr.of[index], scope); };
  switch (expr.kind) {
    case Expr::Kind::constant:
    case Expr::Kind::name:
      break;
    case Expr::Kind::list:
    case Expr::Kind::tuple:
      return evaluate_list(expr, scope);
    case Expr::Kind::dict:
      return evaluate_dict(expr, scope);
    case Expr::Kind::attribute: {
      const Value base = of(0);
      at_ = expr.at;
      return attribute(base, expr.text);
    }
    case Expr::Kind::item: {
      const Value base = of(0), key = of(1);
      at_ = expr.at;
      return item(base, key);
    }
    case Expr::Kind::slice:
      return evaluate_slice(expr, scope);
    case Expr::Kind::call:
      return evaluate_call(expr, scope);
    case Expr::Kind::filter:
    case Expr::Kind::test:
      return evaluate_filter(expr, scope, of(0));
    case Expr::Kind::negate:
    case Expr::Kind::plus:
      return evaluate_unary(expr, scope);
    case Expr::Kind::inverse:
      return !truth(of(0));
    case Expr::Kind::binary: {
      const Value a = of(0), b = of(1);
      at_ = expr.at;
      return operate(expr.text, a, b);
    }
    case Expr::Kind::compare:
      return evaluate_compare(expr, scope);
    case Expr::Kind::both: {
      Value a = of(0);
      return truth(a) ? of(1) : a;
    }
    case Expr::Kind::either: {
      Value a = of(0);
      return truth(a) ? a : of(1);
    }
    case Expr::Kind::concat:
      return evaluate_concat(expr, scope);
    case Expr::Kind::choice:
      if (truth(of(0))) return of(1);
      if (expr.of[2]) return of(2);
      return Value::undefined(fmt::format("the inline if on line {} was false and has no else", expr.at.line));
  }
  return expr.value;
}

Value Machine::evaluate_list(const Expr& expr, Scope& scope) {
  std::vector<Value> items;
  items.reserve(expr.of.size());
  for (const ExprPtr& item : expr.of) items.push_back(evaluate(*item, scope));
  at_ = expr.at;
  return expr.kind == Expr::Kind::list ? sandbox.list(std::move(items)) : sandbox.tuple(std::move(items));
}

Value Machine::evaluate_dict(const Expr& expr, Scope& scope) {
  Dict dict;
  for (size_t i = 0; i < expr.of.size(); i += 2) {
    Value key = evaluate(*expr.of[i], scope);
    Value value = evaluate(*expr.of[i + 1], scope);
    at_ = expr.at;
    dict.set(std::move(key), std::move(value));
  }
  return sandbox.dict(std::move(dict));
}

Value Machine::evaluate_slice(const Expr& expr, Scope& scope) {
  Value parts[4];
  for (size_t i = 0; i < 4; ++i)
    if (expr.of[i]) parts[i] = evaluate(*expr.of[i], scope);
  at_ = expr.at;
  return slice(parts[0], parts[1], parts[2], parts[3]);
}

Args Machine::evaluate_args(const CallArgs& args, Scope& scope) {
  Args result;
  result.list.reserve(args.positional.size());
  for (const ExprPtr& arg : args.positional) result.list.push_back(evaluate(*arg, scope));
  for (const auto& [name, arg] : args.named) result.named.emplace_back(name, evaluate(*arg, scope));
  if (args.rest) {
    const Value rest = evaluate(*args.rest, scope);
    for (Value& value : to_vector(rest)) result.list.push_back(std::move(value));
  }
  if (args.named_rest) {
    const Value rest = evaluate(*args.named_rest, scope);
    if (!rest.is(Kind::dict)) throw Error("expected a dict after **, found {}", type_name(rest));
    for (const auto& [key, value] : rest.dict().items) {
      if (!key.is(Kind::string))
        throw Error("the name of an argument after ** is not a string but a {}", type_name(key));
      for (const auto& named : result.named)
        if (named.first == key.text()) throw Error("the argument '{}' is given twice", key.text());
      sandbox.step(1 + result.named.size() / 16);
      result.named.emplace_back(key.text(), value);
    }
  }
  return result;
}

Value Machine::evaluate_call(const Expr& expr, Scope& scope) {
  const Value callee = evaluate(*expr.of[0], scope);
  Args args = evaluate_args(expr.args, scope);
  at_ = expr.at;
  return call(callee, std::move(args));
}

Value Machine::evaluate_filter(const Expr& expr, Scope& scope, Value value) {
  Args args = evaluate_args(expr.args, scope);
  at_ = expr.at;
  const bool is_filter = expr.kind == Expr::Kind::filter;
  if (!expr.function) throw Error("there is no {} \"{}\"", is_filter ? "filter" : "test", expr.text);
  args.self = std::move(value);
  return call(*expr.function, std::move(args));
}

// The filters of a block: the innermost has no operand and takes the text.
Value Machine::evaluate_filters(const Expr& expr, Scope& scope, Value text) {
  const Sandbox::Deeper deeper(sandbox);
  if (!expr.of.empty()) text = evaluate_filters(*expr.of[0], scope, std::move(text));
  return evaluate_filter(expr, scope, std::move(text));
}

bool Machine::compare(std::string_view sign, const Value& a, const Value& b) {
  if (sign == "==") return equal(a, b);
  if (sign == "!=") return !equal(a, b);
  if (sign == "in") return contains(b, a);
  if (sign == "not in") return !contains(b, a);
  const bool is_nan = (a.is(Kind::real) && a.real() != a.real()) || (b.is(Kind::real) && b.real() != b.real());
  if (sign == "<") return less(a, b);
  if (sign == ">") return less(b, a);
  const bool reversed = sign == "<=" ? less(b, a) : less(a, b);
  return !reversed && !is_nan;
}

Value Machine::evaluate_compare(const Expr& expr, Scope& scope) {
  Value left = evaluate(*expr.of[0], scope);
  for (size_t i = 0; i < expr.signs.size(); ++i) {
    Value right = evaluate(*expr.of[i + 1], scope);
    at_ = expr.at;
    if (!compare(expr.signs[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Machine::evaluate_concat(const Expr& expr, Scope& scope) {
  std::string text;
  for (const ExprPtr& part : expr.of) {
    const Value value = evaluate(*part, scope);
    at_ = expr.at;
    print_to(text, value);
  }
  return string_value(std::move(text));
}

Value Machine::evaluate_unary(const Expr& expr, Scope& scope) {
  const Value value = evaluate(*expr.of[0], scope);
  at_ = expr.at;
  need_defined(value);
  const bool minus = expr.kind == Expr::Kind::negate;
  if (value.is(Kind::real)) return minus ? -value.real() : value.real();
  if (value.is_integer()) return minus ? subtract(0, value.integer()) : value.integer();
  throw Error("the sign {} before a {}", minus ? '-' : '+', type_name(value));
}

}  // namespace heddle::text::jinja
