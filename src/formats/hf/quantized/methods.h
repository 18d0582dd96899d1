// The ways in which folders are quantised. Each reads its options, takes the tensors that it packed out of `files`, and
// adds the weights; it returns how they are quantised, "" for a format that heddle has itself.
#pragma once
#include <string>

#include "formats/hf/config.h"
#include "formats/hf/quantized/packed_files.h"

namespace heddle::formats::hf {

std::string unpack_awq(Config& config, PackedFiles& files);
std::string unpack_bitsandbytes(Config& config, PackedFiles& files);
std::string unpack_compressed_tensors(Config& config, PackedFiles& files);
std::string unpack_fp8(Config& config, PackedFiles& files);  // also fbgemm_fp8
std::string unpack_gptq(Config& config, PackedFiles& files);
std::string unpack_modelopt(Config& config, PackedFiles& files);
std::string unpack_mxfp4(Config& config, PackedFiles& files);

}  // namespace heddle::formats::hf
