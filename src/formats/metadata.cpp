// Arrays in GGUF's encoding, and conversions without loss or with an Error.
#include "formats/metadata.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle::formats {
namespace {

constexpr struct {
  std::string_view name;
  uint8_t bytes;  // of one value; 0 where they differ in length
} types[] = {{"u8", 1},   {"i8", 1},     {"u16", 2},   {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
             {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8}};

static_assert(std::endian::native == std::endian::little, "arrays are used as GGUF encodes them");

constexpr std::string_view a_string = "a string", an_integer = "an integer of at least 0", a_number = "a number",
                           a_boolean = "a bool", an_array = "an array";

template <class T>
T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Calls visit(T{}) with the C++ type of a type of fixed size.
template <class Visit>
void with_type(ValueType type, Visit visit) {
  switch (type) {
    case ValueType::u8:
      return visit(uint8_t{});
    case ValueType::i8:
      return visit(int8_t{});
    case ValueType::u16:
      return visit(uint16_t{});
    case ValueType::i16:
      return visit(int16_t{});
    case ValueType::u32:
      return visit(uint32_t{});
    case ValueType::i32:
      return visit(int32_t{});
    case ValueType::f32:
      return visit(float{});
    case ValueType::boolean:
      return visit(uint8_t{});
    case ValueType::u64:
      return visit(uint64_t{});
    case ValueType::i64:
      return visit(int64_t{});
    case ValueType::f64:
      return visit(double{});
    case ValueType::string:
    case ValueType::array:
      break;
  }
  check(false, "a type of fixed size");
}

Array own(ValueType type, uint64_t count, std::vector<uint8_t> bytes) {
  auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  const std::span<const uint8_t> encoded = *owner;
  return Array(type, count, encoded, std::move(owner));
}

template <class T>
void append(std::vector<uint8_t>& out, const T& value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

template <class T>
Array of_numbers(ValueType type, const std::vector<T>& values) {
  std::vector<uint8_t> bytes;
  bytes.reserve(values.size() * sizeof(T));
  for (const T& value : values) append(bytes, value);
  return own(type, values.size(), std::move(bytes));
}

// The number of a scalar value, if type To holds it exactly.
template <class To>
std::optional<To> exactly(const Value& value) {
  return std::visit(
      [](const auto& held) -> std::optional<To> {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, bool> || !std::is_arithmetic_v<Held>)
          return std::nullopt;
        else if constexpr (std::is_floating_point_v<Held>)
          return std::is_floating_point_v<To> ? std::optional(static_cast<To>(held)) : std::nullopt;
        else if constexpr (std::is_integral_v<To>)
          return std::in_range<To>(held) ? std::optional(static_cast<To>(held)) : std::nullopt;
        else  // an f64 has 53 bits
          return std::cmp_less_equal(held, int64_t{1} << 53) && std::cmp_greater_equal(held, -(int64_t{1} << 53))
                     ? std::optional(static_cast<To>(held))
                     : std::nullopt;
      },
      value);
}

}  // namespace

std::string_view name(ValueType type) {
  check(size_t(type) < std::size(types), "a type of the table");
  return types[size_t(type)].name;
}
size_t value_bytes(ValueType type) {
  check(size_t(type) < std::size(types), "a type of the table");
  return types[size_t(type)].bytes;
}

Array::Array(ValueType type, uint64_t count, std::span<const uint8_t> encoded, std::shared_ptr<const void> owner)
    : type_(type), count_(count), encoded_(encoded), owner_(std::move(owner)) {
  check(type != ValueType::array, "an array holds values, no arrays");
  check(type == ValueType::string || encoded.size() == count * value_bytes(type), "an array of the size of its values");
}

Array Array::of(const std::vector<std::string>& values) {
  std::vector<uint8_t> bytes;
  for (const std::string& value : values) {
    append(bytes, uint64_t{value.size()});
    bytes.insert(bytes.end(), value.begin(), value.end());
  }
  return own(ValueType::string, values.size(), std::move(bytes));
}
Array Array::of(const std::vector<int32_t>& values) { return of_numbers(ValueType::i32, values); }
Array Array::of(const std::vector<float>& values) { return of_numbers(ValueType::f32, values); }
Array Array::of(const std::vector<bool>& values) {
  return of_numbers(ValueType::boolean, std::vector<uint8_t>(values.begin(), values.end()));
}

std::vector<std::string_view> Array::strings() const {
  if (type_ != ValueType::string) throw Error("expected an array of string, found {}", describe());
  std::vector<std::string_view> out;
  out.reserve(count_);
  for (const uint8_t* at = encoded_.data(); out.size() < count_;) {
    const uint64_t length = load<uint64_t>(at);
    out.emplace_back(reinterpret_cast<const char*>(at + sizeof length), length);
    at += sizeof length + length;
  }
  return out;
}

std::vector<int64_t> Array::integers() const {
  if (type_ == ValueType::string || type_ == ValueType::f32 || type_ == ValueType::f64)
    throw Error("expected an array of integers, found {}", describe());
  std::vector<int64_t> out(count_);
  with_type(type_, [&](auto of_type) {
    for (size_t i = 0; i < out.size(); ++i) {
      const auto value = load<decltype(of_type)>(encoded_.data() + i * sizeof of_type);
      if constexpr (std::is_integral_v<decltype(of_type)>)
        if (!std::in_range<int64_t>(value))
          throw Error("expected integers up to 2^63 - 1, found {} at place {}", value, i);
      out[i] = static_cast<int64_t>(value);
    }
  });
  return out;
}

std::vector<double> Array::numbers() const {
  if (type_ == ValueType::string || type_ == ValueType::boolean)
    throw Error("expected an array of numbers, found {}", describe());
  std::vector<double> out(count_);
  with_type(type_, [&](auto of_type) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<double>(load<decltype(of_type)>(encoded_.data() + i * sizeof of_type));
  });
  return out;
}

