// Files built field by field, so that a test can spoil any one of them.
#pragma once
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::formats::test {

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
inline std::string text(std::string_view value) { return raw(uint64_t{value.size()}).append(value); }

inline std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// GGUF. Types of values are given by number, as the file has them.
inline std::string key(std::string_view name, uint32_t type, std::string_view value) {
  return text(name) + raw(type) + std::string(value);
}
inline std::string string_key(std::string_view name, std::string_view value) { return key(name, 8, text(value)); }
inline std::string u32_key(std::string_view name, uint32_t value) { return key(name, 4, raw(value)); }
inline std::string array_key(std::string_view name, uint32_t type, uint64_t count, std::string_view values) {
  return key(name, 9, raw(type) + raw(count) + std::string(values));
}
inline std::string tensor(std::string_view name, const std::vector<uint64_t>& shape, uint32_t type, uint64_t offset) {
  std::string out = text(name) + raw(static_cast<uint32_t>(shape.size()));
  for (const uint64_t n : shape) out += raw(n);
  return out + raw(type) + raw(offset);
}

struct GgufBytes {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> tensor_count, key_count;  // what the file claims, where that is wrong
  std::vector<std::string> keys, tensors;
  uint64_t alignment = 32;
  std::string data;

  std::string bytes() const {
    std::string out =
        magic + raw(version) + raw(tensor_count.value_or(tensors.size())) + raw(key_count.value_or(keys.size()));
    for (const std::string& k : keys) out += k;
    for (const std::string& t : tensors) out += t;
    if (!tensors.empty()) out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data;
  }
};

// Every type of value, two tensors of different formats.
inline GgufBytes small_gguf() {
  GgufBytes file;
  file.keys = {string_key("general.architecture", "llama"),
               key("u8", 0, raw(uint8_t{200})),
               key("i8", 1, raw(int8_t{-100})),
               key("u16", 2, raw(uint16_t{60000})),
               key("i16", 3, raw(int16_t{-30000})),
               key("u32", 4, raw(uint32_t{4'000'000'000})),
               key("i32", 5, raw(int32_t{-2'000'000'000})),
               key("f32", 6, raw(1.5f)),
               key("bool", 7, raw(uint8_t{1})),
               key("u64", 10, raw(uint64_t{1} << 63)),
               key("i64", 11, raw(int64_t{-1} << 62)),
               key("f64", 12, raw(0.1)),
               array_key("tokens", 8, 3, text("a") + text("") + text(std::string_view("\xff\0z", 3))),
               array_key("scores", 6, 2, raw(0.5f) + raw(-0.5f)),
               array_key("flags", 7, 2, std::string("\x01\x00", 2)),
               array_key("none", 5, 0, "")};
  file.tensors = {tensor("norm.weight", {3}, 0, 0), tensor("q.weight", {32, 2}, 2, 32)};
  for (int i = 0; i < 32 + 36; ++i) file.data += static_cast<char>(i < 12 || i >= 32 ? i + 1 : 0);
  return file;
}

// safetensors.
inline std::string safetensors(std::string_view header, std::string_view data) { return text(header).append(data); }
inline std::string safetensors_line(std::string_view name, std::string_view dtype, std::string_view shape,
                                    uint64_t begin, uint64_t end) {
  return "\"" + std::string(name) + R"(":{"dtype":")" + std::string(dtype) + R"(","shape":)" + std::string(shape) +
         R"(,"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

}  // namespace heddle::formats::test
