// safetensors: one file, or several with an index, read through a mapping under the names they have in the file.
#pragma once
#include "formats/checkpoint.h"

namespace heddle::formats {

// The tensors of one file, in the order of their data. `shape` is turned around: the length of a row first; a single
// value without dimensions has the shape {1}. Checked like GGUF. What heddle has no form for is put into `unreadable`;
// without one it is an Error.
std::vector<Tensor> read_safetensors(std::span<const uint8_t> bytes, const std::string& name,
                                     std::vector<Unreadable>* unreadable = nullptr);

// A folder with model.safetensors, or with model.safetensors.index.json and the parts it names; or one such file (a
// part that the index beside it names stands for all of them). metadata is empty; tensors are as in the files. What the
// model is, formats/hf.h works out.
Checkpoint read_safetensors_folder(const std::filesystem::path& path);

// Whether a folder has one of the two.
bool has_safetensors(const std::filesystem::path& folder);

}  // namespace heddle::formats