std::string Array::describe() const { return fmt::format("an array of {} {}", count_, name(type_)); }

bool Array::operator==(const Array& other) const {
  return type_ == other.type_ && count_ == other.count_ && std::ranges::equal(encoded_, other.encoded_);
}

std::string to_string(const Value& value, size_t longest) {
  return std::visit(
      [longest](const auto& held) -> std::string {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::string>)
          return in_quotes(held, longest);
        else if constexpr (std::is_same_v<Held, Array>)
          return to_string(held, longest);
        else
          return fmt::format("{}", held);
      },
      value);
}

std::string to_string(const Array& array, size_t longest) {
  // As many values as fit: each takes two characters at least, which bounds the loop.
  std::string text = "[";
  uint64_t shown = 0;
  const uint8_t* at = array.encoded().data();
  for (; shown < array.size() && text.size() < longest; ++shown) {
    if (shown) text += ", ";
    if (array.type() == ValueType::string) {
      const uint64_t length = load<uint64_t>(at);
      text += in_quotes({reinterpret_cast<const char*>(at + sizeof length), length},
                        longest - std::min(longest, text.size()));
      at += sizeof length + length;
    } else if (array.type() == ValueType::boolean) {
      text += *at++ ? "true" : "false";
    } else {
      with_type(array.type(), [&](auto of_type) { text += fmt::format("{}", load<decltype(of_type)>(at)); });
      at += value_bytes(array.type());
    }
  }
  return text + (shown < array.size() ? fmt::format(", ...] ({} of them)", array.size()) : "]");
}

void Metadata::set(std::string key, Value value) {
  const auto [place, is_new] = places_.emplace(key, values_.size());
  if (is_new)
    values_.emplace_back(std::move(key), std::move(value));
  else
    values_[place->second].second = std::move(value);
}

const Value* Metadata::find(std::string_view key) const {
  const auto place = places_.find(key);
  return place == places_.end() ? nullptr : &values_[place->second].second;
}

void Metadata::refuse(std::string_view key, std::string_view expected, const Value* found) const {
  if (!found) throw Error("{}: {}: expected {}, found no such key", source_, key, expected);
  const auto* array = std::get_if<Array>(found);
  throw Error("{}: {}: expected {}, found {}", source_, key, expected,
              array ? array->describe() : fmt::format("the {} {}", name(type_of(*found)), to_string(*found)));
}

template <class T>
T Metadata::needed(std::string_view key, std::string_view expected, const std::optional<T>& found) const {
  if (!found) refuse(key, expected, nullptr);
  return *found;
}

std::optional<std::string_view> Metadata::find_string(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  refuse(key, a_string, value);
}
std::optional<uint64_t> Metadata::find_integer(std::string_view key) const {
  const Value* value = find(key);
  const auto number = value ? exactly<uint64_t>(*value) : std::nullopt;
  if (value && !number) refuse(key, an_integer, value);
  return number;
}
std::optional<double> Metadata::find_number(std::string_view key) const {
  const Value* value = find(key);
  const auto number = value ? exactly<double>(*value) : std::nullopt;
  if (value && !number) refuse(key, a_number, value);
  return number;
}
std::optional<bool> Metadata::find_boolean(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* held = std::get_if<bool>(value)) return *held;
  refuse(key, a_boolean, value);
}
const Array* Metadata::find_array(std::string_view key) const {
  const Value* value = find(key);
  const auto* array = value ? std::get_if<Array>(value) : nullptr;
  if (value && !array) refuse(key, an_array, value);
  return array;
}

std::string_view Metadata::string(std::string_view key) const { return needed(key, a_string, find_string(key)); }
uint64_t Metadata::integer(std::string_view key) const { return needed(key, an_integer, find_integer(key)); }
double Metadata::number(std::string_view key) const { return needed(key, a_number, find_number(key)); }
bool Metadata::boolean(std::string_view key) const { return needed(key, a_boolean, find_boolean(key)); }
const Array& Metadata::array(std::string_view key) const {
  const Array* array = find_array(key);
  if (!array) refuse(key, an_array, nullptr);
  return *array;
}

}  // namespace heddle::formats
