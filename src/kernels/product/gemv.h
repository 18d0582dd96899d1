// Matrix times a few vectors, the matrix in any weight format.
#pragma once
#include <compare>

#include "kernels/format/block_format.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// y[c] = W x[c], or y[c] += W x[c], for 1 to 8 columns c. `warps_per_row` warps share the columns of W; such a group
// computes `rows` rows at once, so that each value of x is read once for all of them.
struct Gemv {
  static constexpr std::string_view name = "gemv",
                                    summary = "matrix in any weight format times 1 to 8 vectors of f32 or q8_1",
                                    lowest_target = "sm_75";
  // How x is read: f32 from global memory, f32 through shared memory at once or in chunks, or q8_1 (quant/q8_1.h)
  // with integer dot products.
  enum X : uint32_t { direct, staged, chunked, q8_1 };
  enum Scales : uint32_t { own, shuffled };
  static constexpr uint32_t chunk_values = 8192;        // of all columns: 32 KB, and 4 KB against bank conflicts
  static constexpr uint32_t max_staged_bytes = 65'536;  // every target has this much for a block

  struct Args {
    ptx::DevicePtr<float> y;      // (columns, y_stride)
    ptx::DevicePtr<float> x;      // (columns, x_stride) f32, 16-byte aligned; not read with x = q8_1
    ptx::DevicePtr<uint8_t> xq;   // (columns, xq_stride bytes) rows of q8_1, 16-byte aligned; read with x = q8_1 only
    ptx::DevicePtr<uint8_t> w;    // (rows, cols) in the weight format, 16-byte aligned
    uint32_t rows, cols;          // cols: a multiple of the format's block
    uint32_t y_stride, x_stride;  // values from a column to the next; not read with one column
    uint32_t xq_stride;           // bytes
  };
  uint32_t format = uint32_t(quant::Format::q4_k);
  uint32_t warps = 4;          // of a block: a multiple of warps_per_row
  uint32_t warps_per_row = 1;  // lanes of a row: 32 times that
  uint32_t rows = 1;           // of a group of warps at once
  uint32_t columns = 1;
  uint32_t x = direct;
  uint32_t load = 16;     // bytes of quants a lane reads at once
  uint32_t scales = own;  // shuffled: one lane reads the scales of a block and hands them to the others
  uint32_t unroll = 2;    // pieces of each row that a lane loads before it uses the first
  uint32_t add = 0;
  uint32_t chained = 0;
  auto operator<=>(const Gemv&) const = default;
  static auto fields() {
    return std::tuple(Field<Gemv>{"format", &Gemv::format, weight_formats(gemv_formats)},
                      Field<Gemv>{"warps", &Gemv::warps, range(1, 32)},
                      Field<Gemv>{"warps_per_row", &Gemv::warps_per_row, one_of({1, 2, 3, 4, 8})},
                      Field<Gemv>{"rows", &Gemv::rows, one_of({1, 2, 4})},
                      Field<Gemv>{"columns", &Gemv::columns, range(1, 8)},
                      Field<Gemv>{"x", &Gemv::x, named({"direct", "staged", "chunked", "q8_1"})},
                      Field<Gemv>{"load", &Gemv::load, one_of({2, 4, 16})},
                      Field<Gemv>{"scales", &Gemv::scales, named({"own", "shuffled"})},
                      Field<Gemv>{"unroll", &Gemv::unroll, one_of({1, 2, 4})},
                      Field<Gemv>{"add", &Gemv::add, yes_or_no()}, Field<Gemv>{"chained", &Gemv::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  // For one launch. Throws an Error if the arguments do not suit the spec.
  ptx::Grid grid(const Args& args) const;
  uint32_t dynamic_shared(const Args& args) const;  // bytes

  quant::Format weights() const { return quant::Format(format); }
};

// Specs of gemv with names of their own in the catalogue.
struct GemvPreset {
  std::string name, summary;
  Gemv spec;
};
const std::vector<GemvPreset>& gemv_presets();

}  // namespace heddle::kernels
