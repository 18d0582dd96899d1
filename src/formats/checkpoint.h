// A model on disk, in any format: its metadata, its tensors under GGUF's names, and the files of its tokenizer.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "formats/metadata.h"
#include "quant/format.h"

namespace heddle::formats {

struct Tensor {
  std::string name;
  std::vector<uint64_t> shape;  // the length of a row first, as in GGUF; 1 to 4 numbers, none of them 0
  quant::Format format = quant::Format::f32;
  std::string source;  // its name in the file, where that is another

  // The data in the mapped file, without alignment (safetensors has none). Empty where heddle's form of the tensor is
  // not the file's (rows in another order, tensors joined, a transposition): then `produce` writes `bytes()` bytes.
  std::span<const uint8_t> view;
  std::function<void(std::span<uint8_t>)> produce;
  // `count` rows as f32, where the file has them in a quantisation that is none of heddle's formats (FP8, AWQ, ...):
  // `format` is then the nearest, which `produce` writes, and a conversion to another starts from these. May be called
  // from several threads.
  std::function<void(uint64_t first, uint64_t count, float* to)> exact;

  uint64_t values() const;
  uint64_t rows() const;  // values() / shape[0]
  uint64_t bytes() const;
  // The view, or `scratch` filled.
  std::span<const uint8_t> data(std::vector<uint8_t>& scratch) const;
};

// A tensor in the file that heddle has no form for: of a type without a quant::Format, without values, of more than 4
// dimensions. A model may have such a buffer; only asking for it is an Error.
struct Unreadable {
  std::string name;
  std::string reason;  // "has the type F8_E4M3"
  // As in Tensor, of a safetensors file. formats/hf/quantized knows what they mean in a quantised model.
  std::string type = {};  // "F8_E4M3"
  std::vector<uint64_t> shape = {};
  std::span<const uint8_t> view = {};
};

// The texts beside the weights of a safetensors model; empty where there is no such file. GGUF has them in its
// metadata.
struct TextFiles {
  std::string tokenizer;         // tokenizer.json
  std::string tokenizer_config;  // tokenizer_config.json
  std::string special_tokens;    // special_tokens_map.json
  std::string generation;        // generation_config.json
  std::string chat_template;     // chat_template.jinja
};

struct Checkpoint {
  enum class Kind { gguf, safetensors };

  std::filesystem::path path;  // what was opened
  std::string known_as;        // a name that is not that of the file; empty: it is
  Kind kind = Kind::gguf;
  Metadata metadata;  // GGUF's keys
  std::vector<Tensor> tensors;
  std::vector<Unreadable> unreadable;  // not among the tensors; under their names in the file
  TextFiles text;
  // The class of a safetensors model that heddle does not know: metadata has general.* only, and tensors keep their
  // names. Empty: known.
  std::string unknown_class;
  // How the weights of a safetensors model are quantised, where that is none of heddle's formats: "AWQ 4 bit, group
  // 128". Empty: they are read as they are.
  std::string quantization;
  std::string text_part_of;           // the class, where it has more than the model that is read here: pictures, sound
  std::vector<std::string> warnings;  // options of config.json that heddle does without, for the user
  std::vector<std::shared_ptr<const MappedFile>> files;  // the views are into these

  std::string name() const;  // what people call the model: its file or folder, without extension and number of a part
  uint64_t file_bytes() const;
  void expect_known_class() const;                  // an Error names those that heddle knows
  std::string_view architecture() const;            // general.architecture; an Error if there is none
  const Tensor* find(std::string_view name) const;  // null where there is none; an Error if it is unreadable
  const Tensor& tensor(std::string_view name) const;
  // "weights: AWQ 4 bit, group 128, converted to q4_1", or "".
  std::string quantization_note() const;
  // For errors about a missing tensor, which may be an unreadable one: "; not read: NAME has the type F8_E4M3", or "".
  std::string not_read() const;

  // The chat template called `name` ("" and "default": the default one; others: "tool_use"), wherever the model has it;
  // empty if it has none.
  std::string chat_template(std::string_view name = {}) const;

  // To be called when `tensors` and `unreadable` are filled: find() uses it. Throws an Error for a repeated name.
  void index();

 private:
  TextPlaces places_;             // in tensors
  TextPlaces unreadable_places_;  // in unreadable
};

// A GGUF file (any file of a split model), a safetensors file, or a folder with one model. The first bytes decide which
// it is. A safetensors model is read by the config.json of its folder, where there is one.
Checkpoint open_checkpoint(const std::filesystem::path& path);

}  // namespace heddle::formats
