// str() and repr().
#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/machine.h"
#include "text/jinja/number.h"
#include "text/jinja/unicode.h"

namespace heddle::text::jinja {
namespace {

void quote(std::string& out, std::string_view text) {
  const bool doubled = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char mark = doubled ? '"' : '\'';
  out += mark;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const char32_t c = point.value;
    if (c == char32_t(mark) || c == '\\')
      out.append(1, '\\').append(1, char(c));
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (is_printable(c))
      out += text.substr(at, point.bytes);
    else if (c < 0x100)
      out += fmt::format("\\x{:02x}", uint32_t(c));
    else if (c < 0x10000)
      out += fmt::format("\\u{:04x}", uint32_t(c));
    else
      out += fmt::format("\\U{:08x}", uint32_t(c));
    at += point.bytes;
  }
  out += mark;
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  return out;
}

void Machine::print_to(std::string& out, const Value& value) {
  if (value.is(Kind::string))
    sandbox.append(out, value.text());
  else if (!value.is(Kind::undefined))
    repr_to(out, value);
}

void Machine::repr_to(std::string& out, const Value& value) {
  sandbox.step();
  const Sandbox::Deeper deeper(sandbox);  // lists may hold namespaces that hold lists: no depth of a value bounds that
  const auto sequence = [&](std::string_view open, std::string_view close) {
    sandbox.append(out, open);
    Walk walk(*this, value);
    bool first = true;
    for (Value item; walk.next(item); first = false) {
      if (!first) sandbox.append(out, ", ");
      repr_to(out, item);
    }
    sandbox.append(out, close);
  };
  switch (value.kind()) {
    case Kind::undefined:
      return sandbox.append(out, "Undefined");
    case Kind::none:
      return sandbox.append(out, "None");
    case Kind::boolean:
      return sandbox.append(out, value.boolean() ? "True" : "False");
    case Kind::integer:
      return sandbox.append(out, fmt::format("{}", value.integer()));
    case Kind::big:
      return sandbox.append(out, value.digits());
    case Kind::real:
      return sandbox.append(out, print_real(value.real()));
    case Kind::string: {
      std::string quoted;
      sandbox.bytes(value.text().size());
      quote(quoted, value.text());
      return sandbox.append(out, value.str().markup ? "Markup(" + quoted + ")" : quoted);
    }
    case Kind::list:
      return sequence("[", "]");
    case Kind::tuple:
      return sequence("(", value.items().size() == 1 ? ",)" : ")");
    case Kind::dict: {
      sandbox.append(out, "{");
      bool first = true;
      for (const auto& [key, item] : value.dict().items) {
        if (!first) sandbox.append(out, ", ");
        first = false;
        repr_to(out, key);
        sandbox.append(out, ": ");
        repr_to(out, item);
      }
      return sandbox.append(out, "}");
    }
    case Kind::view:
      return sequence(fmt::format("{}([", type_name(value)), "])");
    case Kind::range: {
      const Range& range = value.range();
      const std::string step = range.step == 1 ? "" : fmt::format(", {}", range.step);
      return sandbox.append(out, fmt::format("range({}, {}{})", range.start, range.stop, step));
    }
    case Kind::function:
      throw Error("the function '{}' is printed: a call of it was meant, perhaps", value.function()->name);
    case Kind::object:
      return sandbox.append(out, value.object()->print(*this));
    case Kind::missing:
      break;
  }
}

std::string Machine::print(const Value& value) {
  std::string text;
  print_to(text, value);
  return text;
}
std::string Machine::repr(const Value& value) {
  std::string text;
  repr_to(text, value);
  return text;
}
Value Machine::text_of(const Value& value) { return value.is(Kind::string) ? value : string_value(print(value)); }

}  // namespace heddle::text::jinja
