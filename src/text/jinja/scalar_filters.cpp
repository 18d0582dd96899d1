// Filters of texts and numbers, then of HTML and addresses.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/functions.h"
#include "text/jinja/machine.h"
#include "text/jinja/python.h"

namespace heddle::text::jinja {
namespace {

// The filter is the method of that name, over the text of any value.
Value through_method(Machine& machine, std::string_view name, Args& args) {
  Args call;
  call.self = machine.text_of(args.self);
  for (const Value& value : args.list)
    if (value.given()) call.list.push_back(value);
  return machine.call(*find_method(call.self, name), std::move(call));
}
Value do_upper(Machine& machine, Args& args) { return through_method(machine, "upper", args); }
Value do_lower(Machine& machine, Args& args) { return through_method(machine, "lower", args); }
Value do_capitalize(Machine& machine, Args& args) { return through_method(machine, "capitalize", args); }
Value do_trim(Machine& machine, Args& args) { return through_method(machine, "strip", args); }
Value do_center(Machine& machine, Args& args) {
  if (!args.has(0)) args.list[0] = Value(80);
  return through_method(machine, "center", args);
}

// Unlike str.title(): words begin after white space, "-" and opening brackets only.
Value do_title(Machine& machine, Args& args) {
  const std::string text = machine.print(args.self);
  machine.sandbox.bytes(text.size());
  const auto separates = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    const CodePoint first = code_point_at(text, at);
    const bool separator = separates(first.value);
    while (end < text.size()) {
      const CodePoint point = code_point_at(text, end);
      if (separates(point.value) != separator) break;
      end += point.bytes;
    }
    out += upper(std::string_view(text).substr(at, first.bytes));
    out += lower(std::string_view(text).substr(at + first.bytes, end - at - first.bytes));
    at = end;
  }
  return machine.sandbox.string(std::move(out));
}

Value do_replace(Machine& machine, Args& args) {
  const int64_t limit = args.has(2) && !args[2].is(Kind::none) ? integer_argument(args[2], "replace") : -1;
  const Value text = machine.text_of(args.self), to = machine.text_of(args[1]);
  return string_value(replace_text(machine, text.str(), machine.print(args[0]), to.str(), limit));
}

Value do_indent(Machine& machine, Args& args) {
  const Value& text = string_argument(args.self, "indent");
  const bool markup = text.str().markup;
  std::string indent = "    ";
  if (args.has(0) && args[0].is(Kind::string)) {
    indent = markup && !args[0].str().markup ? escape_markup(args[0].text()) : args[0].text();
  } else if (args.has(0)) {
    const int64_t width = std::max<int64_t>(integer_argument(args[0], "indent"), 0);
    machine.sandbox.bytes(size_t(width));
    indent = std::string(size_t(width), ' ');
  }
  const bool blank = args.flag(2);
  Text lines;
  machine.sandbox.append(lines, text.str());
  machine.sandbox.append(lines, "\n");
  const Str with_end(std::move(lines.text), markup, std::move(lines.own));
  Text out{args.flag(1) ? indent : ""};
  bool first = true;
  for (const std::string_view line : split_lines(with_end.text)) {
    if (!first) machine.sandbox.append(out, "\n");
    if (!first && (blank || !line.empty())) machine.sandbox.append(out, indent);
    machine.sandbox.append(out, with_end, size_t(line.data() - with_end.text.data()), line.size());
    first = false;
  }
  return string_value(std::move(out), markup);
}

Value do_truncate(Machine& machine, Args& args) {
  const int64_t length = args.has(0) ? integer_argument(args[0], "truncate") : 255;
  const Value end = args.has(2) ? string_argument(args[2], "truncate") : own_string("...");
  const int64_t leeway = args.has(3) && !args[3].is(Kind::none) ? integer_argument(args[3], "truncate") : 5;
  const auto end_length = int64_t(end.str().length);
  if (length < end_length) throw Error("truncate: expected a length of at least {}, found {}", end_length, length);
  if (leeway < 0) throw Error("truncate: expected a leeway of at least 0, found {}", leeway);
  if (machine.length(args.self) - leeway <= length) return args.self;
  const Value& text = string_argument(args.self, "truncate");
  const std::string kept = text.text().substr(0, byte_of(text.text(), size_t(length - end_length)));
  const size_t space = args.flag(1) ? kept.npos : kept.rfind(' ');
  return machine.operate("+", part_of(text.str(), 0, std::min(space, kept.size())), end);
}

Value do_wordcount(Machine& machine, Args& args) {
  int64_t words = 0;
  bool inside = false;
  for (const char32_t c : decode(machine.print(args.self))) {
    const bool word = c == '_' || is_alpha(c) || is_numeric(c);
    words += word && !inside;
    inside = word;
  }
  return words;
}

Value do_format(Machine& machine, Args& args) {
  if (!args.list.empty() && !args.named.empty()) throw Error("format: positional and named arguments at the same time");
  if (args.named.empty())
    return format_percent(machine, machine.text_of(args.self), machine.sandbox.tuple(std::move(args.list)));
  Dict named;
  for (auto& [name, value] : args.named) named.set(string_value(name), std::move(value));
  return format_percent(machine, machine.text_of(args.self), machine.sandbox.dict(std::move(named)));
}

Value do_tojson(Machine& machine, Args& args) {
  JsonStyle style;
  style.ascii = args.flag(0);
  style.sorted = args.flag(3);
  if (args.has(1) && !args[1].is(Kind::none)) {
    style.lines = true;
    style.item_separator = ",";
    if (args[1].is(Kind::string)) {
      style.indent = args[1].text();
    } else {
      const int64_t width = std::max<int64_t>(integer_argument(args[1], "the indent of tojson"), 0);
      machine.sandbox.bytes(size_t(width));
      style.indent = std::string(size_t(width), ' ');
    }
  }
  if (args.has(2) && !args[2].is(Kind::none)) {
    const std::vector<Value> two = machine.to_vector(args[2]);
    if (two.size() != 2) throw Error("the separators of tojson: expected two, found {}", two.size());
    style.item_separator = string_argument(two[0], "the separators of tojson").text();
    style.key_separator = string_argument(two[1], "the separators of tojson").text();
  }
  return string_value(to_json(machine, args.self, style));
}

Value refused_filter(Machine&, Args&) { throw Error("this filter is not in heddle: it has no use in a chat template"); }

constexpr Function text_table[] = {
    {"upper", "", do_upper},
    {"lower", "", do_lower},
    {"capitalize", "", do_capitalize},
    {"title", "", do_title},
    {"trim", "chars", do_trim},
    {"center", "width", do_center},
    {"replace", "old! new! count", do_replace},
    {"indent", "width first blank", do_indent},
    {"truncate", "length killwords end leeway", do_truncate},
    {"wordcount", "", do_wordcount},
    {"format", "*", do_format},
    {"tojson", "ensure_ascii indent separators sort_keys", do_tojson},
    {"string", "", [](Machine& machine, Args& args) { return machine.text_of(args.self); }},
    {"wordwrap", "*", refused_filter},
    {"pprint", "*", refused_filter},
    {"urlize", "*", refused_filter},
};

}  // namespace

