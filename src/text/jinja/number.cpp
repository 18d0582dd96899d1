#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "text/jinja/python.h"

namespace heddle::text::jinja {
namespace {

[[noreturn]] void overflow() { throw Error("an integer beyond 64 bits"); }

std::string not_finite(double value) { return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

std::string to_text(double value, std::chars_format format, int precision) {
  std::string text(size_t(precision) + 330, '\0');  // the largest double has 309 digits before its point
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value, format, precision);
  check(error == std::errc{}, "a number fits its buffer");
  text.resize(size_t(end - text.data()));
  return text;
}

// Removes the underscores that stand between digits; nothing when one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      plain += text[i];
      continue;
    }
    const auto digit = [&](size_t at) {
      return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at]));
    };
    if (i == 0 || !digit(i - 1) || !digit(i + 1)) return std::nullopt;
  }
  return plain;
}

}  // namespace

std::string print_real(double value) {
  if (!std::isfinite(value)) return not_finite(value);
  std::array<char, 64> buffer{};
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  check(error == std::errc{}, "a number fits its buffer");
  const std::string_view text(buffer.data(), size_t(end - buffer.data()));
  const size_t e = text.find('e');
  const int exponent = std::stoi(std::string(text.substr(e + 1)));
  std::string sign, digits;
  for (const char c : text.substr(0, e))
    if (c == '-')
      sign = "-";
    else if (c != '.')
      digits += c;
  if (exponent < -4 || exponent >= 16) {
    const std::string rest = digits.size() > 1 ? "." + digits.substr(1) : "";
    return fmt::format("{}{}{}e{}{:02}", sign, digits[0], rest, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(size_t(-exponent - 1), '0') + digits;
  if (digits.size() <= size_t(exponent) + 1)
    return sign + digits + std::string(size_t(exponent) + 1 - digits.size(), '0') + ".0";
  return sign + digits.substr(0, size_t(exponent) + 1) + "." + digits.substr(size_t(exponent) + 1);
}

std::string print_real(double value, char type, int precision, bool alternate) {
  if (!std::isfinite(value)) return not_finite(value);
  if (type == 'f') return to_text(value, std::chars_format::fixed, precision);
  if (type == 'e') return to_text(value, std::chars_format::scientific, precision);
  precision = std::max(precision, 1);
  std::string text = to_text(value, std::chars_format::general, precision);
  if (!alternate) return text;
  // `alternate`: padded with zeros to `precision` significant digits
  const size_t e = std::min(text.find('e'), text.size());
  std::string digits = text.substr(0, e);
  if (digits.find('.') == digits.npos) digits += '.';
  size_t significant = 0;
  bool started = false;
  for (const char c : digits) {
    started = started || (c >= '1' && c <= '9');
    significant += started && c != '.';
  }
  if (!started) significant = 1;
  if (significant < size_t(precision)) digits.append(size_t(precision) - significant, '0');
  return digits + text.substr(e);
}

std::string print_integer(uint64_t magnitude, unsigned base) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, int(base)).ptr;
  return {buffer.data(), end};
}

