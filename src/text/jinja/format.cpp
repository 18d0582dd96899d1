#include <cmath>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/functions.h"
#include "text/jinja/machine.h"
#include "text/jinja/python.h"

namespace heddle::text::jinja {
namespace {

constexpr int64_t max_width = 1 << 20;  // of a field: a wider one is an attack

struct Spec {
  std::string fill = " ";
  char align = 0, sign = '-', type = 0, grouping = 0;
  bool alternate = false, zero = false;
  int64_t width = 0, precision = -1;
};

bool is_number_char(char c) { return c >= '0' && c <= '9'; }

int64_t read_number(std::string_view text, size_t& at) {
  int64_t value = 0;
  for (; at < text.size() && is_number_char(text[at]); ++at) {
    value = value * 10 + (text[at] - '0');
    if (value > max_width) throw Error("a width or precision of more than {}", max_width);
  }
  return value;
}

Spec parse_spec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  bool has_fill = false;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  const size_t first = text.empty() ? 0 : code_point_at(text, 0).bytes;
  if (first < text.size() && is_align(text[first])) {
    spec.fill = std::string(text.substr(0, first));
    has_fill = true;
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[at++];
  }
  const auto take = [&](char c) {
    if (at >= text.size() || text[at] != c) return false;
    ++at;
    return true;
  };
  for (const char c : {'+', '-', ' '})
    if (take(c)) {
      spec.sign = c;
      break;
    }
  spec.alternate = take('#');
  if (take('0')) {
    spec.zero = true;
    if (!has_fill) spec.fill = "0";
    if (!spec.align) spec.align = '=';
  }
  spec.width = read_number(text, at);
  if (take(','))
    spec.grouping = ',';
  else if (take('_'))
    spec.grouping = '_';
  if (take('.')) {
    if (at >= text.size() || !is_number_char(text[at])) throw Error("the format '{}' misses its precision", text);
    spec.precision = read_number(text, at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) throw Error("the format '{}' is not understood", text);
  return spec;
}

std::string pad(Machine& machine, std::string_view text, size_t sign_length, const Spec& spec, char standard_align) {
  const auto length = int64_t(Str(std::string(text)).length);
  const char align = spec.align ? spec.align : standard_align;
  const int64_t missing = std::max<int64_t>(spec.width - length, 0);
  machine.sandbox.bytes(text.size() + size_t(missing) * 4);
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string out;
  const auto fill = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) out += spec.fill;
  };
  if (align == '=') {
    out += text.substr(0, sign_length);
    text.remove_prefix(sign_length);
  }
  fill(left);
  out += text;
  fill(missing - left);
  return out;
}

std::string group_digits(const std::string& digits, char mark, size_t group) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i && (whole - i) % group == 0) out += mark;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

std::string with_sign(Machine& machine, bool negative, std::string prefix, std::string digits, const Spec& spec) {
  std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  sign += prefix;
  if (spec.grouping) {
    const size_t group = spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b' ? 4 : 3;
    if (spec.align == '=' && spec.fill == "0")  // the zeros are grouped as well
      while (int64_t(sign.size() + group_digits("0" + digits, spec.grouping, group).size()) <= spec.width)
        digits = "0" + digits;
    digits = group_digits(digits, spec.grouping, group);
  }
  const size_t sign_length = sign.size();
  return pad(machine, sign + digits, sign_length, spec, '>');
}

// A precision without a type: "g" with at least one digit after the point, else with an exponent.
std::string print_general(double value, int precision) {
  if (!std::isfinite(value)) return print_real(value);
  const std::string scientific = print_real(value, 'e', precision - 1);
  const size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent >= -4 && exponent < precision - 1) {
    const std::string digits = print_real(value, 'g', precision);
    return digits.find('.') == digits.npos ? digits + ".0" : digits;
  }
  std::string digits = scientific.substr(0, e);
  if (digits.find('.') != digits.npos) digits.erase(digits.find_last_not_of(".0") + 1);
  return digits + scientific.substr(e);
}

std::string format_real(Machine& machine, double value, const Spec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::abs(value);
  const char type = spec.type == 0 ? 0 : char(spec.type | 0x20);
  const int precision = spec.precision < 0 ? 6 : int(spec.precision);
  std::string digits;
  if (spec.type == '%') {
    digits = print_real(magnitude * 100, 'f', precision) + "%";
  } else if (spec.type == 0) {
    digits = spec.precision < 0 ? print_real(magnitude) : print_general(magnitude, std::max(precision, 1));
  } else if (type == 'f' || type == 'e' || type == 'g' || type == 'n') {
    digits = print_real(magnitude, type == 'n' ? 'g' : type, precision, spec.alternate);
  } else {
    throw Error("the format '{}' does not suit a float", spec.type);
  }
  if (spec.type == 'F' || spec.type == 'E' || spec.type == 'G') digits = upper(digits);
  return with_sign(machine, negative, "", digits, spec);
}

