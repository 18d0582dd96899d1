// MXFP4 of gpt-oss, which is GGUF's but for the order of the nibbles.
//   NAME_blocks u8 (experts, rows, cols / 32, 16): byte i holds value 2 i (low) and 2 i + 1 (high)
//   NAME_scales u8 (experts, rows, cols / 32): exponents
// The rows of gate_up_proj are those of gate and up in turn.
#include <algorithm>

#include "base/error.h"
#include "base/parallel.h"
#include "formats/hf/quantized/methods.h"

namespace heddle::formats::hf {
namespace {

using Type = Packed::Type;
constexpr uint64_t bytes_in_file = 16, block_size = 17;

// In GGUF, byte i holds values i and i + 16.
void repack_mxfp4(const uint8_t* from, uint8_t exponent, uint8_t* to) {
  *to++ = exponent;
  for (int i = 0; i < 16; ++i) {
    const int low = from[i / 2] >> 4 * (i % 2) & 15, high = from[8 + i / 2] >> 4 * (i % 2) & 15;
    to[i] = uint8_t(low | high << 4);
  }
}

// Every `step`th row from `first` on.
Tensor mxfp4_experts(std::string name, const Packed& blocks, const Packed& scales, uint64_t first, uint64_t step) {
  const uint64_t row_blocks = blocks.shape[1], experts = blocks.shape[3], rows = blocks.shape[2] / step * experts;
  Tensor result;
  result.name = std::move(name);
  result.source = blocks.name;
  result.format = quant::Format::mxfp4;
  result.shape = {row_blocks * 32, blocks.shape[2] / step, experts};
  result.produce = [blocks, scales, row_blocks, rows, first, step](std::span<uint8_t> to) {
    constexpr uint64_t piece = 64;
    parallel_for((rows + piece - 1) / piece, 0, [&](size_t n) {
      for (uint64_t row = n * piece; row < std::min((n + 1) * piece, rows); ++row)
        for (uint64_t i = 0; i < row_blocks; ++i) {
          const uint64_t from = (row * step + first) * row_blocks + i;
          repack_mxfp4(&blocks.view[from * bytes_in_file], scales.view[from], &to[(row * row_blocks + i) * block_size]);
        }
    });
  };
  return result;
}

}  // namespace

std::string unpack_mxfp4(Config&, PackedFiles& files) {
  for (const std::string& name : files.ending_with("_blocks")) {
    const std::string base = name.substr(0, name.size() - std::string_view("_blocks").size());
    const Packed blocks = files.take(name, {Type::u8});
    const Shape& shape = blocks.shape;
    if (shape.size() != 4 || shape[0] != bytes_in_file)
      files.refuse(name, "expected experts x rows x blocks x {}, found {}", bytes_in_file, shape_text(shape));
    const Packed scales = files.take(base + "_scales", {Type::u8}, {shape[1], shape[2], shape[3]});
    const std::string both = "gate_up_proj";
    if (!base.ends_with(both)) {
      files.add(mxfp4_experts(base, blocks, scales, 0, 1));
      continue;
    }
    if (shape[2] % 2) files.refuse(name, "expected rows of gate and up in turn, found {} rows", shape[2]);
    const std::string folder = base.substr(0, base.size() - both.size());
    files.add(mxfp4_experts(folder + "gate_proj", blocks, scales, 0, 2));
    files.add(mxfp4_experts(folder + "up_proj", blocks, scales, 1, 2));
  }
  return {};
}

}  // namespace heddle::formats::hf