std::span<const Function> text_filters() { return text_table; }

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

namespace {

Value escaped(Machine& machine, const Value& value) {
  if (value.is(Kind::string) && value.str().markup) return value;
  return machine.sandbox.string(escape_markup(machine.print(value)), true);
}

std::string quote_url(Machine& machine, const Value& value, bool in_query) {
  std::string out;
  for (const char c : machine.print(value)) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x80 && std::isalnum(byte)) || std::string_view("_.-~").find(c) != std::string_view::npos ||
        (c == '/' && !in_query))
      out += c;
    else if (c == ' ' && in_query)
      out += '+';
    else
      out += fmt::format("%{:02X}", byte);
  }
  return out;
}

Value do_urlencode(Machine& machine, Args& args) {
  const Value& value = args.self;
  const bool pairs = value.is(Kind::dict) || value.is_list() || value.is(Kind::view) || value.is(Kind::range) ||
                     value.is(Kind::undefined) || (value.is(Kind::object) && value.object()->iterable());
  if (!pairs) return machine.sandbox.string(quote_url(machine, value, false));
  const Value items =
      value.is(Kind::dict) ? Value(std::make_shared<const View>(View{View::Of::items, value.shared_dict()})) : value;
  std::string out;
  Walk walk(machine, items);
  for (Value item; walk.next(item);) {
    const std::vector<Value> pair = machine.to_vector(item);
    if (pair.size() != 2) throw Error("urlencode needs pairs, found {} values", pair.size());
    if (!out.empty()) machine.sandbox.append(out, "&");
    machine.sandbox.append(out, quote_url(machine, pair[0], true));
    machine.sandbox.append(out, "=");
    machine.sandbox.append(out, quote_url(machine, pair[1], true));
  }
  return string_value(std::move(out));
}