std::string format_integer(Machine& machine, const Value& value, const Spec& spec) {
  if (value.is(Kind::big)) {
    if (spec.type != 0 && spec.type != 'd') throw Error("the format '{}' of an integer beyond 64 bits", spec.type);
    const bool negative = value.digits()[0] == '-';
    return with_sign(machine, negative, "", value.digits().substr(negative), spec);
  }
  const int64_t number = value.integer();
  const bool negative = number < 0;
  const uint64_t magnitude = negative ? uint64_t(0) - uint64_t(number) : uint64_t(number);
  if (spec.precision >= 0 && std::string_view("eEfFgG%").find(spec.type) == std::string_view::npos)
    throw Error("the format of an integer has a precision");
  switch (spec.type) {
    case 0:
    case 'd':
    case 'n':
      return with_sign(machine, negative, "", print_integer(magnitude, 10), spec);
    case 'x':
      return with_sign(machine, negative, spec.alternate ? "0x" : "", print_integer(magnitude, 16), spec);
    case 'X':
      return with_sign(machine, negative, spec.alternate ? "0X" : "", upper(print_integer(magnitude, 16)), spec);
    case 'o':
      return with_sign(machine, negative, spec.alternate ? "0o" : "", print_integer(magnitude, 8), spec);
    case 'b':
      return with_sign(machine, negative, spec.alternate ? "0b" : "", print_integer(magnitude, 2), spec);
    case 'c': {
      std::string character;
      if (negative || magnitude > 0x10FFFF || (magnitude >= 0xD800 && magnitude < 0xE000))
        throw Error("{} is not a character", number);
      append_utf8(character, char32_t(magnitude));
      return pad(machine, character, 0, spec, '<');
    }
    default:
      if (std::string_view("eEfFgG%").find(spec.type) == std::string_view::npos)
        throw Error("the format '{}' does not suit an int", spec.type);
      return format_real(machine, double(number), spec);
  }
}

std::string format_string(Machine& machine, const Value& value, const Spec& spec) {
  if (spec.type != 0 && spec.type != 's') throw Error("the format '{}' does not suit a str", spec.type);
  if (spec.align == '=' && !spec.zero) throw Error("the alignment '=' does not suit a str");
  if (spec.sign != '-' || spec.alternate || spec.grouping) throw Error("a format for numbers does not suit a str");
  std::string text = value.text();
  if (spec.precision >= 0) text = text.substr(0, byte_of(text, size_t(spec.precision)));
  Spec plain = spec;
  if (plain.align == '=') plain.align = '<';  // "05" of a string pads on the right
  return pad(machine, text, 0, plain, '<');
}

// "{0.name[key]!r:>{1}}" piece by piece.
class Braces {
 public:
  Braces(Machine& machine, Args& args, bool markup) : machine_(machine), args_(args), markup_(markup) {}

  // The words of the format stay the template's own; what is filled in is not.
  Text run(const Str& str) { return run(str, str.text, 1); }

