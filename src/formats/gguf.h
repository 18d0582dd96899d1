// GGUF files, version 2 and 3: read through a mapping, and written.
#pragma once
#include "base/files.h"
#include "formats/checkpoint.h"

namespace heddle::formats {

// One GGUF file, or all files of a split model. Every count, length, offset and name is checked against the file before
// it is used; an Error names the file, the field, what was expected and what was found. The metadata lacks the keys
// split.*: the checkpoint is whole.
Checkpoint read_gguf(const std::filesystem::path& path);
// The same from bytes in memory, which must outlive the result: for the fuzzer. No split files.
Checkpoint read_gguf(std::span<const uint8_t> bytes, const std::string& name);

// One file by itself: a whole model, or one of the files of a split one.
struct GgufFile {
  Metadata metadata;
  std::vector<Tensor> tensors;
};

// `name` is for errors; `owner` keeps the bytes alive for the metadata's arrays (may be null).
GgufFile read_gguf_file(std::span<const uint8_t> bytes, const std::string& name, std::shared_ptr<const void> owner);

// general.alignment, or 32: the offset of every tensor's data is a multiple of it.
uint64_t gguf_alignment(const Metadata& metadata);

// "m" for "m-00002-of-00003.gguf"; any other name is returned as it is.
std::string_view gguf_model_name(std::string_view file_name);

// Writes version 3, aligned to the metadata's general.alignment, or to 32 bytes. The tensors are announced first, with
// their shapes and formats; their data follow in the same order.
class GgufWriter {
 public:
  struct Announced {
    std::string name;
    std::vector<uint64_t> shape;
    quant::Format format;
  };
  GgufWriter(const std::filesystem::path& path, const Metadata& metadata, std::vector<Announced> tensors,
             OutputFile::Existing existing = OutputFile::Existing::replace);
  void write(std::span<const uint8_t> data);        // of the next tensor, whole; throws (a bug) if the size is wrong
  void write_slice(std::span<const uint8_t> data);  // the same in slices: the tensor ends when its bytes are complete
  void commit();                                    // after the last tensor: the file appears

 private:
  OutputFile file_;
  std::vector<Announced> tensors_;
  uint64_t alignment_;
  size_t next_ = 0;
  uint64_t written_ = 0;  // of the next tensor
};

}  // namespace heddle::formats
