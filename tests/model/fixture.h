// A tiny model of one class: its config, and the logits that transformers computes (tools/model_fixtures/make.py wrote
// both). The weights are in no file: they follow from the names of the tensors.
#pragma once
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "quant/format.h"
#include "tests/support/folder.h"

namespace heddle::test {

// Multiples of 1/256 within a quarter of 0; norms and scales are multiples of 1/64 within a quarter of `norms`.
inline std::vector<float> formula(const std::string& name, const std::vector<uint64_t>& shape, float norms) {
  uint32_t seed = 2166136261;
  for (const char byte : name) seed = (seed ^ uint8_t(byte)) * 16777619;
  uint64_t count = 1;
  for (const uint64_t n : shape) count *= n;
  const bool is_norm =
      shape.size() == 1 && (name.ends_with("weight") || name.ends_with("scale") || name.ends_with("layer_scalar"));
  std::vector<float> values(count);
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t x = i * 2654435769u + seed;
    x = (x ^ x >> 16) * 2146121005u;
    x = (x ^ x >> 15) * 2221713035u;
    const float k = float(x >> 25) - 64;
    values[i] = is_norm ? norms + std::floor(k / 4) / 64 : k / 256;
  }
  return values;
}

class Fixture {
 public:
  const Json json;
  const Json& config;
  const std::vector<uint32_t> ids;
  const uint32_t context;  // to load it with; 0: its own

  Fixture(const Fixture&) = delete;
  explicit Fixture(const std::string& name, const std::filesystem::path& from = folder())
      : json(parse_json(MappedFile(from / (name + ".json")).text(), name)),
        config(json.at("config")),
        ids(json.value("ids", std::vector<uint32_t>())),
        context(json.at("context").get<uint32_t>()) {}

  static std::filesystem::path folder() {
#ifdef HEDDLE_FIXTURES  // of a program that is carried to another machine
    return HEDDLE_FIXTURES;
#else
    return std::filesystem::path(HEDDLE_SOURCE_DIR) / "tests" / "model" / "fixtures";
#endif
  }
  static std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) all.push_back(entry.path().stem().string());
    std::sort(all.begin(), all.end());
    return all;
  }
  // Without the text parts of classes that see pictures, which have the layers of other classes.
  static std::vector<std::string> names_of_text_models() {
    std::vector<std::string> all = names();
    std::erase_if(all,
                  [](const std::string& name) { return text_of(name).find("\"text_config\"") != std::string::npos; });
    return all;
  }
  // Only models with recurrent states, or only the others.
  static std::vector<std::string> with_states(std::vector<std::string> all, bool with) {
    std::erase_if(all, [&](const std::string& name) {
      const std::string text = text_of(name);  // all of these have convolutions, and no others
      const bool found = text.find(".conv1d.") != text.npos || text.find(".conv.conv.") != text.npos;
      return found != with;
    });
    return all;
  }
  // The first of each class of these.
  static std::vector<std::string> one_of_each_class() {
    std::vector<std::string> all = names_of_text_models();
    std::set<std::string> classes;
    std::erase_if(all, [&](const std::string& name) {
      constexpr std::string_view key = "\"architectures\":[\"";
      const std::string text = text_of(name);
      const size_t at = text.find(key);
      check(at != text.npos, "a fixture with its class");
      return !classes.insert(text.substr(at, text.find('"', at + key.size()) - at)).second;
    });
    return all;
  }

  // What transformers says at some positions.
  std::vector<float> logits() const {
    std::vector<float> all;
    for (const Json& row : json.at("logits"))
      for (const Json& value : row) all.push_back(value.get<float>());
    return all;
  }
  // The same positions of the logits of all.
  std::vector<float> chosen(const std::vector<float>& all) const {
    const size_t size = all.size() / ids.size();
    std::vector<float> some;
    for (const Json& position : json.at("positions")) {
      const auto begin = all.begin() + long(position.get<size_t>() * size);
      some.insert(some.end(), begin, begin + long(size));
    }
    return some;
  }

  // The weights as the bytes of a safetensors file.
  std::string safetensors(quant::Format format = quant::Format::f32) const { return safetensors(tensors(), format); }

 protected:
  using Shapes = std::vector<std::pair<std::string, std::vector<uint64_t>>>;
  std::string safetensors(const Shapes& shapes, quant::Format format) const {
    const char* type = format == quant::Format::f32 ? "F32" : format == quant::Format::f16 ? "F16" : "BF16";
    Json header = Json::object();
    std::string data;
    for (const auto& [name, shape] : shapes) {
      const std::vector<float> values = formula(name, shape, json.at("norms").get<float>());
      std::vector<uint8_t> bytes(quant::row_bytes(format, values.size()));
      quant::encode(format, values.data(), values.size(), bytes.data());
      header[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + bytes.size()}}};
      data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());  // by bytes it takes a fifth of the test
    }
    const std::string text = header.dump();
    const uint64_t size = text.size();
    std::string file(sizeof size, '\0');
    std::memcpy(file.data(), &size, sizeof size);
    return file + text + data;
  }

 public:
  // config.json and model.safetensors.
  void write(const Folder& to, const Json& with_config, quant::Format format = quant::Format::f32) const {
    to.write("config.json", with_config.dump());
    to.write("model.safetensors", safetensors(format));
  }

 private:
  static std::string text_of(const std::string& name) {
    return std::string(MappedFile(folder() / (name + ".json")).text());
  }
  // Each name once for every number that may stand in the place of `sign`.
  static Shapes numbered(const Shapes& names, char sign, uint64_t count) {
    Shapes all;
    for (const auto& [name, shape] : names) {
      const size_t at = name.find(sign);
      if (at == name.npos) {
        all.emplace_back(name, shape);
        continue;
      }
      for (uint64_t i = 0; i < count; ++i)
        all.emplace_back(name.substr(0, at) + std::to_string(i) + name.substr(at + 1), shape);
    }
    return all;
  }
  Shapes tensors() const {
    Shapes all;
    for (const auto& [name, shape] : json.at("tensors").items())
      all.emplace_back(name, shape.get<std::vector<uint64_t>>());
    return numbered(numbered(all, '*', json.at("layers").get<uint64_t>()), '?', json.at("experts").get<uint64_t>());
  }
};

}  // namespace heddle::test
