// safetensors: one file, or several with an index, read through a mapping under the names of the files.
#pragma once
#include "formats/checkpoint.h"

namespace heddle::formats {

// The tensors of one file, in the order of their data. `shape` is reversed: the length of a row first; a single value
// without dimensions has the shape {1}. Checked as GGUF is. Tensors that heddle has no form for go to `unreadable`;
// without that they are an Error.
std::vector<Tensor> read_safetensors(std::span<const uint8_t> bytes, const std::string& name,
                                     std::vector<Unreadable>* unreadable = nullptr);

// A folder with model.safetensors, or with model.safetensors.index.json and the files it names; or one such file (a
// file that the index beside it names stands for all of them). metadata is empty; tensors are as in the files:
// formats/hf.h turns them into a model.
Checkpoint read_safetensors_folder(const std::filesystem::path& path);

// The files of a model's folder that are about texts, whether or not there are weights.
TextFiles read_text_files(const std::filesystem::path& folder);

// Whether a folder has either.
bool has_safetensors(const std::filesystem::path& folder);

}  // namespace heddle::formats
