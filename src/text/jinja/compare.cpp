// Equality, order and `in`, as Python's. Values may share parts, so comparing them is counted in steps.
#include <algorithm>

#include "base/error.h"
#include "text/jinja/machine.h"
#include "text/jinja/number.h"

namespace heddle::text::jinja {
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
