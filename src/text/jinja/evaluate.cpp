// Expressions. Operators (+ - * / // % **), equality, order and `in` work as in Python. Values may share parts, so
// comparisons are counted in steps.
#include <algorithm>

#include "base/error.h"
#include "text/jinja/functions.h"
#include "text/jinja/machine.h"
#include "text/jinja/python.h"

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
  Text text;
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

namespace {

Value arithmetic(std::string_view sign, const Value& a, const Value& b) {
  const bool integers = a.is_integer() && b.is_integer();
  const int64_t i = integers ? a.integer() : 0, j = integers ? b.integer() : 0;
  if (sign == "+") return integers ? Value(add(i, j)) : Value(a.real() + b.real());
  if (sign == "-") return integers ? Value(subtract(i, j)) : Value(a.real() - b.real());
  if (sign == "*") return integers ? Value(multiply(i, j)) : Value(a.real() * b.real());
  if (sign == "//") return integers ? Value(floor_divide(i, j)) : Value(floor_divide(a.real(), b.real()));
  if (sign == "%") return integers ? Value(modulo(i, j)) : Value(modulo(a.real(), b.real()));
  if (sign == "**") return power(a, b);
  if (b.real() == 0) throw Error("division by zero");
  // Through long double, so that a quotient of large integers is rounded once.
  if (integers) return double(static_cast<long double>(i) / static_cast<long double>(j));
  return a.real() / b.real();
}

Value repeat(Machine& machine, const Value& what, int64_t count) {
  const size_t times = size_t(std::max<int64_t>(count, 0));
  const size_t size = what.is(Kind::string) ? what.text().size() : what.items().size();
  size_t total = 0;
  if (__builtin_mul_overflow(size, times, &total)) total = SIZE_MAX;
  if (what.is(Kind::string)) {
    machine.sandbox.bytes(total);
    Text text;
    text.text.reserve(total);
    for (size_t i = 0; i < times && size; ++i) machine.sandbox.append(text, what.str());
    return string_value(std::move(text), what.str().markup);
  }
  machine.sandbox.items(total);
  std::vector<Value> items;
  items.reserve(total);
  for (size_t i = 0; i < times && size; ++i) items.insert(items.end(), what.items().begin(), what.items().end());
  return what.is(Kind::list) ? machine.sandbox.list(std::move(items)) : machine.sandbox.tuple(std::move(items));
}

// `markup`: into Markup, where what is none is escaped.
void append_part(Machine& machine, Text& out, const Value& part, bool markup) {
  if (markup && !part.str().markup)
    machine.sandbox.append(out, escape_markup(part.text()));
  else
    machine.sandbox.append(out, part.str());
}

Value join_texts(Machine& machine, const Value& a, const Value& b) {
  const bool markup = a.str().markup || b.str().markup;
  Text text;
  machine.sandbox.bytes(a.text().size() + b.text().size());
  text.text.reserve(a.text().size() + b.text().size());
  for (const Value* part : {&a, &b}) append_part(machine, text, *part, markup);
  return string_value(std::move(text), markup);
}

}  // namespace

Value Machine::operate(std::string_view sign, const Value& a, const Value& b) {
  if (sign == "%" && a.is(Kind::string)) return format_percent(*this, a, b);
  need_defined(a);
  need_defined(b);
  if (a.is_number() && b.is_number()) return arithmetic(sign, a, b);
  if (sign == "+") {
    if (a.is(Kind::string) && b.is(Kind::string)) return join_texts(*this, a, b);
    if (a.is_list() && a.kind() == b.kind()) {
      sandbox.items(a.items().size() + b.items().size());
      std::vector<Value> items = a.items();
      items.insert(items.end(), b.items().begin(), b.items().end());
      return a.is(Kind::list) ? sandbox.list(std::move(items)) : sandbox.tuple(std::move(items));
    }
  }
  const auto repeats = [](const Value& value) { return value.is(Kind::string) || value.is_list(); };
  if (sign == "*" && repeats(a) && b.is_integer()) return repeat(*this, a, b.integer());
  if (sign == "*" && repeats(b) && a.is_integer()) return repeat(*this, b, a.integer());
  if (a.is(Kind::big) || b.is(Kind::big)) throw Error("an integer beyond 64 bits in a computation");
  throw Error("{} {} {}: no such operation", type_name(a), sign, type_name(b));
}