Value do_xmlattr(Machine& machine, Args& args) {
  if (!args.self.is(Kind::dict)) throw Error("xmlattr needs a dict, found {}", type_name(args.self));
  std::string out;
  for (const auto& [key, value] : args.self.dict().items) {
    if (value.is(Kind::none) || value.is(Kind::undefined)) continue;
    const std::string& name = string_argument(key, "xmlattr").text();
    if (name.find_first_of(" \t\n\r\f\v/>=") != name.npos) throw Error("xmlattr: '{}' cannot name an attribute", name);
    if (!out.empty()) machine.sandbox.append(out, " ");
    machine.sandbox.append(out, escaped(machine, key).text() + "=\"" + escaped(machine, value).text() + "\"");
  }
  const bool space = !args.has(0) || truth(args[0]);
  return string_value(space && !out.empty() ? " " + out : out);
}

std::string without(std::string_view text, std::string_view open, std::string_view close) {
  std::string out;
  for (;;) {
    const size_t start = text.find(open);
    const size_t end = start == text.npos ? text.npos : text.find(close, start);
    if (end == text.npos) return out + std::string(text);
    out += text.substr(0, start);
    text.remove_prefix(end + close.size());
  }
}

// The entities people write by hand; others stay as they are.
std::string unescape(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> known[] = {
      {"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}, {"nbsp", "\u00A0"}};
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '&' ? text.find(';', at) : text.npos;
    const std::string_view name = end == text.npos ? "" : text.substr(at + 1, end - at - 1);
    std::string meant;
    for (const auto& [entity, character] : known)
      if (entity == name) meant = character;
    if (name.size() > 1 && name.size() < 10 && name[0] == '#') {
      const bool hex = name[1] == 'x' || name[1] == 'X';
      uint32_t code = 0;
      const std::string_view digits = name.substr(hex ? 2 : 1);
      const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
      const bool character = code > 0 && code <= 0x10FFFF && !(code >= 0xD800 && code < 0xE000);
      if (error == std::errc{} && last == digits.data() + digits.size() && character) append_utf8(meant, code);
    }
    out += meant.empty() ? text.substr(at, 1) : std::string_view(meant);
    at = meant.empty() ? at + 1 : end + 1;
  }
  return out;
}

Value do_striptags(Machine& machine, Args& args) {
  const std::string plain = without(without(machine.print(args.self), "<!--", "-->"), "<", ">");
  machine.sandbox.bytes(plain.size());
  std::string out;
  bool gap = false;
  for (size_t at = 0; at < plain.size();) {
    const CodePoint point = code_point_at(plain, at);
    if (is_space(point.value)) {
      gap = !out.empty();
    } else {
      if (std::exchange(gap, false)) out += ' ';
      out += plain.substr(at, point.bytes);
    }
    at += point.bytes;
  }
  return machine.sandbox.string(unescape(out));
}

Value do_escape(Machine& machine, Args& args) { return escaped(machine, args.self); }

constexpr Function markup_table[] = {
    {"e", "", do_escape},
    {"escape", "", do_escape},
    {"forceescape", "",
     [](Machine& machine, Args& args) {
       return machine.sandbox.string(escape_markup(machine.print(args.self)), true);
     }},
    {"safe", "", [](Machine& machine, Args& args) { return machine.sandbox.string(machine.print(args.self), true); }},
    {"striptags", "", do_striptags},
    {"urlencode", "", do_urlencode},
    {"xmlattr", "autospace", do_xmlattr},
};

}  // namespace

std::span<const Function> markup_filters() { return markup_table; }

}  // namespace heddle::text::jinja