std::optional<double> parse_real(std::string_view text) {
  const auto plain = without_underscores(strip(text));
  if (!plain || plain->empty()) return std::nullopt;
  std::string_view rest = *plain;
  const bool negative = rest[0] == '-';
  if (rest[0] == '-' || rest[0] == '+') rest.remove_prefix(1);
  if (rest.empty() || rest[0] == '-' || rest[0] == '+') return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (end != rest.data() + rest.size() || rest.back() == ')') return std::nullopt;  // "nan(x)" is C's, not Python's
  if (error == std::errc::result_out_of_range) {
    const size_t e = std::min(rest.find_first_of("eE"), rest.size() - 1);
    const bool small = rest[e + 1] == '-' || rest[0] == '0';
    value = small ? 0 : std::numeric_limits<double>::infinity();
  } else if (error != std::errc{}) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

std::optional<Value> parse_integer(std::string_view text, int base) {
  text = strip(text);
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  const auto prefixed = [&](char letter, int its_base) {
    if (text.size() < 2 || text[0] != '0' || (text[1] | 0x20) != letter || (base != 0 && base != its_base))
      return false;
    text.remove_prefix(2);
    if (!text.empty() && text[0] == '_') text.remove_prefix(1);
    base = its_base;
    return true;
  };
  const bool has_prefix = prefixed('x', 16) || prefixed('o', 8) || prefixed('b', 2);
  const auto plain = without_underscores(text);
  if (!plain || plain->empty()) return std::nullopt;
  if (base == 0 && !has_prefix && (*plain)[0] == '0' && plain->find_first_not_of('0') != plain->npos)
    return std::nullopt;
  if (base == 0) base = 10;
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(plain->data(), plain->data() + plain->size(), magnitude, base);
  if (end != plain->data() + plain->size()) return std::nullopt;
  if (error == std::errc::invalid_argument) return std::nullopt;
  const uint64_t largest = uint64_t(INT64_MAX) + negative;
  if (error == std::errc::result_out_of_range || magnitude > largest) {
    if (base != 10) overflow();
    const size_t start = plain->find_first_not_of('0');
    return Value::big((negative ? "-" : "") + plain->substr(start));
  }
  return Value(negative ? int64_t(uint64_t(0) - magnitude) : int64_t(magnitude));
}

int64_t add(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) overflow();
  return result;
}
int64_t subtract(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_sub_overflow(a, b, &result)) overflow();
  return result;
}
int64_t multiply(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) overflow();
  return result;
}
int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) throw Error("division by zero");
  if (b == -1) return subtract(0, a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
int64_t modulo(int64_t a, int64_t b) {
  if (b == 0) throw Error("division by zero");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
double modulo(double a, double b) {
  if (b == 0) throw Error("division by zero");
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}
double floor_divide(double a, double b) {
  const double rest = modulo(a, b);
  const double quotient = (a - rest) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

Value power(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer() && b.integer() >= 0) {
    int64_t result = 1, base = a.integer();
    for (int64_t left = b.integer();;) {
      if (left & 1) result = multiply(result, base);
      if ((left >>= 1) == 0) return result;
      if (base == 0 || base == 1) return result * base;
      base = multiply(base, base);
    }
  }
  if (a.real() == 0 && b.real() < 0) throw Error("0.0 cannot be raised to a negative power");
  const double result = std::pow(a.real(), b.real());
  if (std::isnan(result) && !std::isnan(a.real()) && !std::isnan(b.real()))
    throw Error("a negative number to a fractional power is not a real number");
  if (std::isinf(result) && std::isfinite(a.real()) && std::isfinite(b.real())) throw Error("result too large");
  return result;
}

Value to_integer(double value) {
  if (!std::isfinite(value)) throw Error("cannot convert float {} to integer", print_real(value));
  const double whole = std::trunc(value);
  if (whole < -9223372036854775808.0 || whole >= 9223372036854775808.0) return Value::big(print_real(whole, 'f', 0));
  return int64_t(whole);
}

Value round_half_even(const Value& value, int64_t digits) {
  if (value.is_integer()) {
    if (digits >= 0) return value.integer();
    if (digits < -18) return 0;
    int64_t unit = 1;
    for (int64_t i = digits; i < 0; ++i) unit *= 10;
    const int64_t rest = modulo(value.integer(), unit), down = value.integer() - rest;
    const bool up = rest > unit - rest || (rest == unit - rest && (down / unit) % 2 != 0);
    return up ? add(down, unit) : down;
  }
  const double number = value.real();
  if (!std::isfinite(number) || digits > 323) return number;
  if (digits < -308) return std::copysign(0.0, number);
  if (digits >= 0) {
    const std::string text = print_real(number, 'f', int(digits));
    double rounded = 0;
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return rounded;
  }
  const double unit = std::pow(10.0, double(-digits));
  return std::nearbyint(number / unit) * unit;
}

}  // namespace heddle::text::jinja
