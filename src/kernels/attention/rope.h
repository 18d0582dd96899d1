// Rotary position embedding of queries and keys.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// Each head's first rotary_dim values are pairs, turned by position * frequency; the rest is copied. q and k in one
// launch (either may have 0 heads), in place (out = in) or to other buffers.
struct Rope {
  static constexpr std::string_view name = "rope", summary = "rotary position embedding of q and k",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> q_out, q;     // (tokens, q_heads, head_dim)
    ptx::DevicePtr<float> k_out, k;     // (tokens, k_heads, head_dim)
    ptx::DevicePtr<int32_t> positions;  // (tokens)
    ptx::DevicePtr<uint64_t> turns;     // (rotary_dim / 2), from rope_frequencies()
    uint32_t tokens, q_heads, k_heads;
    uint32_t head_dim, rotary_dim;    // even; rotary_dim <= head_dim
    uint32_t q_out_stride, q_stride;  // values from token to token, at least heads * head_dim
    uint32_t k_out_stride, k_stride;  // (more where q, k and v share a row)
    float magnitude = 1;              // of the rotated values, from rope_frequencies()
  };
  uint32_t threads = 128;
  uint32_t pairs = half_split;
  uint32_t chained = 0;
  enum : uint32_t {
    interleaved,  // (0, 1), (2, 3), ...: GPT-J, Llama in GGUF order
    half_split,   // (0, rotary_dim / 2), (1, rotary_dim / 2 + 1), ...: NeoX, and most models as published
  };
  auto operator<=>(const Rope&) const = default;
  static auto fields() {
    return std::tuple(Field<Rope>{"threads", &Rope::threads, range(32, 1024, 32)},
                      Field<Rope>{"pairs", &Rope::pairs, named({"interleaved", "half_split"})},
                      Field<Rope>{"chained", &Rope::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
