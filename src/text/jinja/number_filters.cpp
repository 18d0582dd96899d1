// Filters of numbers.
#include <cmath>

#include "base/error.h"
#include "text/jinja/machine.h"
#include "text/jinja/number.h"

namespace heddle::text::jinja {
namespace {

std::optional<double> real_of(const Value& value) {
  if (value.is_number()) return value.real();
  if (value.is(Kind::string)) return parse_real(value.text());
  if (value.is(Kind::big)) return parse_real(value.digits());
  need_defined(value);
  return std::nullopt;
}

Value do_abs(Machine&, Args& args) {
  if (args.self.is(Kind::real)) return std::abs(args.self.real());
  const int64_t value = integer_argument(args.self, "abs");
  return value < 0 ? subtract(0, value) : value;
}

Value do_int(Machine&, Args& args) {
  const Value standard = args.has(0) ? args[0] : Value(0);
  const int64_t base = args.has(1) ? integer_argument(args[1], "the base of int") : 10;
  const Value& value = args.self;
  if (value.is_integer()) return value.integer();
  if (value.is(Kind::big)) return value;
  if (value.is(Kind::string) && (base == 0 || (base >= 2 && base <= 36)))
    if (const auto whole = parse_integer(value.text(), int(base))) return *whole;
  const auto real = real_of(value);
  if (value.is(Kind::real) && std::isinf(*real)) throw Error("cannot convert float infinity to integer");
  return real && std::isfinite(*real) ? to_integer(*real) : standard;
}

Value do_float(Machine&, Args& args) {
  const auto real = real_of(args.self);
  return real ? Value(*real) : args.has(0) ? args[0] : Value(0.0);
}

Value do_round(Machine& machine, Args& args) {
  const int64_t digits = args.has(0) ? integer_argument(args[0], "the precision of round") : 0;
  const std::string method = args.has(1) ? string_argument(args[1], "the method of round").text() : "common";
  need_defined(args.self);
  if (!args.self.is_number()) throw Error("round needs a number, found {}", type_name(args.self));
  if (method == "common") return round_half_even(args.self, digits);
  if (method != "ceil" && method != "floor") throw Error("round: expected common, ceil or floor, found '{}'", method);
  const Value unit = power(Value(10), Value(digits));
  const Value scaled = machine.operate("*", args.self, unit);
  if (!std::isfinite(scaled.real())) throw Error("round: {} cannot become an integer", print_real(scaled.real()));
  const Value whole = scaled.is_integer()
                          ? scaled
                          : to_integer(method == "ceil" ? std::ceil(scaled.real()) : std::floor(scaled.real()));
  return machine.operate("/", whole, unit);
}

Value do_filesizeformat(Machine& machine, Args& args) {
  const auto real = real_of(args.self);
  if (!real) throw Error("filesizeformat needs a number, found {}", type_name(args.self));
  const bool binary = args.flag(0);
  const double base = binary ? 1024 : 1000;
  if (*real == 1) return string_value("1 Byte");
  if (*real < base) return string_value(machine.print(to_integer(*real)) + " Bytes");
  static constexpr std::string_view letters = "kMGTPEZY";
  double unit = base;
  size_t at = 0;
  for (;; ++at) {
    unit *= base;
    if (*real < unit || at + 1 == letters.size()) break;
  }
  const std::string letter(1, binary && at == 0 ? 'K' : letters[at]);
  return string_value(print_real(base * *real / unit, 'f', 1) + " " + letter + (binary ? "iB" : "B"));
}

constexpr Function number_table[] = {
    {"abs", "/", do_abs},
    {"int", "default base", do_int},
    {"float", "default", do_float},
    {"round", "precision method", do_round},
    {"filesizeformat", "binary", do_filesizeformat},
};

}  // namespace

std::span<const Function> number_filters() { return number_table; }

}  // namespace heddle::text::jinja
