// Keys and values of all heads from the latents of a cache: for prompts, where computing them once for many queries
// takes less than queries that become latents (latent_attention.h).
#pragma once
#include "kernels/attention/latent_attention.h"

namespace heddle::kernels {

// Of each position of a sequence and each head: the latent times the head's matrices, as f16, and behind the key the
// rotated part, which all heads share. Blocks take 128 positions and up to 128 values of a head's key or value.
struct LatentExpand {
  static constexpr std::string_view name = "latent_expand",
                                    summary = "keys and values of heads from the latents of a paged cache",
                                    lowest_target = "sm_90";
  struct Args {
    ptx::DevicePtr<f16> keys;       // (heads, stride, plain + rotated), 16-byte aligned
    ptx::DevicePtr<f16> values;     // (heads, stride, value), 16-byte aligned
    ptx::DevicePtr<f16> cache;      // (pages, page_size, rank + rotated), 16-byte aligned; q8: int8
    ptx::DevicePtr<f16> scales;     // q8: (pages, page_size, groups of rank + rotated)
    ptx::DevicePtr<f16> k_up;       // (heads, rank, plain), 16-byte aligned
    ptx::DevicePtr<f16> v_up;       // (heads, value, rank), 16-byte aligned
    ptx::DevicePtr<int32_t> table;  // (sequences, table_stride)
    uint32_t sequence, table_stride, page_size;
    uint32_t positions;  // of the sequence, from the first on
    uint32_t stride;     // positions from head to head
    uint32_t heads;
  };
  uint32_t rank = 512, plain = 128, rotated = 64, value = 128;
  uint32_t cache = kv_f16;
  uint32_t chained = 0;
  auto operator<=>(const LatentExpand&) const = default;
  static auto fields() {
    using S = LatentExpand;
    using F = Field<S>;
    return std::tuple(F{"rank", &S::rank, latent_ranks()}, F{"plain", &S::plain, latent_parts()},
                      F{"rotated", &S::rotated, latent_parts()}, F{"value", &S::value, latent_parts()},
                      F{"cache", &S::cache, kv_types()}, F{"chained", &S::chained, yes_or_no()});
  }
  static constexpr uint32_t threads = 256, tile = 128;  // positions and columns of a block
  uint32_t key_chunks() const { return (plain + tile - 1) / tile; }
  uint32_t chunks() const { return key_chunks() + (value + tile - 1) / tile; }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
