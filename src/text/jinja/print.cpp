// Values as text: str(), repr() and JSON, which is read here as well.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/machine.h"
#include "text/jinja/python.h"

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

void Machine::print_to(Text& out, const Value& value) {
  if (value.is(Kind::string))
    sandbox.append(out, value.str());
  else
    print_to(out.text, value);
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

namespace {

using Parsed = nlohmann::json;

class Reader : public nlohmann::json_sax<Parsed> {
 public:
  Reader(std::string_view where, uint32_t max_depth) : where_(where), max_depth_(max_depth) {}
  Value take() { return std::move(root_); }

  bool null() override { return put(Value::none()); }
  bool boolean(bool value) override { return put(Value(value)); }
  bool number_integer(number_integer_t value) override { return put(Value(int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    return put(value > uint64_t(INT64_MAX) ? Value::big(fmt::format("{}", value)) : Value(int64_t(value)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    const bool integer = text.find_first_of(".eE") == text.npos;
    return put(integer ? Value::big(text) : Value(double{value}));
  }
  bool string(string_t& value) override { return put(string_value(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool key(string_t& name) override {
    open_.back().key = string_value(std::move(name));
    return true;
  }
  bool end_object() override {
    Dict& dict = open_.back().dict;
    for (const auto& member : dict.items) dict.depth = std::max(dict.depth, depth_of(member.second) + 1);
    return close(Value(std::make_shared<const Dict>(std::move(dict))));
  }
  bool end_array() override {
    List list{std::move(open_.back().items)};
    for (const Value& item : list.items) list.depth = std::max(list.depth, depth_of(item) + 1);
    return close(Value(Kind::list, std::make_shared<const List>(std::move(list))));
  }
  bool parse_error(size_t at, const std::string& token, const nlohmann::detail::exception& error) override {
    const std::string_view what = error.what();
    const size_t reason = what.find(": ");
    throw Error("{}: no valid JSON at byte {}, near \"{}\": {}", where_, at, replace_invalid_utf8(token.substr(0, 40)),
                reason == what.npos ? what : what.substr(reason + 2));
  }

 private:
  struct Open {
    bool is_dict;
    Dict dict;
    std::vector<Value> items;
    Value key;
  };
  bool open(bool is_dict) {
    if (open_.size() >= max_depth_) throw Error("{}: nested deeper than {} levels", where_, max_depth_);
    open_.push_back({is_dict, {}, {}, {}});
    return true;
  }
  bool close(Value value) {
    open_.pop_back();
    return put(std::move(value));
  }
  bool put(Value value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (open_.back().is_dict)
      open_.back().dict.set(std::move(open_.back().key), std::move(value));
    else
      open_.back().items.push_back(std::move(value));
    return true;
  }

  std::string_view where_;
  uint32_t max_depth_;
  Value root_;
  std::vector<Open> open_;
};

class Writer {
 public:
  Writer(Machine& machine, const JsonStyle& style) : machine_(machine), style_(style) {}
  std::string take() { return std::move(out_); }

  void write(const Value& value, uint32_t level) {
    machine_.sandbox.step();
    switch (value.kind()) {
      case Kind::string:
        return quote(value.text());
      case Kind::none:
      case Kind::boolean:
      case Kind::integer:
      case Kind::big:
      case Kind::real:
        return add(scalar(value));
      case Kind::list:
      case Kind::tuple:
        return write_list(value.items(), level);
      case Kind::dict:
        return write_dict(value.dict(), level);
      default:
        throw Error("a {} cannot be written as JSON", type_name(value));
    }
  }

 private:
  void add(std::string_view text) { machine_.sandbox.append(out_, text); }

  std::string scalar(const Value& value) {
    if (value.is(Kind::none)) return "null";
    if (value.is(Kind::boolean)) return value.boolean() ? "true" : "false";
    if (!value.is(Kind::real)) return machine_.print(value);
    const double number = value.real();
    if (number != number) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return print_real(number);
  }

  void quote(std::string_view text) {
    static constexpr std::string_view escaped = "\"\\\b\f\n\r\t", letters = "\"\\bfnrt";
    add("\"");
    size_t plain = 0;
    for (size_t at = 0; at < text.size();) {
      const auto c = static_cast<unsigned char>(text[at]);
      if (c >= ' ' && c != '"' && c != '\\' && (c < 0x80 || !style_.ascii)) {
        ++at;
        continue;
      }
      add(text.substr(plain, at - plain));
      const CodePoint point = code_point_at(text, at);
      const size_t known = escaped.find(char(c));
      const auto value = uint32_t(point.value);
      if (c < 0x80 && known != escaped.npos)
        add(std::string{'\\', letters[known]});
      else if (value < 0x10000)
        add(fmt::format("\\u{:04x}", value));
      else
        add(fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((value - 0x10000) >> 10), 0xDC00 + (value & 0x3FF)));
      at += point.bytes;
      plain = at;
    }
    add(text.substr(plain));
    add("\"");
  }

  void new_line(uint32_t level) {
    if (!style_.lines) return;
    add("\n");
    for (uint32_t i = 0; i < level; ++i) add(style_.indent);
  }

  void write_list(const std::vector<Value>& items, uint32_t level) {
    if (items.empty()) return add("[]");
    add("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i) add(style_.item_separator);
      new_line(level + 1);
      write(items[i], level + 1);
    }
    new_line(level);
    add("]");
  }

  void write_dict(const Dict& dict, uint32_t level) {
    if (dict.size() == 0) return add("{}");
    std::vector<const std::pair<Value, Value>*> members;
    members.reserve(dict.size());
    for (const auto& member : dict.items) members.push_back(&member);
    if (style_.sorted)
      std::stable_sort(members.begin(), members.end(),
                       [this](const auto* a, const auto* b) { return machine_.less(a->first, b->first); });
    add("{");
    for (size_t i = 0; i < members.size(); ++i) {
      if (i) add(style_.item_separator);
      new_line(level + 1);
      const Value& key = members[i]->first;
      if (!key.is(Kind::string) && !key.is_number() && !key.is(Kind::none) && !key.is(Kind::big))
        throw Error("a {} cannot be a key in JSON", type_name(key));
      quote(key.is(Kind::string) ? key.text() : scalar(key));
      add(style_.key_separator);
      write(members[i]->second, level + 1);
    }
    new_line(level);
    add("}");
  }

  Machine& machine_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

Value parse_json(std::string_view text, std::string_view where, uint32_t max_depth) {
  Reader reader(where, max_depth);
  Parsed::sax_parse(text, &reader);
  return reader.take();
}

std::string to_json(Machine& machine, const Value& value, const JsonStyle& style) {
  Writer writer(machine, style);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace heddle::text::jinja
