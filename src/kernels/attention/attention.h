// Attention of one new token per sequence over its KV cache.
#pragma once
#include <compare>

#include "kernels/attention/kv_cache.h"

namespace heddle::kernels {

inline Allowed head_dims() { return one_of({32, 64, 80, 96, 112, 128, 160, 192, 256}); }
// Where a kernel finds the number of positions of a sequence.
enum Length : uint32_t { length_direct, length_indirect };
inline Allowed length_sources() { return named({"direct", "indirect"}); }

// out = softmax(q k * scale) v over the positions of each sequence, one block per sequence and head. A sequence of
// length 0 gives zeros. With split, positions are shared among blocks too, which leave partial results for
// FlashDecodingReduce.
struct Attention {
  static constexpr std::string_view name = "attention", summary = "attention of one token per sequence",
                                    lowest_target = "sm_75";
  // out is not written with split. q is 16-byte aligned, its rows without gaps; page_size is a multiple of 16; window
  // and softcap are read with the fields of that name.
  struct Args : TokenAttentionArgs {
    ptx::DevicePtr<float> partial;  // split: (sequences, heads, chunks, partial_row(head_dim))
    uint32_t chunk, chunks;         // split: positions per block (more if needed), blocks
  };
  uint32_t head_dim = 128;
  uint32_t kv = kv_f16;
  uint32_t layout = kv_single;
  uint32_t length = length_direct;
  uint32_t warps = 1;  // per head
  uint32_t split = 0, window = 0, softcap = 0, chained = 0;
  auto operator<=>(const Attention&) const = default;
  static auto fields() {
    using F = Field<Attention>;
    return std::tuple(F{"head_dim", &Attention::head_dim, head_dims()}, F{"kv", &Attention::kv, kv_types()},
                      F{"layout", &Attention::layout, kv_layouts()}, F{"length", &Attention::length, length_sources()},
                      F{"warps", &Attention::warps, range(1, 16)}, F{"split", &Attention::split, yes_or_no()},
                      F{"window", &Attention::window, yes_or_no()}, F{"softcap", &Attention::softcap, yes_or_no()},
                      F{"chained", &Attention::chained, yes_or_no()});
  }

  // A row of `partial`: the accumulator, the largest score in base 2, the sum of weights, and 8 bytes of padding.
  static constexpr uint32_t partial_row(uint32_t head_dim) { return head_dim + 4; }

  ptx::Kernel build() const;
  // For one launch. Throws an Error if the arguments do not suit the spec.
  ptx::Grid grid(const Args& args) const;
};

// out = the merged partial results of a split Attention, one block per sequence and head.
struct FlashDecodingReduce {
  static constexpr std::string_view name = "flash_decoding_reduce",
                                    summary = "merges the partial results of flash_decoding_chunk",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> out;      // (sequences, heads, head_dim)
    ptx::DevicePtr<float> partial;  // (sequences, heads, chunks, Attention::partial_row(head_dim))
    uint32_t sequences, heads, chunks;
  };
  uint32_t head_dim = 128;
  uint32_t chained = 0;
  auto operator<=>(const FlashDecodingReduce&) const = default;
  static auto fields() {
    using F = Field<FlashDecodingReduce>;
    return std::tuple(F{"head_dim", &FlashDecodingReduce::head_dim, head_dims()},
                      F{"chained", &FlashDecodingReduce::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
