// + - * / // % ** over two values.
#include "base/error.h"
#include "text/jinja/format.h"
#include "text/jinja/machine.h"
#include "text/jinja/number.h"

namespace heddle::text::jinja {
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
    std::string text;
    text.reserve(total);
    for (size_t i = 0; i < times && size; ++i) text += what.text();
    return string_value(std::move(text), what.str().markup);
  }
  machine.sandbox.items(total);
  std::vector<Value> items;
  items.reserve(total);
  for (size_t i = 0; i < times && size; ++i) items.insert(items.end(), what.items().begin(), what.items().end());
  return what.is(Kind::list) ? machine.sandbox.list(std::move(items)) : machine.sandbox.tuple(std::move(items));
}

Value join_texts(Machine& machine, const Value& a, const Value& b) {
  const bool markup = a.str().markup || b.str().markup;
  const auto part = [markup](const Value& value) {
    return markup && !value.str().markup ? escape_markup(value.text()) : value.text();
  };
  std::string text;
  machine.sandbox.bytes(a.text().size() + b.text().size());
  text.reserve(a.text().size() + b.text().size());
  text += markup ? part(a) : a.text();
  text += markup ? part(b) : b.text();
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

}  // namespace heddle::text::jinja
