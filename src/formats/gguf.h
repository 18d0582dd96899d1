// GGUF files, version 2 and 3: read through a mapping, and written.
#pragma once
#include "base/output_file.h"
#include "formats/checkpoint.h"

namespace heddle::formats {

// One GGUF file or all parts of a split one. Every count, length, offset and name is checked against the file before it
// is used; an Error names the file, the field, what was expected and what was found. The keys split.* are left out of
// the metadata: the checkpoint is whole.
Checkpoint read_gguf(const std::filesystem::path& path);
// The same from bytes that lie in memory (they must outlive the result): what the fuzzer calls. No split files.
Checkpoint read_gguf(std::span<const uint8_t> bytes, const std::string& name);

// Writes version 3, aligned as metadata's general.alignment says, or to 32 bytes. The tensors are announced first, with
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
  void write(std::span<const uint8_t> data);       // of the next tensor, whole; throws (a bug) if the size is wrong
  void write_part(std::span<const uint8_t> data);  // the same in pieces: the tensor ends when its bytes are complete
  void commit();                                   // all tensors written: the file appears

 private:
  OutputFile file_;
  std::vector<Announced> tensors_;
  uint64_t alignment_;
  size_t next_ = 0;
  uint64_t written_ = 0;  // of the next tensor
};

}  // namespace heddle::formats
