// Between the products of q, k and v and attention, for any shape: norm, rotation, KV cache.
#pragma once
#include <compare>

#include "base/f16.h"
#include "kernels/attention/kv_cache.h"
#include "kernels/layer/norm.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// Per row: norm of q, k and v, all three clamped, rotation of q and k by the row's position, or the norm after the
// rotation, and q times a factor by the position. q is changed in place; k and v go to the cache as
// f16 (clamped to +-65504, NaN stays NaN) or as q8, and then, and with norm_last, k is also changed in place. q, k and
// v may be slices of one row: each has its own stride. A position from 2^31 on skips the row.
struct Heads {
  static constexpr std::string_view name = "heads",
                                    summary = "norm and rotation of q and k; k and v into a paged cache",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> q;                           // (rows, heads, head), in place
    ptx::DevicePtr<float> k;                           // (rows, kv_heads, head)
    ptx::DevicePtr<float> v;                           // (rows, kv_heads, value_head)
    ptx::DevicePtr<float> q_weight, q_bias;            // of the norm: (head), or (heads, head); read with a norm
    ptx::DevicePtr<float> k_weight, k_bias;            // the same: (head), or (kv_heads, head)
    ptx::DevicePtr<uint64_t> turns;                    // (dimensions / 2), RopeFrequencies::turns()
    ptx::DevicePtr<uint32_t> positions, sequences;     // (rows)
    ptx::DevicePtr<int32_t> table;                     // (sequences, table_stride): pages, as in kv_cache.h
    ptx::DevicePtr<f16> k_cache;                       // (pages, kv_heads, page_size, head); q8: int8
    ptx::DevicePtr<f16> v_cache;                       // (pages, kv_heads, page_size, value_head); q8: int8
    ptx::DevicePtr<f16> k_scale, v_scale;              // q8: (pages, kv_heads, page_size, groups of the head)
    uint32_t rows, heads, kv_heads, head, value_head;  // heads of 1 to 512 values
    uint32_t q_stride, k_stride, v_stride;             // values from row to row
    uint32_t dimensions;                               // the first values of a head that are rotated; even
    uint32_t page_size, table_stride;
    float q_epsilon = 0, k_epsilon = 0;
    float magnitude = 1;  // factor of the rotated values
    float largest = 0;    // with clamp: the largest magnitude
    // with temperature: q times 1 + temperature * ln(1 + floor((position + offset) / length))
    float temperature = 0;
    uint32_t length = 1, offset = 0;
    ptx::DevicePtr<float> v_weight{};  // (value_head), of the norm of each head of v; read with v_norm
    float v_epsilon = 0;
  };
  uint32_t q_norm = norm_none, k_norm = norm_none;
  uint32_t v_norm = norm_none;  // over each head; not with all_heads
  uint32_t over = each_head;    // of q and k
  uint32_t bias = 0;            // the norms have a bias; a null pointer: that one of the two has none
  uint32_t rotation = halves;
  uint32_t norm_last = 0;    // the norm after the rotation
  uint32_t clamp = 0;        // q, k and v, after the norm and before a rotation that follows it
  uint32_t temperature = 0;  // q gets a factor
  uint32_t kv = kv_f16;
  uint32_t stores = keys_and_values;
  uint32_t chained = 0;
  enum : uint32_t {
    keys_and_values,
    keys_as_values,  // v is k, as it was given
    nothing,         // k and v are not read: another layer has filled the cache
  };
  enum : uint32_t {
    each_head,      // a norm takes one head; its weight is that long and the same for all heads
    each_head_own,  // a norm takes one head; the weight has every head's
    all_heads,      // a norm takes all heads of the row, and so does the weight
  };
  enum : uint32_t {
    none,
    pairs,   // values 2i and 2i + 1
    halves,  // values i and i + dimensions / 2
  };
  auto operator<=>(const Heads&) const = default;
  static auto fields() {
    using F = Field<Heads>;
    return std::tuple(F{"q_norm", &Heads::q_norm, norm_kinds()}, F{"k_norm", &Heads::k_norm, norm_kinds()},
                      F{"v_norm", &Heads::v_norm, norm_kinds()},
                      F{"over", &Heads::over, named({"each_head", "each_head_own", "all_heads"})},
                      F{"bias", &Heads::bias, yes_or_no()},
                      F{"rotation", &Heads::rotation, named({"none", "pairs", "halves"})},
                      F{"norm_last", &Heads::norm_last, yes_or_no()}, F{"clamp", &Heads::clamp, yes_or_no()},
                      F{"temperature", &Heads::temperature, yes_or_no()}, F{"kv", &Heads::kv, kv_types()},
                      F{"stores", &Heads::stores, named({"keys_and_values", "keys_as_values", "nothing"})},
                      F{"chained", &Heads::chained, yes_or_no()});
  }

  bool leaves_q() const { return q_norm == norm_none && rotation == none && !clamp && !temperature; }
  // Units of work for each kv head: k and v, both at once, or none.
  uint32_t kv_units() const { return stores == keys_and_values ? 2 : stores == keys_as_values ? 1 : 0; }
  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
