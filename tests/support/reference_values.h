// Ids and logits by others.
#pragma once
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "formats/safetensors.h"

namespace heddle::test {

// A safetensors file's tensors of f32 or i32, as vectors.
struct Values {
  std::map<std::string, std::vector<float>> f32;
  std::map<std::string, std::vector<uint32_t>> ids;
};
inline Values read_values(const std::filesystem::path& path) {
  const MappedFile file(path);
  Values values;
  for (const formats::Tensor& tensor : formats::read_safetensors(file.bytes(), path.string())) {
    const bool is_ids = tensor.format == quant::Format::i32;
    void* to =
        is_ids ? static_cast<void*>((values.ids[tensor.name].resize(tensor.values()), values.ids[tensor.name].data()))
               : static_cast<void*>((values.f32[tensor.name].resize(tensor.values()), values.f32[tensor.name].data()));
    std::memcpy(to, tensor.view.data(), tensor.bytes());
  }
  return values;
}

}  // namespace heddle::test
