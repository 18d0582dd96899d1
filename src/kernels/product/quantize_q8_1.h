// Quantises activations to int8 blocks, for products with integer weights. Per block: d = largest magnitude / 127; each
// int8 is x / d rounded to nearest even and clamped to +-127 (both divisions correctly rounded, so that host and device
// agree bit for bit); s = d * (sum of the int8). A block of zeros gives zeros. The result of a block with NaN or
// infinity is undefined.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// Blocks of 32 with d and s in f16.
struct QuantizeQ8_1 {
  static constexpr std::string_view name = "quantize_q8_1",
                                    summary = "rows of f32 to q8_1: int8, f16 scale and sum per 32",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint8_t> y;  // (rows) of row_bytes(cols), 16-byte aligned
    ptx::DevicePtr<float> x;    // (rows, cols), 16-byte aligned
    uint32_t rows, cols;        // cols: a multiple of 32
  };
  uint32_t layout = planes;
  uint32_t chained = 0;
  enum : uint32_t {
    planes,  // as in quant/q8_1.h: a row is cols int8, then cols / 32 pairs {d, s}, zeros up to a multiple of 16 bytes
    blocks,  // GGUF's: {d, s, 32 int8}, 36 bytes a block
  };
  auto operator<=>(const QuantizeQ8_1&) const = default;
  static auto fields() {
    return std::tuple(Field<QuantizeQ8_1>{"layout", &QuantizeQ8_1::layout, named({"planes", "blocks"})},
                      Field<QuantizeQ8_1>{"chained", &QuantizeQ8_1::chained, yes_or_no()});
  }
  size_t row_bytes(size_t cols) const;

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
