// A model file small enough to know by heart: a SentencePiece vocabulary of a few words and bytes, two tensors, a
// template.
#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "formats/gguf.h"
#include "tests/main/heddle_command.h"
#include "tests/support/folder.h"

namespace heddle::test {

inline constexpr const char* small_template =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}\n{% endfor %}"
    "{% if tools %}{{ tools | length }} tools on {{ strftime_now('%Y-%m-%d') }}\n{% endif %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

// Ids: 0 <unk>, 1 <s>, 2 </s>, 3 to 258 the bytes, 259 "_", 260 "h", 261 "i", 262 "_h", 263 "_hi", 264 "<|turn|>".
// With `layers` it can be run: all weights are 0, so that all logits are. `embedded`: rows of the embedding, at least
// 265.
inline std::string write_small_model(const Folder& folder, const std::string& name = "small.gguf", bool layers = false,
                                     uint64_t embedded = 265) {
  using namespace formats;
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<float> scores(3, 0.0f);
  std::vector<int32_t> types{2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    scores.push_back(0);
    types.push_back(6);
  }
  const std::string space = "\xe2\x96\x81";
  float score = -1;
  for (const std::string& text : {space, std::string("h"), std::string("i"), space + "h", space + "hi"}) {
    tokens.push_back(text);
    scores.push_back(score -= 1);
    types.push_back(1);
  }
  tokens.push_back("<|turn|>");
  scores.push_back(0);
  types.push_back(3);

  Metadata metadata;
  metadata.set("general.architecture", std::string("llama"));
  metadata.set("general.name", std::string("small"));
  metadata.set("llama.context_length", uint32_t(128));
  metadata.set("llama.block_count", uint32_t(2));
  metadata.set("llama.embedding_length", uint32_t(64));
  metadata.set("llama.attention.head_count", uint32_t(4));
  metadata.set("llama.attention.head_count_kv", uint32_t(2));
  metadata.set("tokenizer.ggml.model", std::string("llama"));
  metadata.set("tokenizer.ggml.tokens", Array::of(tokens));
  metadata.set("tokenizer.ggml.scores", Array::of(scores));
  metadata.set("tokenizer.ggml.token_type", Array::of(types));
  metadata.set("tokenizer.ggml.bos_token_id", uint32_t(1));
  metadata.set("tokenizer.ggml.eos_token_id", uint32_t(2));
  metadata.set("tokenizer.ggml.unknown_token_id", uint32_t(0));
  metadata.set("tokenizer.chat_template", std::string(small_template));
  const std::string path = folder.file(name);
  std::vector<GgufWriter::Announced> tensors{{"token_embd.weight", {64, embedded}, quant::Format::q8_0},
                                             {"output_norm.weight", {64}, quant::Format::f32}};
  if (layers) {
    metadata.set("llama.feed_forward_length", uint32_t(96));
    metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    for (const char* layer : {"blk.0.", "blk.1."}) {
      const auto add = [&](const char* part, std::vector<uint64_t> shape) {
        const quant::Format format = shape.size() == 1 ? quant::Format::f32 : quant::Format::q8_0;
        tensors.push_back({std::string(layer) + part + ".weight", std::move(shape), format});
      };
      add("attn_norm", {64});
      add("attn_q", {64, 64});
      add("attn_k", {64, 32});
      add("attn_v", {64, 32});
      add("attn_output", {64, 64});
      add("ffn_norm", {64});
      add("ffn_gate", {64, 96});
      add("ffn_up", {64, 96});
      add("ffn_down", {96, 64});
    }
  }
  GgufWriter writer(path, metadata, tensors);
  for (const GgufWriter::Announced& tensor : tensors) {
    const uint64_t rows = tensor.shape.size() == 1 ? 1 : tensor.shape[1];
    writer.write(std::vector<uint8_t>(rows * quant::row_bytes(tensor.format, tensor.shape[0])));
  }
  writer.commit();
  return path;
}

}  // namespace heddle::test