namespace {

// Exact for every pair: long double holds 64-bit integers and doubles alike on both of heddle's targets.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
  const long double x = a.is_integer() ? static_cast<long double>(a.integer()) : a.real();
  const long double y = b.is_integer() ? static_cast<long double>(b.integer()) : b.real();
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

bool same_range(const Range& a, const Range& b) {
  const int64_t length = a.length();
  if (length != b.length()) return false;
  return length == 0 || (a.start == b.start && (length == 1 || a.step == b.step));
}

}  // namespace

bool Machine::equal(const Value& a, const Value& b) {
  sandbox.step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::big:
      return a.digits() == b.digits();
    case Kind::string:
      sandbox.step(a.text().size() / 1024);
      return a.text() == b.text();
    case Kind::list:
    case Kind::tuple: {
      const auto &x = a.items(), &y = b.items();
      if (&x == &y) return true;
      return x.size() == y.size() &&
             std::equal(x.begin(), x.end(), y.begin(), [this](const Value& p, const Value& q) { return equal(p, q); });
    }
    case Kind::dict: {
      if (&a.dict() == &b.dict()) return true;
      if (a.dict().size() != b.dict().size()) return false;
      return std::all_of(a.dict().items.begin(), a.dict().items.end(), [&](const auto& member) {
        const Value* other = b.dict().find(member.first);
        return other && equal(member.second, *other);
      });
    }
    case Kind::range:
      return same_range(a.range(), b.range());
    case Kind::view: {
      if (a.view().of != b.view().of || a.view().of == View::Of::values) return &a.view() == &b.view();
      const std::vector<Value> items = to_vector(a);  // views of keys and items are sets
      return length(b) == int64_t(items.size()) &&
             std::all_of(items.begin(), items.end(), [&](const Value& item) { return contains(b, item); });
    }
    case Kind::object:
      return a.object() == b.object();
    case Kind::function:
      return a.function() == b.function() &&
             (a.bound() == b.bound() || (a.bound() && b.bound() && a.bound()->self.same_as(b.bound()->self)));
    default:
      return false;
  }
}

bool Machine::less(const Value& a, const Value& b) {
  sandbox.step();
  need_defined(a);
  need_defined(b);
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == -1;
  if (a.is(Kind::string) && b.is(Kind::string)) {
    sandbox.step(std::min(a.text().size(), b.text().size()) / 1024);
    return a.text() < b.text();  // the order of UTF-8 is that of code points
  }
  if (a.is_list() && a.kind() == b.kind()) {
    const auto &x = a.items(), &y = b.items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal(x[i], y[i])) return less(x[i], y[i]);
    return x.size() < y.size();
  }
  throw Error("a {} and a {} have no order", type_name(a), type_name(b));
}

bool Machine::contains(const Value& container, const Value& value) {
  if (container.is(Kind::string)) {
    if (!value.is(Kind::string)) throw Error("'in' a string needs a string before it, found {}", type_name(value));
    sandbox.step(container.text().size() / 64);
    sandbox.search(container.text(), value.text());
    return container.text().find(value.text()) != std::string::npos;
  }
  if (container.is(Kind::dict)) return container.dict().find(value) != nullptr;
  if (container.is(Kind::view) && container.view().of == View::Of::keys)
    return container.view().dict->find(value) != nullptr;
  Walk walk(*this, container);
  for (Value item; walk.next(item);)
    if (equal(item, value)) return true;
  return false;
}

}  // namespace heddle::text::jinja
