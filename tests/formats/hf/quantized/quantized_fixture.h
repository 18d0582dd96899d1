// The tensors of a quantised folder with the values that they stand for; tools/quantized_fixtures/make.py wrote both.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "formats/hf/quantization.h"
#include "formats/safetensors.h"

namespace heddle::formats::test {

class QuantizedFixture {
 public:
  explicit QuantizedFixture(const std::string& name)
      : file_(std::filesystem::path(HEDDLE_SOURCE_DIR) / "tests/formats/hf/quantized/fixtures" /
              (name + ".safetensors")) {
    std::vector<Unreadable> others;
    for (Tensor& tensor : read_safetensors(file_.bytes(), name, &others)) {
      constexpr std::string_view prefix = "expected.";
      if (tensor.name.starts_with(prefix)) {
        tensor.name.erase(0, prefix.size());
        expected.push_back(std::move(tensor));
      } else {
        tensors.push_back(std::move(tensor));
      }
    }
    for (Unreadable& tensor : others) {
      if (tensor.name == "quantization_config")
        config["quantization_config"] =
            parse_json({reinterpret_cast<const char*>(tensor.view.data()), tensor.view.size()}, name);
      else
        unreadable.push_back(std::move(tensor));
    }
  }
  std::string unpack() {
    std::string text = hf::unpack_quantized(config, tensors, unreadable, "folder");
    EXPECT_TRUE(unreadable.empty());
    EXPECT_EQ(tensors.size(), expected.size());
    return text;
  }
  const Tensor& weight(const std::string& name) const {
    const auto found = std::ranges::find(tensors, name, &Tensor::name);
    check(found != tensors.end(), "the weight is there");
    return *found;
  }
  Json& option(const char* key) { return config["quantization_config"][key]; }
  void drop(std::string_view suffix) {
    std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.name.ends_with(suffix); });
    std::erase_if(unreadable, [&](const Unreadable& tensor) { return tensor.name.ends_with(suffix); });
  }
  void reshape(std::string_view suffix, const std::vector<uint64_t>& shape) {
    for (Tensor& tensor : tensors)
      if (tensor.name.ends_with(suffix)) tensor.shape = shape;
    for (Unreadable& tensor : unreadable)
      if (tensor.name.ends_with(suffix)) tensor.shape = shape;
  }

  Json config = Json::object();
  std::vector<Tensor> tensors, expected;
  std::vector<Unreadable> unreadable;

 private:
  MappedFile file_;
};

}  // namespace heddle::formats::test
