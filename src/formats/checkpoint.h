// A model on disk, whichever format it is in: what it says of itself, its tensors under GGUF's names, and the files its
// tokenizer comes from.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "formats/metadata.h"
#include "quant/format.h"

namespace heddle::formats {

struct Tensor {
  std::string name;
  std::vector<uint64_t> shape;  // the length of a row first, as in GGUF; 1 to 4 numbers, none of them 0
  quant::Format format = quant::Format::f32;
  std::string source;  // its name in the file, where that is another

  // The data as it lies in the mapped file, on no particular address (safetensors aligns nothing). Empty where heddle's
  // form of the tensor is another than the file's (rows in another order, parts joined, a transposition): then
  // `produce` writes `bytes()` bytes.
  std::span<const uint8_t> view;
  std::function<void(std::span<uint8_t>)> produce;

  uint64_t values() const;
  uint64_t rows() const;  // values() / shape[0]
  uint64_t bytes() const;
  // The view, or `scratch` filled.
  std::span<const uint8_t> data(std::vector<uint8_t>& scratch) const;
};

// A tensor that is in the file but that heddle has no form for: of a type without a quant::Format, of no values, of
// more than 4 dimensions. A model may carry such a buffer; only who asks for it gets an Error.
struct Unreadable {
  std::string name;
  std::string reason;  // "has the type F8_E4M3"
};

// The texts beside the weights of a safetensors model; empty where there is no such file. GGUF has all of it in
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
  Kind kind = Kind::gguf;
  Metadata metadata;  // GGUF's keys
  std::vector<Tensor> tensors;
  std::vector<Unreadable> unreadable;  // none of these is among the tensors; under their names in the file
  TextFiles text;
  // A safetensors model of a class that heddle does not know: then metadata has general.* only and tensors keep their
  // names.
  std::string unknown_class;
  std::vector<std::shared_ptr<const MappedFile>> files;  // the views are into these

  uint64_t file_bytes() const;
  std::string_view architecture() const;            // general.architecture; an Error if there is none
  const Tensor* find(std::string_view name) const;  // null when it is not there; an Error if it is unreadable
  const Tensor& tensor(std::string_view name) const;
  // For errors about a missing tensor, which may be one of these: "; not read: NAME has the type F8_E4M3", or nothing.
  std::string not_read() const;

  // The chat template called `name` ("" and "default" are the default one; others: "tool_use"), from wherever it is
  // kept; empty if none.
  std::string chat_template(std::string_view name = {}) const;

  // After `tensors` and `unreadable` were filled: find() uses it. Throws an Error for a name that is there twice.
  void index();

 private:
  TextPlaces places_;             // in tensors
  TextPlaces unreadable_places_;  // in unreadable
};

// A GGUF file (the first of a split one, or any of its parts), a safetensors file, or a folder that holds one model.
// Which it is, the first bytes say. A safetensors model is read by its folder's config.json, where there is one.
Checkpoint open_checkpoint(const std::filesystem::path& path);

}  // namespace heddle::formats
