// A checkpoint's keys and tensors as the loader asks for them: every number within a range, every tensor of the shape
// expected, and every question noted, so that what was never asked for can be named.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "formats/checkpoint.h"
#include "model/backend.h"

namespace heddle::model {

constexpr uint32_t max_row = 1 << 24;  // values of a row of any matrix, and of a row of activations

// All values of a matrix that is small.
Vector decoded(const Matrix& matrix);

struct Range {
  uint32_t min, max;
};

class Reader {
 public:
  // Matrices point into `checkpoint`, or into `storage` where the file has the tensor in another form.
  Reader(const formats::Checkpoint& checkpoint, std::vector<std::vector<uint8_t>>& storage);

  // <architecture>.<key>. Without a fallback an Error if it is not there; an Error if it is out of its range.
  uint32_t integer(std::string_view key, Range range, std::optional<uint32_t> fallback = {});
  double number(std::string_view key, std::optional<double> fallback = {});          // finite, also as an f32
  double number_above_0(std::string_view key, std::optional<double> fallback = {});  // the same
  double number_from_0(std::string_view key, std::optional<double> fallback = {});   // the same
  bool boolean(std::string_view key, bool fallback);
  std::string string(std::string_view key, std::string_view fallback);
  std::vector<std::string> strings(std::string_view key);  // empty where absent
  // One per layer, whether the file has one number for all layers or a list.
  std::vector<uint32_t> per_layer(std::string_view key, uint32_t layers, Range range,
                                  std::optional<uint32_t> fallback = {});
  // The same for numbers; finite ones, or -infinity where that is allowed.
  std::vector<float> numbers_per_layer(std::string_view key, uint32_t layers, bool or_minus_infinity = false);
  // One boolean per layer; nothing where the key is absent or has one number.
  std::optional<std::vector<bool>> booleans_per_layer(std::string_view key, uint32_t layers);
  void ignore(std::initializer_list<std::string_view> keys);
  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;

  // The rows of a tensor, however many there are: the size of the vocabulary stands nowhere else for certain.
  uint32_t rows(const std::string& tensor) const;
  bool has(std::string_view tensor) const { return checkpoint_.find(tensor) != nullptr; }
  // Tensors by name; an Error if there is none of that name or it has another shape.
  Matrix matrix(const std::string& name, uint64_t rows, uint64_t cols);
  // Some rows of a matrix that has `rows` of them, copied into the order of `which`.
  Matrix gathered(const std::string& name, uint64_t rows, uint64_t cols, std::span<const uint64_t> which);
  Experts experts(const std::string& name, uint64_t count, uint64_t rows, uint64_t cols);
  Vector vector(const std::string& name, uint64_t size);
  Vector vector_if(const std::string& name, uint64_t size) { return has(name) ? vector(name, size) : Vector(); }

  void ignore_tensors(std::string_view prefix);  // all whose names begin with it

  // An Error names the options and tensors that were never asked for: a model that has more than heddle knows of would
  // run and be wrong.
  void finish_options() const;
  void finish_tensors() const;

 private:
  const formats::Value* find(std::string_view key);
  // GGUF has those of xIELU without the architecture's name.
  std::string full(std::string_view key) const {
    return (key.starts_with("xielu.") ? std::string() : prefix_) + std::string(key);
  }
  std::span<const uint8_t> data(const formats::Tensor& tensor);
  const formats::Tensor& tensor(const std::string& name, const std::vector<uint64_t>& shape);

  const formats::Checkpoint& checkpoint_;
  std::vector<std::vector<uint8_t>>& storage_;
  std::string prefix_;
  std::set<std::string, std::less<>> used_keys_, used_tensors_;
};

}  // namespace heddle::model