 private:
  Text run(const Str& str, std::string_view format, int nesting) {
    if (nesting > 2) throw Error("a format is nested too deep");
    Text out;
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      if (c != '{' && c != '}') {
        const size_t next = std::min(format.find_first_of("{}", at), format.size());
        machine_.sandbox.append(out, str, size_t(format.data() - str.text.data()) + at, next - at);
        at = next;
      } else if (at + 1 < format.size() && format[at + 1] == c) {
        machine_.sandbox.append(out, str, size_t(format.data() - str.text.data()) + at, 1);
        at += 2;
      } else if (c == '}') {
        throw Error("single '}}' in a format");
      } else {
        const size_t end = closing(format, at);
        machine_.sandbox.append(out, field(str, format.substr(at + 1, end - at - 1), nesting));
        at = end + 1;
      }
    }
    return out;
  }

  static size_t closing(std::string_view format, size_t at) {
    int depth = 0;
    for (size_t i = at; i < format.size(); ++i) {
      depth += format[i] == '{';
      depth -= format[i] == '}';
      if (depth == 0) return i;
    }
    throw Error("expected '}}' before the end of a format");
  }

  std::string field(const Str& str, std::string_view text, int nesting) {
    machine_.sandbox.step();
    size_t name_end = 0;
    for (bool in_brackets = false; name_end < text.size(); ++name_end) {
      if (text[name_end] == '[') in_brackets = true;
      if (text[name_end] == ']') in_brackets = false;
      if (!in_brackets && (text[name_end] == '!' || text[name_end] == ':')) break;
      if (text[name_end] == '{') throw Error("unexpected '{{' in the name of a field");
    }
    Value value = find(text.substr(0, name_end));
    std::string_view rest = text.substr(name_end);
    if (rest.substr(0, 1) == "!") {
      const std::string_view conversion = rest.substr(1, 1);
      if (conversion == "r")
        value = string_value(machine_.repr(value));
      else if (conversion == "s")
        value = string_value(machine_.print(value));
      else
        throw Error("the conversion '!{}' of a format is not one of !r and !s", conversion);
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':') throw Error("expected ':' after a conversion in a format");
    }
    const std::string spec = rest.empty() ? "" : run(str, rest.substr(1), nesting + 1).text;
    std::string result = format_value(machine_, value, spec);
    return markup_ && !(value.is(Kind::string) && value.str().markup) ? escape_markup(result) : result;
  }

  Value find(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, first_end);
    Value value = argument(first);
    for (size_t at = first_end; at < name.size();) {
      if (name[at] == '.') {
        const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) throw Error("an empty attribute in a format");
        value = machine_.attribute(value, name.substr(at + 1, end - at - 1));
        at = end;
      } else if (name[at] == '[') {
        const size_t end = name.find(']', at);
        if (end == name.npos || end == at + 1) throw Error("a format with an empty or unclosed '['");
        const std::string key(name.substr(at + 1, end - at - 1));
        const bool is_index = key.find_first_not_of("0123456789") == key.npos;
        const auto index = is_index ? parse_integer(key, 10) : std::nullopt;
        value = machine_.item(value, index ? *index : string_value(key));
        at = end + 1;
      } else {
        throw Error("only '.' or '[' may follow ']' in a format");
      }
    }
    return value;
  }

  Value argument(std::string_view name) {
    if (name.empty() || name.find_first_not_of("0123456789") == name.npos) {
      if (name.empty() ? numbered_ : counted_ > 0) throw Error("a format mixes numbered and unnumbered fields");
      size_t at = 0;
      const size_t index = name.empty() ? counted_++ : size_t(read_number(name, at));
      numbered_ |= !name.empty();
      if (index >= args_.list.size()) throw Error("a format needs argument {}, which is not given", index);
      return args_.list[index];
    }
    for (const auto& [given, value] : args_.named)
      if (given == name) return value;
    throw Error("a format needs the argument '{}', which is not given", name);
  }

  Machine& machine_;
  Args& args_;
  bool markup_, numbered_ = false;
  size_t counted_ = 0;
};

// The values of "..." % values, one after the other or by name.
class Percent {
 public:
  Percent(Machine& machine, const Value& format, const Value& values)
      : machine_(machine), markup_(format.str().markup), values_(values) {}

  // The words of the format stay the template's own; what is filled in is not.
  Text run(const Str& str) {
    const std::string_view format = str.text;
    Text out;
    for (size_t at = 0; at < format.size();) {
      if (format[at] != '%') {
        const size_t next = std::min(format.find('%', at), format.size());
        machine_.sandbox.append(out, str, at, next - at);
        at = next;
        continue;
      }
      machine_.sandbox.append(out, field(format, ++at));
    }
    // A single value that could be asked for names may be left unused, as in Python.
    const bool may_rest =
        values_.is(Kind::dict) || values_.is(Kind::list) || values_.is(Kind::range) || values_.is(Kind::undefined);
    const size_t expected = values_.is(Kind::tuple) ? values_.items().size() : 1;
    if (used_ < expected && !may_rest) throw Error("not all arguments of a % format are used");
    return out;
  }

 private:
  Value next() {
    if (!values_.is(Kind::tuple)) {
      if (used_++) throw Error("not enough arguments for a % format");
      return values_;
    }
    if (used_ >= values_.items().size()) throw Error("not enough arguments for a % format");
    return values_.items()[used_++];
  }

