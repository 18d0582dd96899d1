// The metadata of a model: typed values under keys, as GGUF has them. A safetensors model gets the same keys.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace heddle::formats {

enum class ValueType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};  // numbered as in GGUF
std::string_view name(ValueType type);
size_t value_bytes(ValueType type);  // of one value in GGUF; 0 for strings and arrays, which differ in length

// Values of one type, encoded as in GGUF: a view into the mapped file, or bytes of its own. Checked when it is
// constructed, so that reading it cannot fail; nothing is copied before it is read.
class Array {
 public:
  // `encoded` has `count` values exactly; the caller has checked that. `owner` keeps the bytes alive (may be null).
  Array(ValueType type, uint64_t count, std::span<const uint8_t> encoded, std::shared_ptr<const void> owner);
  static Array of(const std::vector<std::string>& values);
  static Array of(const std::vector<int32_t>& values);
  static Array of(const std::vector<float>& values);
  static Array of(const std::vector<bool>& values);

  ValueType type() const { return type_; }
  uint64_t size() const { return count_; }
  std::span<const uint8_t> encoded() const { return encoded_; }
  std::vector<std::string_view> strings() const;  // throws an Error if it holds something else
  std::vector<int64_t> integers() const;          // any integer type or booleans; an Error for one beyond 2^63 - 1
  std::vector<double> numbers() const;            // any number
  std::string describe() const;                   // "an array of 512 f32"
  bool operator==(const Array& other) const;      // of the encoded bytes: a NaN equals itself

 private:
  ValueType type_;
  uint64_t count_;
  std::span<const uint8_t> encoded_;
  std::shared_ptr<const void> owner_;
};

// In the order of ValueType.
using Value = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool, std::string, Array,
                           uint64_t, int64_t, double>;
inline ValueType type_of(const Value& value) { return ValueType(value.index()); }
std::string to_string(const Value& value, size_t longest = 60);  // for messages; "..." beyond `longest` characters
std::string to_string(const Array& array, size_t longest = 60);

// For maps of std::string that are searched for a std::string_view.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
using TextPlaces = std::unordered_map<std::string, size_t, TextHash, std::equal_to<>>;

class Metadata {
 public:
  explicit Metadata(std::string source = {}) : source_(std::move(source)) {}

  void set(std::string key, Value value);                                            // replaces an older value
  const Value* find(std::string_view key) const;                                     // null where there is none
  const std::vector<std::pair<std::string, Value>>& all() const { return values_; }  // in order
  const std::string& source() const { return source_; }

  // The value, converted without loss. An Error names the source, the key, the type expected and the value found; those
  // without find_ throw it for a missing key as well.
  std::string_view string(std::string_view key) const;
  uint64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  bool boolean(std::string_view key) const;
  const Array& array(std::string_view key) const;
  std::optional<std::string_view> find_string(std::string_view key) const;
  std::optional<uint64_t> find_integer(std::string_view key) const;
  std::optional<double> find_number(std::string_view key) const;
  std::optional<bool> find_boolean(std::string_view key) const;
  const Array* find_array(std::string_view key) const;

 private:
  [[noreturn]] void refuse(std::string_view key, std::string_view expected, const Value* found) const;
  template <class T>
  T needed(std::string_view key, std::string_view expected, const std::optional<T>& found) const;

  std::string source_;  // the file, for errors
  std::vector<std::pair<std::string, Value>> values_;
  TextPlaces places_;
};

}  // namespace heddle::formats
