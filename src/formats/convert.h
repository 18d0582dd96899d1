// Any checkpoint -> a GGUF file: its metadata, and its weights in the formats of a file type.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>

#include "base/files.h"
#include "formats/checkpoint.h"
#include "formats/mix.h"

namespace heddle::formats {

// The checkpoint's metadata with general.type, general.name and general.size_label, and the chat templates of the
// folder. An Error for a class that heddle does not know. The vocabulary is the caller's to add.
Metadata converted_metadata(const Checkpoint& checkpoint);

struct Progress {
  size_t tensor = 0, tensors = 0;      // begun, of how many
  uint64_t written = 0, to_write = 0;  // bytes so far, and in all
};

struct WriteOptions {
  bool allow_requantize = false;  // of weights that are quantised already: the errors add up
  size_t threads = 0;             // 0: all cores
  std::function<void(const Progress&)> progress;
  OutputFile::Existing existing = OutputFile::Existing::replace;
};

struct Written {
  uint64_t values = 0, bytes_before = 0, bytes_after = 0;  // of the tensors
  double bits_per_value() const {
    return values ? 8.0 * static_cast<double>(bytes_after) / static_cast<double>(values) : 0;
  }
};

// `metadata` is written with general.file_type and general.quantization_version set, and without split.*, which is true
// of other files only. Without a type, weights keep their formats.
// No more than the largest tensor is held in memory. The file appears whole or not at all.
Written write_gguf(const Checkpoint& checkpoint, const Metadata& metadata, std::optional<FileType> type,
                   const std::filesystem::path& path, const WriteOptions& options = {});

// "1.2B" or "8x7B", as files are named.
std::string size_label(uint64_t values, uint64_t expert_values, uint64_t experts);

}  // namespace heddle::formats
