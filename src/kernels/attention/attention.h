// Attention of one new token per sequence over its KV cache, and attention of any shape, for models that the fast
// kernels do not support.
#pragma once
#include <compare>

#include "base/f16.h"
#include "kernels/attention/kv_cache.h"
#include "ptx/builder.h"

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

// Attention of any shape. A row at position p sees the positions 0 to p of its sequence, or the last `window` of them,
// in a paged cache. Query head h belongs to kv head h / (heads / kv_heads). Rows may be of one sequence or of many, in
// any mix. A position from 2^31 on sees nothing and gives zeros.
struct AnyAttention {
  static constexpr std::string_view name = "any_attention",
                                    summary = "attention of rows at their positions, heads of any size, paged cache",
                                    lowest_target = "sm_75";
  // window = 0: no window. softcap is read with the field of that name.
  struct Args : AttentionArgs {
    ptx::DevicePtr<uint32_t> positions, sequences;  // (rows)
    uint32_t rows;
    uint32_t head, value_head;  // values of a head of q and k, and of v and out: 1 to `largest`
  };
  uint32_t warps = 8;  // they share the positions of a row and head
  uint32_t largest = 512;
  uint32_t vec = 1;  // values per load; head and value_head must be multiples of it. q8: 4
  uint32_t kv = kv_f16;
  uint32_t softcap = 0;
  uint32_t chained = 0;
  auto operator<=>(const AnyAttention&) const = default;
  static auto fields() {
    using F = Field<AnyAttention>;
    return std::tuple(
        F{"warps", &AnyAttention::warps, range(1, 16)}, F{"largest", &AnyAttention::largest, one_of({128, 256, 512})},
        F{"vec", &AnyAttention::vec, one_of({1, 2, 4})}, F{"kv", &AnyAttention::kv, model_kv_types()},
        F{"softcap", &AnyAttention::softcap, yes_or_no()}, F{"chained", &AnyAttention::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
