// What a file type such as Q4_K_M means: which format each tensor gets. The mixes are llama.cpp's, so that a file
// has the size and the quality that people expect of the name.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"
#include "quant/format.h"

namespace heddle::formats {

enum class FileType : uint8_t {
  f32,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q2_k_s,
  q3_k_s,
  q3_k_m,
  q3_k_l,
  q4_k_s,
  q4_k_m,
  q5_k_s,
  q5_k_m,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
};
std::string_view name(FileType type);             // "Q4_K_M"
FileType file_type_named(std::string_view text);  // in any case; throws an Error that lists the names
uint32_t gguf_file_type(FileType type);           // the number in general.file_type
quant::Format main_format(FileType type);         // of the majority of the weights
const std::vector<FileType>& all_file_types();

// What the choice depends on apart from the tensor.
struct MixModel {
  uint64_t layers = 0, heads = 1, kv_heads = 1, experts = 0;
  bool llama = false;  // the architecture of that name
  bool tied = false;   // without output.weight: the embedding takes its place
};
MixModel mix_model(const Metadata& metadata, bool tied);

// Norms, biases, routers and positions: few values that all matter. They are f32 in every file type.
bool stays_f32(std::string_view name, const std::vector<uint64_t>& shape);

// The format of a tensor in a file of `type`. A finer format replaces one whose blocks do not divide the rows.
quant::Format choose_format(FileType type, const MixModel& model, std::string_view name,
                            const std::vector<uint64_t>& shape);

}  // namespace heddle::formats
