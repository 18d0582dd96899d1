// Models, ids and logits of other programs, in the reference data: models that transformers saved, one of each
// architecture, and tensors of values to compare with.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "formats/safetensors.h"
#include "tests/support/shared_data.h"

namespace heddle::test {

// The tensors of a safetensors file, of f32 or i32, as vectors.
struct Values {
  std::map<std::string, std::vector<float>> f32;
  std::map<std::string, std::vector<uint32_t>> ids;
};
inline Values read_values(const std::filesystem::path& path) {
  const MappedFile file(path);
  Values values;
  for (const formats::Tensor& tensor : formats::read_safetensors(file.bytes(), path.string())) {
    const auto read = [&](auto& list) {
      list.resize(tensor.values());
      std::memcpy(list.data(), tensor.view.data(), tensor.bytes());
    };
    if (tensor.format == quant::Format::i32)
      read(values.ids[tensor.name]);
    else
      read(values.f32[tensor.name]);
  }
  return values;
}

// "llama3-ropescaled" -> "llama3_ropescaled"
inline std::string as_test_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class HfArch : public testing::TestWithParam<const char*> {
 public:
  static std::string folder() { return std::string("hf-arch/") + GetParam(); }
};

}  // namespace heddle::test

#define HEDDLE_FOR_ALL_OF_HF_ARCH()                                                                                   \
  INSTANTIATE_TEST_SUITE_P(All, HfArch,                                                                               \
                           testing::Values("gemma2", "gemma3", "gpt2", "llama3-ropescaled", "mistral-swa", "mixtral", \
                                           "phi3", "qwen2", "qwen3"),                                                 \
                           [](const auto& one) { return heddle::test::as_test_name(one.param); })
