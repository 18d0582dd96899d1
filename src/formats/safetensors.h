// safetensors: one file, or several with an index, read through a mapping under the names they have in the file.
#pragma once
#include "formats/checkpoint.h"

namespace heddle::formats {

// The tensors of one file. `shape` is turned around: the length of a row first. Checked like GGUF.
std::vector<Tensor> read_safetensors(std::span<const uint8_t> bytes, const std::string& name);

// A folder with model.safetensors, or with model.safetensors.index.json and the parts it names; or one such file.
// metadata is empty; tensors are as in the files. What the model is, formats/hf.h works out.
Checkpoint read_safetensors_folder(const std::filesystem::path& path);

}  // namespace heddle::formats
