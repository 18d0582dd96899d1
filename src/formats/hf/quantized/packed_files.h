// The tensors of a quantised folder by name, with the numbers in them, and the weights that are made of them.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/hf/description.h"

namespace heddle::formats::hf {

// A tensor as its file has it.
struct Packed {
  enum class Type { f32, f16, bf16, i8, i32, i64, u8, e4m3, e5m2, e8m0, other };

  std::string name;
  Type type = Type::other;
  std::string type_name;  // "F8_E4M3"
  Shape shape;            // the length of a row first
  std::span<const uint8_t> view;

  uint64_t values() const;
  float number(uint64_t i) const;    // of a scale: f32, f16, bf16 or e8m0
  uint32_t word(uint64_t i) const {  // of i32, as bits
    uint32_t value;
    std::memcpy(&value, view.data() + i * sizeof value, sizeof value);
    return value;
  }
  int byte(uint64_t i) const { return type == Type::i8 ? int(int8_t(view[i])) : int(view[i]); }  // of u8 and i8
  std::string_view text() const { return {reinterpret_cast<const char*>(view.data()), view.size()}; }
};

class PackedFiles {
 public:
  PackedFiles(std::vector<Tensor>& tensors, std::vector<Unreadable>& unreadable, const std::string& source);

  using Types = std::initializer_list<Packed::Type>;
  // In order of their names.
  std::vector<std::string> ending_with(std::string_view suffix) const;
  std::vector<std::string> of_type(Packed::Type type) const;
  const Packed* find(const std::string& name) const;  // null where there is none
  bool has(const std::string& name) const { return find(name) != nullptr; }
  // Takes a tensor out of the folder. An Error if it is absent, of another type or of another shape; dimensions of 1
  // count for nothing.
  Packed take(const std::string& name, Types types, const Shape& shape);
  Packed take(const std::string& name, Types types);
  void drop(std::string_view suffix);  // tensors that weights do not need
  void add(Tensor weight);

  // Leaves in the folder what was not taken, with the weights. Whether there are any that are not in their own format.
  bool finish();

  template <class... Args>
  [[noreturn]] void refuse(const std::string& name, fmt::format_string<Args...> format, Args&&... args) const {
    refuse_text(name, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  [[noreturn]] void refuse_text(const std::string& name, const std::string& text) const;

  std::vector<Tensor>& tensors_;
  std::vector<Unreadable>& unreadable_;
  const std::string& source_;
  std::map<std::string, Packed> all_;  // but those taken
  std::vector<Tensor> weights_;
};

std::string shape_text(const Shape& shape);  // as config.json has it: "4096 x 128"
bool same_shape(const Shape& a, const Shape& b);

// A matrix whose values are computed from packed ones: in `format`, which `encode` writes, or else is encoded from the
// exact values, on all cores. `from` is the tensor to be named to users.
using ExactRows = std::function<void(uint64_t first, uint64_t count, float* to)>;
using EncodedRows = std::function<void(uint64_t first, uint64_t count, uint8_t* to)>;
Tensor computed_matrix(std::string name, std::string from, uint64_t cols, uint64_t rows, quant::Format format,
                       ExactRows exact, EncodedRows encode = {});

// For values that no format of 4 bits holds.
quant::Format nearest_format(uint64_t cols);

}  // namespace heddle::formats::hf
