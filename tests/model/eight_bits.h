// The folder of a fixture with 8-bit weights of bitsandbytes, which are exact.
#pragma once
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors.h"
#include "tests/formats/built_files.h"
#include "tests/model/fixture.h"
#include "tests/support/folder.h"

namespace heddle::test {

// A safetensors file, tensor by tensor.
struct BuiltSafetensors {
  Json header = Json::object();
  std::string data;

  void put(const std::string& name, const char* type, const std::vector<uint64_t>& shape, std::string_view bytes) {
    header[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
  }
  void put(const std::string& name, const std::vector<uint64_t>& shape, const std::vector<float>& values) {
    put(name, "F32", shape, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  std::string bytes() const { return formats::test::safetensors(header.dump(), data); }
};

// Every matrix: multiples of 1/256, with the scale 127/256.
inline std::string eight_bits(const std::string& safetensors) {
  BuiltSafetensors file;
  std::vector<formats::Unreadable> others;  // of 5 dimensions: none that a model of text needs
  for (const formats::Tensor& tensor :
       formats::read_safetensors(formats::test::bytes_of(safetensors), "fixture", &others)) {
    const std::string_view bytes(reinterpret_cast<const char*>(tensor.view.data()), tensor.view.size());
    const std::vector<uint64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    if (shape.size() != 2 || !tensor.name.ends_with(".weight")) {
      file.put(tensor.name, "F32", shape, bytes);
      continue;
    }
    std::string quants;
    for (size_t i = 0; i < tensor.values(); ++i) {
      float value;
      std::memcpy(&value, &bytes[4 * i], 4);
      quants += static_cast<char>(static_cast<int8_t>(value * 256));
    }
    file.put(tensor.name, "I8", shape, quants);
    file.put(tensor.name.substr(0, tensor.name.size() - 6) + "SCB", {shape[0]},
             std::vector<float>(shape[0], 127.0f / 256));
  }
  return file.bytes();
}

inline void write_eight_bits(const Fixture& fixture, const Folder& to) {
  Json config = fixture.config;
  config["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}};
  to.write("config.json", config.dump());
  to.write("model.safetensors", eight_bits(fixture.safetensors()));
}

}  // namespace heddle::test
