// Filters of HTML and addresses.
#include <charconv>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/machine.h"
#include "text/jinja/unicode.h"

namespace heddle::text::jinja {
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
