// Rows of a matrix in any weight format, chosen by token id.
#pragma once
#include <compare>

#include "kernels/format/block_format.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// y[i] = scale * row ids[i] of the table, or y[i] += that. An id that is not below `vocabulary` gives a row of zeros:
// ids come from the device, so the host cannot refuse them.
struct Embedding {
  static constexpr std::string_view name = "embedding",
                                    summary = "rows of a table in any weight format, by token id, as f32",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y;        // (tokens, cols), 16-byte aligned
    ptx::DevicePtr<uint8_t> table;  // (vocabulary, cols) in tiles, 16-byte aligned
    ptx::DevicePtr<uint32_t> ids;   // (tokens)
    uint32_t tokens, cols, vocabulary;
    float scale;  // 1 for most models; some multiply by the square root of cols
  };
  uint32_t format = uint32_t(quant::Format::q4_k);
  uint32_t tile_cols = 1024;  // of the table
  uint32_t threads = 128;
  uint32_t add = 0;
  uint32_t chained = 0;
  auto operator<=>(const Embedding&) const = default;
  static auto fields() {
    return std::tuple(Field<Embedding>{"format", &Embedding::format, weight_formats()},
                      Field<Embedding>{"tile_cols", &Embedding::tile_cols, one_of({256, 512, 1024})},
                      Field<Embedding>{"threads", &Embedding::threads, range(32, 1024, 32)},
                      Field<Embedding>{"add", &Embedding::add, yes_or_no()},
                      Field<Embedding>{"chained", &Embedding::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  // For one launch. Throws an Error if the arguments do not suit the spec.
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
