// Reading fields, with errors that name them; then writing.
#include "server/api/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle::server {
namespace {

// Throws unless the number is in the range. `kind`: "integer", "decimal".
template <class Number>
void require_range(Number number, Number low, Number high, const Json& value, const std::string& place,
                   std::string_view expected, const char* kind) {
  if (number >= low && number <= high) return;
  throw unexpected(place, fmt::format("{} from {} to {}", expected, low, high), value,
                   fmt::format("{}_{}", kind, number < low ? "below_min_value" : "above_max_value"));
}

// A number beyond int64_t is given as the nearest int64_t. Nothing: not a whole number.
std::optional<int64_t> whole_of(const Json& value) {
  constexpr auto low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
  if (value.is_number_unsigned()) return int64_t(std::min(value.get<uint64_t>(), uint64_t(high)));
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (number != std::trunc(number)) return std::nullopt;
  if (std::abs(number) > 0x1p53) return number > 0 ? high : low;  // a double is not exact here
  return int64_t(number);
}

}  // namespace

ApiError unexpected(const std::string& place, std::string_view expected, const Json& found, std::string code) {
  return {400, std::move(code), place, "{}: expected {}, found {}", place, expected, shortened(found)};
}

Json parse_body(std::string_view body) {
  try {
    return parse_json(body, "the body of the request");
  } catch (const Error& error) {
    throw ApiError(400, "", "", "{}", error.what());
  }
}

std::string model_field(std::string_view body) {
  const Json json = parse_body(body);
  IgnoredFields ignored;
  return Fields(json, &ignored).text("model").value_or("");
}

void IgnoredFields::add(std::string place) {
  constexpr size_t max_names = 32, max_name = 80;
  std::string name;
  bool in_index = false;
  for (const char c : place) {
    if (c == ']') in_index = false;
    if (!in_index) name += c > ' ' && c <= '~' && c != ',' ? c : '?';  // it becomes part of a header
    if (c == '[') in_index = true;
    if (name.size() == max_name) break;
  }
  if (names_.size() < max_names && std::find(names_.begin(), names_.end(), name) == names_.end())
    names_.push_back(std::move(name));
}

Fields::Fields(const Json& body, IgnoredFields* ignored) : object_(body), ignored_(ignored) {
  if (body.is_object()) return;
  throw ApiError(400, "", "", "the body of the request: expected an object, found {}", shortened(body));
}

Fields::Fields(const Json& object, std::string path, const Fields& outer)
    : object_(object), path_(std::move(path)), ignored_(outer.ignored_) {
  if (!object.is_object()) throw unexpected(path_, "an object", object);
}

std::string Fields::place(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const Json* Fields::find(std::string_view name) {
  known_.push_back(name);
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::at(std::string_view name) {
  if (const Json* value = find(name)) return *value;
  throw ApiError(400, "missing_required_parameter", place(name), "{}: is missing", place(name));
}

std::optional<std::string> Fields::text(std::string_view name) {
  const Json* value = find(name);
  return value ? std::optional(text_at(*value, place(name))) : std::nullopt;
}

std::optional<bool> Fields::flag(std::string_view name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) throw unexpected(place(name), "true or false", *value);
  return value->get<bool>();
}

std::optional<int64_t> Fields::whole(std::string_view name, int64_t low, int64_t high) {
  const Json* value = find(name);
  return value ? std::optional(whole_at(*value, place(name), low, high)) : std::nullopt;
}

std::optional<double> Fields::number(std::string_view name, double low, double high) {
  const Json* value = find(name);
  return value ? std::optional(number_at(*value, place(name), low, high)) : std::nullopt;
}

std::string_view Fields::either(std::string_view name, std::string_view other) {
  if (!find(other)) return name;
  if (!find(name)) return other;
  throw ApiError(400, "invalid_value", place(other), "{}: is another name for {}; expected one of them", place(other),
                 name);
}

void Fields::ignore(std::string_view name) {
  const Json* value = find(name);
  if (!value) return;
  if (ignored_) return ignored_->add(place(name));
  throw ApiError(400, "unsupported_parameter", place(name), "{}: has no effect here; expected null, found {}",
                 place(name), shortened(*value));
}

void Fields::finish() const {
  for (const auto& [name, value] : object_.get_ref<const Json::object_t&>()) {
    if (value.is_null() || std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    if (ignored_) {
      ignored_->add(place(name));
      continue;
    }
    constexpr size_t max_shown = 80;  // bytes: a name may be as long as the body
    throw ApiError(400, "unknown_parameter", replace_invalid_utf8(place(name).substr(0, max_shown)),
                   "{}: there is no such field", in_quotes(place(name), max_shown));
  }
}

const std::string& text_at(const Json& value, const std::string& place) {
  if (!value.is_string()) throw unexpected(place, "a string", value);
  return value.get_ref<const std::string&>();
}

int64_t whole_at(const Json& value, const std::string& place, int64_t low, int64_t high) {
  const std::optional<int64_t> whole = whole_of(value);
  if (!whole) throw unexpected(place, "a whole number", value);
  require_range(*whole, low, high, value, place, "a whole number", "integer");
  return *whole;
}

double number_at(const Json& value, const std::string& place, double low, double high) {
  if (!value.is_number()) throw unexpected(place, "a number", value);
  const double number = value.get<double>();
  require_range(number, low, high, value, place, "a number", "decimal");
  return number;
}

const Json& list_at(const Json& value, const std::string& place, size_t max_size) {
  if (!value.is_array()) throw unexpected(place, "a list", value);
  if (value.empty()) throw unexpected(place, "at least one element", value, "empty_array");
  if (value.size() > max_size)
    throw unexpected(place, fmt::format("at most {} elements", max_size), value, "array_above_max_length");
  return value;
}

std::string element(const std::string& place, size_t index) { return fmt::format("{}[{}]", place, index); }

namespace {

template <class Number>
void append_number(std::string& out, Number number) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, number);
  check(end.ec == std::errc(), "a number of at most 40 digits");
  out.append(digits, end.ptr);
}

void append_escape(std::string& out, char byte) {
  switch (byte) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", uint8_t(byte));
  }
}

void append_valid(std::string& out, std::string_view text) {
  out.reserve(out.size() + text.size() + 2);
  out += '"';
  size_t begin = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char byte = text[at];
    if (uint8_t(byte) >= 0x20 && byte != '"' && byte != '\\') continue;
    out.append(text.substr(begin, at - begin));
    append_escape(out, byte);
    begin = at + 1;
  }
  out.append(text.substr(begin));
  out += '"';
}

}  // namespace

void append_json(std::string& out, std::string_view text) {
  if (is_utf8(text))
    append_valid(out, text);
  else
    append_valid(out, replace_invalid_utf8(text));
}

void append_json(std::string& out, float number) {
  if (std::isfinite(number))
    append_number(out, number);
  else
    out += "null";
}
void append_json(std::string& out, uint64_t number) { append_number(out, number); }
void append_json(std::string& out, int64_t number) { append_number(out, number); }

std::string base64(std::string_view bytes) {
  static constexpr char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i) group = group << 8 | (i < count ? uint8_t(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i) out += i <= count ? letters[group >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

}  // namespace heddle::server