  std::string field(std::string_view format, size_t& at) {
    machine_.sandbox.step();
    const auto need = [&] {
      if (at >= format.size()) throw Error("an incomplete % format");
    };
    need();
    Value value;
    if (format[at] == '(') {
      const size_t end = format.find(')', at);
      if (end == format.npos) throw Error("an incomplete % format");
      if (!values_.is(Kind::dict)) throw Error("a % format with names needs a dict, found {}", type_name(values_));
      const Value* found = values_.dict().find(format.substr(at + 1, end - at - 1));
      if (!found) throw Error("a % format needs '{}', which is not given", format.substr(at + 1, end - at - 1));
      value = *found;
      at = end + 1;
    }
    Spec spec;
    for (need(); std::string_view("-+ #0").find(format[at]) != std::string_view::npos; need()) {
      const char c = format[at++];
      if (c == '-') spec.align = '<';
      if (c == '+' || (c == ' ' && spec.sign != '+')) spec.sign = c;
      if (c == '#') spec.alternate = true;
      if (c == '0') spec.zero = true;
    }
    const auto number = [&]() -> int64_t {
      if (at < format.size() && format[at] == '*') {
        ++at;
        const int64_t given = integer_argument(next(), "the width of a % format");
        if (given > max_width || given < -max_width) throw Error("a width or precision of more than {}", max_width);
        return given;
      }
      return read_number(format, at);
    };
    spec.width = number();
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    need();
    if (format[at] == '.') {
      ++at;
      spec.precision = std::max<int64_t>(number(), 0);
      need();
    }
    while (std::string_view("hlL").find(format[at]) != std::string_view::npos) {
      ++at;
      need();
    }
    spec.type = format[at++];
    if (spec.type == '%') return "%";
    if (!value.given()) value = next();
    return convert(value, spec);
  }

  std::string convert(const Value& value, Spec spec) {
    if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
      std::string text = spec.type == 's' ? machine_.print(value) : machine_.repr(value);
      if (markup_ && !(spec.type == 's' && value.is(Kind::string) && value.str().markup)) text = escape_markup(text);
      if (spec.precision >= 0) text = text.substr(0, byte_of(text, size_t(spec.precision)));
      return pad(machine_, text, 0, spec, '>');
    }
    if (spec.type == 'c') {
      spec.precision = -1;
      if (value.is(Kind::string) && value.str().length == 1) return pad(machine_, value.text(), 0, spec, '>');
      if (!spec.align) spec.align = '>';
      if (!value.is_integer()) throw Error("%c needs a character or an int, found {}", type_name(value));
      return format_integer(machine_, value, spec);
    }
    need_defined(value);
    if (!value.is_number() && !value.is(Kind::big))
      throw Error("%{} needs a number, found {}", spec.type, type_name(value));
    if (spec.zero && !spec.align) {
      spec.align = '=';
      spec.fill = "0";
    }
    if (std::string_view("eEfFgG").find(spec.type) != std::string_view::npos)
      return format_real(machine_, value.real(), spec);
    if (std::string_view("diuxXo").find(spec.type) == std::string_view::npos)
      throw Error("the format '%{}' is not understood", spec.type);
    if (value.is(Kind::real) && std::string_view("diu").find(spec.type) == std::string_view::npos)
      throw Error("%{} needs an int, found float", spec.type);
    const int64_t digits = std::exchange(spec.precision, -1);
    if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
    const Value whole = value.is(Kind::real) ? to_integer(value.real()) : value;
    if (digits < 0) return format_integer(machine_, whole, spec);
    Spec exact;  // a precision is the least number of digits
    exact.type = spec.type;
    exact.sign = spec.sign;
    exact.alternate = spec.alternate;
    std::string text = format_integer(machine_, whole, exact);
    const size_t first = std::min(text.find_first_not_of("+- 0xX"), text.size());
    const auto have = int64_t(text.size() - first);
    if (have < digits) text.insert(first, size_t(digits - have), '0');
    return pad(machine_, text, first, spec, '>');
  }

  Machine& machine_;
  bool markup_;
  const Value& values_;
  size_t used_ = 0;
};

}  // namespace

std::string format_value(Machine& machine, const Value& value, std::string_view text) {
  if (text.empty()) return machine.print(value);
  if (value.is(Kind::string)) return format_string(machine, value, parse_spec(text));
  const Spec spec = parse_spec(text);
  if (value.is_integer() || value.is(Kind::big)) return format_integer(machine, value, spec);
  if (value.is(Kind::real)) return format_real(machine, value.real(), spec);
  throw Error("a {} cannot be formatted with '{}'", type_name(value), text);
}

Value format_percent(Machine& machine, const Value& format, const Value& values) {
  return machine.sandbox.string(Percent(machine, format, values).run(format.str()), format.str().markup);
}

Value format_braces(Machine& machine, const Value& format, Args& args) {
  const bool markup = format.str().markup;
  return machine.sandbox.string(Braces(machine, args, markup).run(format.str()), markup);
}

}  // namespace heddle::text::jinja
