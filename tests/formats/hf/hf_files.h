// The tensors of a Hugging Face model, invented in memory: value i of tensor n is 1000 n + i, so that no two are equal.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/hf.h"
#include "quant/format.h"

namespace heddle::formats::test {

class HfFiles {
 public:
  // `shape` as the file has it: rows first.
  HfFiles& add(const std::string& name, const std::vector<uint64_t>& shape, quant::Format format = quant::Format::f32) {
    Tensor tensor;
    tensor.name = name;
    tensor.shape = {shape.rbegin(), shape.rend()};
    tensor.format = format;
    std::vector<float> values(tensor.values());
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(1000 * tensors_.size() + i);
    auto bytes = std::make_shared<std::vector<uint8_t>>(tensor.bytes());
    quant::encode(format, values.data(), values.size(), bytes->data());
    tensor.view = *bytes;
    kept_.push_back(bytes);
    tensors_.push_back(tensor);
    return *this;
  }
  HfFiles& without(const std::string& name) {
    std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
    return *this;
  }
  // The model with that config.json. The files must outlive it.
  Checkpoint model(const std::string& config, std::vector<Unreadable> unreadable = {}) const {
    Checkpoint checkpoint;
    checkpoint.path = "folder";
    checkpoint.kind = Checkpoint::Kind::safetensors;
    checkpoint.tensors = tensors_;
    checkpoint.unreadable = std::move(unreadable);
    checkpoint.index();
    apply_hf_config(checkpoint, parse_json(config, "config.json"));
    return checkpoint;
  }

 private:
  std::vector<Tensor> tensors_;
  std::vector<std::shared_ptr<std::vector<uint8_t>>> kept_;
};

inline std::vector<float> values_of(const Tensor& tensor) {
  std::vector<uint8_t> scratch;
  const auto data = tensor.data(scratch);
  std::vector<float> values(tensor.values());
  quant::decode(tensor.format, data.data(), values.size(), values.data());
  return values;
}

// A llama of one layer: hidden 4, two heads of 4 values, one of k and v, vocabulary 3.
inline HfFiles tiny_llama(quant::Format format = quant::Format::f32) {
  HfFiles files;
  const std::string layer = "model.layers.0.";
  files
      .add("model.embed_tokens.weight", {3, 4}, format)             // 0
      .add(layer + "self_attn.q_proj.weight", {8, 4}, format)       // 1
      .add(layer + "self_attn.k_proj.weight", {4, 4}, format)       // 2
      .add(layer + "self_attn.v_proj.weight", {4, 4}, format)       // 3
      .add(layer + "self_attn.o_proj.weight", {4, 8}, format)       // 4
      .add(layer + "mlp.gate_proj.weight", {6, 4}, format)          // 5
      .add(layer + "mlp.up_proj.weight", {6, 4}, format)            // 6
      .add(layer + "mlp.down_proj.weight", {4, 6}, format)          // 7
      .add(layer + "input_layernorm.weight", {4}, format)           // 8
      .add(layer + "post_attention_layernorm.weight", {4}, format)  // 9
      .add("model.norm.weight", {4}, format)                        // 10
      .add("lm_head.weight", {3, 4}, format);                       // 11
  return files;
}
// Its config.json, with `more` members.
inline std::string tiny_llama_config(const std::string& more = {}, const std::string& class_name = "LlamaForCausalLM") {
  return R"({"architectures": [")" + class_name + R"("], "hidden_size": 4, "intermediate_size": 6,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 3,
    "max_position_embeddings": 128)" +
         (more.empty() ? "" : ", " + more) + "}";
}

}  // namespace heddle::formats::test
