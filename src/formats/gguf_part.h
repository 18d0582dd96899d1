// One GGUF file by itself: what the reader of whole models and the writer share.
#pragma once
#include "formats/checkpoint.h"

namespace heddle::formats {

struct GgufPart {
  Metadata metadata;
  std::vector<Tensor> tensors;
};

// `name` is for errors; `owner` keeps the bytes alive for the metadata's arrays (may be null).
GgufPart read_gguf_part(std::span<const uint8_t> bytes, const std::string& name, std::shared_ptr<const void> owner);

// general.alignment, or 32: what the offset of every tensor's data is a multiple of.
uint64_t gguf_alignment(const Metadata& metadata);

// "m" for "m-00002-of-00003.gguf"; a name that is not that of a part is left as it is.
std::string_view gguf_model_name(std::string_view file_name);

}  // namespace heddle::formats
