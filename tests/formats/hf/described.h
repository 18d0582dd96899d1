// Descriptions of small configs, and what is in them.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/hf/classes.h"

namespace heddle::formats::test {

inline hf::Description described(const std::string& config) {
  return hf::describe(parse_json(config, "config.json"), "config.json");
}

// hidden 8, inner 6, two layers, 2 heads, vocabulary 3, and `more` members.
inline std::string small_config(const std::string& class_name, const std::string& more = {}) {
  return R"({"architectures": [")" + class_name + R"("], "hidden_size": 8, "intermediate_size": 6,
    "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 3, "max_position_embeddings": 128)" +
         (more.empty() ? "" : ", " + more) + "}";
}

inline bool has_tensor(const hf::Description& description, const std::string& name) {
  for (const hf::Wanted& tensor : description.tensors)
    if (tensor.name == name) return true;
  return false;
}

inline const hf::Wanted& tensor_of(const hf::Description& description, const std::string& name) {
  for (const hf::Wanted& tensor : description.tensors)
    if (tensor.name == name) return tensor;
  throw Error("no tensor {}", name);
}

}  // namespace heddle::formats::test
