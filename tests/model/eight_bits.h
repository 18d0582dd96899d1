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

// Every matrix: multiples of 1/256, with the scale 127/256.
inline std::string eight_bits(const std::string& safetensors) {
  Json header = Json::object();
  std::string data;
  const auto put = [&](const std::string& name, const char* type, std::vector<uint64_t> shape, std::string_view bytes) {
    std::reverse(shape.begin(), shape.end());
    header[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
  };
  std::vector<formats::Unreadable> left_out;  // of pictures, with five dimensions
  for (const formats::Tensor& tensor :
       formats::read_safetensors(formats::test::bytes_of(safetensors), "fixture", &left_out)) {
    const std::string_view bytes(reinterpret_cast<const char*>(tensor.view.data()), tensor.view.size());
    if (tensor.shape.size() != 2 || !tensor.name.ends_with(".weight")) {
      put(tensor.name, "F32", tensor.shape, bytes);
      continue;
    }
    std::string quants, scales;
    for (size_t i = 0; i < tensor.values(); ++i) {
      float value;
      std::memcpy(&value, &bytes[4 * i], 4);
      quants += static_cast<char>(static_cast<int8_t>(value * 256));
    }
    for (uint64_t row = 0; row < tensor.rows(); ++row) scales += formats::test::raw(127.0f / 256);
    put(tensor.name, "I8", tensor.shape, quants);
    put(tensor.name.substr(0, tensor.name.size() - 6) + "SCB", "F32", {tensor.rows()}, scales);
  }
  return formats::test::safetensors(header.dump(), data);
}

inline void write_eight_bits(const Fixture& fixture, const Folder& to) {
  Json config = fixture.config;
  config["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}};
  to.write("config.json", config.dump());
  to.write("model.safetensors", eight_bits(fixture.safetensors()));
}

}  // namespace heddle::test
