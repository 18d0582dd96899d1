// A checkpoint's keys and tensors as a page asks for them: checked, and noted as used.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "formats/checkpoint.h"
#include "model/backend.h"

namespace heddle::model {

class Reader {
 public:
  // Matrices point into `checkpoint`, or into `made` where the tensor had to be made.
  Reader(const formats::Checkpoint& checkpoint, std::vector<std::vector<uint8_t>>& made);

  // <architecture>.<key>. Without a fallback an Error if it is not there.
  uint32_t integer(std::string_view key, std::optional<uint32_t> fallback = {});
  double number(std::string_view key, std::optional<double> fallback = {});
  bool boolean(std::string_view key, bool fallback);
  std::string string(std::string_view key, std::string_view fallback);
  // One for every layer, whether the file has one for all or a list.
  std::vector<uint32_t> per_layer(std::string_view key, uint32_t layers, std::optional<uint32_t> fallback = {});
  void ignore(std::initializer_list<std::string_view> keys);
  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;

  uint32_t rows(const std::string& tensor) const;  // whatever they are: the vocabulary's size is nowhere else for sure
  bool has(std::string_view tensor) const { return checkpoint_.find(tensor) != nullptr; }
  // Tensors by name; an Error where there is none of that name or its shape is another.
  Matrix matrix(const std::string& name, uint64_t rows, uint64_t cols);
  Experts experts(const std::string& name, uint64_t count, uint64_t rows, uint64_t cols);
  Vector vector(const std::string& name, uint64_t size);
  Vector vector_if(const std::string& name, uint64_t size) { return has(name) ? vector(name, size) : Vector(); }

  // Options and tensors that no one asked for are an Error that names them: a model that has more than heddle knows of
  // would run and be wrong.
  void finish_options() const;
  void finish_tensors() const;

 private:
  const formats::Value* find(std::string_view key);
  std::span<const uint8_t> data(const formats::Tensor& tensor);
  const formats::Tensor& tensor(const std::string& name, const std::vector<uint64_t>& shape);

  const formats::Checkpoint& checkpoint_;
  std::vector<std::vector<uint8_t>>& made_;
  std::string prefix_;
  std::set<std::string, std::less<>> used_keys_, used_tensors_;
};

}  // namespace heddle::model
