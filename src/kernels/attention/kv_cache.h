// The KV cache as kernels see it: where K and V of a sequence lie, in one of three layouts, and how a q8 cache is
// written and read. Offsets are 64 bits wide: a cache is larger than 4 GiB.
#pragma once
#include <array>

#include "base/f16.h"
#include "kernels/spec/field.h"
#include "ptx/builder.h"
#include "ptx/convert.h"
#include "ptx/warp.h"

namespace heddle::kernels {

// Where K and V of a sequence lie, in one of three layouts, and how a kernel addresses a position. Offsets are 64 bits
// wide: a cache is larger than 4 GiB.

// single: one sequence, k and v are its (kv_heads, max_len, head_dim).
// batched: the same per sequence, at the addresses k_base[sequence] and v_base[sequence].
// paged: k and v are (pages, kv_heads, page_size, head_dim), and table[sequence * table_stride + i] is the page of the
// positions from i * page_size.
enum KvLayout : uint32_t { kv_single, kv_batched, kv_paged };
inline Allowed kv_layouts() { return named({"single", "batched", "paged"}); }

// The type of an element: f16, or q8, which is int8 with an f16 scale for each 32 values of a head, and one for those
// that are left over. The scales are a buffer of their own, (pages, kv_heads, page_size, q8_groups(head)).
enum KvType : uint32_t { kv_f16, kv_q8 };
inline Allowed kv_types() { return named({"f16", "q8"}); }
inline ptx::U32 q8_groups(ptx::U32 head) { return (head + 31u) >> 5u; }

// The arguments that all attention kernels have. The Args of each kernel derive from them, so that one function can
// fill them in for whichever kernel is chosen. A kernel that reads some of them differently documents that.
struct AttentionArgs {
  ptx::DevicePtr<float> out;                     // (rows, out_stride): heads side by side
  ptx::DevicePtr<float> q;                       // (rows, q_stride): heads side by side
  ptx::DevicePtr<uint8_t> k, v;                  // the cache; in pages: (pages, kv_heads, page_size, values of a head)
  ptx::DevicePtr<heddle::f16> k_scale, v_scale;  // q8: the same with a scale for each group
  ptx::DevicePtr<int32_t> table;                 // paged: (sequences, table_stride), page numbers
  uint32_t heads, kv_heads;                      // query head h uses kv head h * kv_heads / heads
  uint32_t q_stride = 0, out_stride = 0;         // values from row to row
  uint32_t page_size, table_stride;              // paged
  // A token sees itself and window - 1 positions before it; bidirectional: window / 2 on both sides.
  uint32_t window = 0;
  float scale = 1, softcap = 0;       // of scores; softcap: they become softcap * tanh(score / softcap)
  uint32_t chunk = 0;                 // positions of a chunk; a token sees those of its own
  ptx::DevicePtr<float> sinks = {};   // (heads): a further score in the softmax, which has no value
  ptx::DevicePtr<float> slopes = {};  // (heads): scores lose slope * distance (ALiBi)
};

// The arguments of kernels for one new token per sequence and any layout of the cache: row i is the token of sequence
// i. The rows of out and q have no gaps: out_stride is 0 or heads * head_dim.
struct TokenAttentionArgs : AttentionArgs {
  ptx::DevicePtr<uint64_t> k_base, v_base;  // batched: (sequences), addresses, 16-byte aligned
  ptx::DevicePtr<int32_t> lengths;          // indirect: (sequences)
  uint32_t sequences;
  uint32_t length;   // direct: of every sequence
  uint32_t max_len;  // single, batched: positions from one kv head to the next
};

// n / divisor for a divisor known only on the device, exact for every n.
class Divider {
 public:
  Divider(ptx::Code& k, ptx::U32 divisor)
      : divisor_(divisor), inverse_(k.constant(0xffffffffu) / ptx::Arg<uint32_t>(divisor)) {}
  ptx::U32 divide(ptx::U32 n) const {
    // the product with the truncated inverse is the quotient or one less
    const ptx::U32 guess = mul_hi(n, inverse_), rest = n - guess * divisor_;
    return select(rest >= divisor_, guess + 1u, guess);
  }

 private:
  ptx::U32 divisor_, inverse_;
};

// K and V of one sequence and one kv head. Args has the members k, v, k_base, v_base, table, kv_heads, max_len,
// page_size and table_stride, of which each layout uses its own.
template <class Args>
class KvCache {
 public:
  KvCache(ptx::Builder<Args>& k, uint32_t layout, uint32_t row_bytes, ptx::U32 sequence, ptx::U32 kv_head)
      : row_bytes_(row_bytes), paged_(layout == kv_paged) {
    using namespace ptx;
    const U32 rows = paged_ ? k.arg(&Args::page_size) : k.arg(&Args::max_len);
    const U64 head = mul_wide(kv_head, rows) * uint64_t(row_bytes);
    if (layout == kv_batched) {
      k_ = {load(k.arg(&Args::k_base) + sequence) + head};
      v_ = {load(k.arg(&Args::v_base) + sequence) + head};
    } else {
      k_ = k.arg(&Args::k) + head;
      v_ = k.arg(&Args::v) + head;
    }
    if (!paged_) return;
    table_ = k.arg(&Args::table) + mul_wide(sequence, k.arg(&Args::table_stride));
    page_size_ = rows;
    page_bytes_ = mul_wide(k.arg(&Args::kv_heads), rows) * uint64_t(row_bytes);
    pages_.emplace(k, rows);
  }

  // From k() and v() to the row of a position, in bytes. Reads the table if there is one: the position must be one of
  // the sequence. Rows follow each other to the end of the head, or of the page.
  ptx::U64 offset(ptx::U32 position) const {
    using namespace ptx;
    if (!paged_) return mul_wide(position, row_bytes_);
    const U32 slot = pages_->divide(position), row = position - slot * page_size_;
    const U32 page = bitcast<uint32_t>(load(table_ + slot));
    return mad_wide(row, row_bytes_, widen(page) * page_bytes_);
  }
  ptx::Global<uint8_t> k() const { return k_; }
  ptx::Global<uint8_t> v() const { return v_; }

 private:
  uint32_t row_bytes_;
  bool paged_;
  ptx::Global<uint8_t> k_, v_;  // of position 0, or of page 0
  ptx::Global<int32_t> table_;
  ptx::U32 page_size_;
  ptx::U64 page_bytes_;
  std::optional<Divider> pages_;
};

// Refuses heads that kernels of whole groups cannot read from a q8 cache.
inline void check_whole_groups(std::string_view kernel, uint32_t head) {
  if (head % 32) throw Error("{}: heads of {} values of a q8 cache, a multiple of 32 expected", kernel, head);
}

// Refuses arguments that no kernel for one token per sequence can take.
inline void check_token_attention(std::string_view kernel, const TokenAttentionArgs& a, uint32_t layout,
                                  uint32_t head_dim) {
  if (a.kv_heads == 0 || a.heads == 0 || a.heads % a.kv_heads)
    throw Error("{}: {} heads are not a positive multiple of {} kv heads", kernel, a.heads, a.kv_heads);
  if (layout == kv_single && a.sequences > 1)
    throw Error("{}: {} sequences, but the layout \"single\" has one", kernel, a.sequences);
  if (layout == kv_paged && (a.page_size == 0 || a.page_size % 16))
    throw Error("{}: pages of {} positions, but they must be a positive multiple of 16", kernel, a.page_size);
  if (layout != kv_batched && (a.k.address % 16 || a.v.address % 16))
    throw Error("{}: k and v must be 16-byte aligned", kernel);
  if (a.sequences > 65535) throw Error("{}: {} sequences, but a grid has at most 65535", kernel, a.sequences);
  if (a.out_stride && a.out_stride != a.heads * head_dim)
    throw Error("{}: out_stride is {}, but rows of {} values follow each other", kernel, a.out_stride,
                a.heads * head_dim);
}

// A paged f16 cache whose sizes are known at launch only, in the layout above.
// Rows of one sequence. Args has the members table, kv_heads, page_size and table_stride.
template <class Args>
class PagedRows {
 public:
  PagedRows(ptx::Builder<Args>& k, ptx::U32 sequence)
      : table_(k.arg(&Args::table) + mul_wide(sequence, k.arg(&Args::table_stride))),
        kv_heads_(k.arg(&Args::kv_heads)),
        page_size_(k.arg(&Args::page_size)),
        pages_(k, page_size_) {}

  // How many rows lie before that of a position and kv head. Reads the table.
  ptx::U64 row(ptx::U32 position, ptx::U32 kv_head) const {
    using namespace ptx;
    const U32 slot = pages_.divide(position), in_page = position - slot * page_size_;
    const U32 page = bitcast<uint32_t>(load(table_ + slot));
    return mad(mad_wide(page, kv_heads_, widen(kv_head)), widen(page_size_), widen(in_page));
  }

 private:
  ptx::Global<int32_t> table_;
  ptx::U32 kv_heads_, page_size_;
  Divider pages_;
};

// The address, in rows of a cache with one row per position, of a sequence's positions.
template <class Args>
class LatentPages {
 public:
  LatentPages(ptx::Builder<Args>& k, ptx::U32 sequence)
      : table_(k.arg(&Args::table) + mul_wide(sequence, k.arg(&Args::table_stride))),
        page_size_(k.arg(&Args::page_size)),
        pages_(k, page_size_) {}
  ptx::U64 row(ptx::U32 position) const {
    using namespace ptx;
    const U32 slot = pages_.divide(position), in_page = position - slot * page_size_;
    return mad_wide(bitcast<uint32_t>(load(table_ + slot)), page_size_, widen(in_page));
  }

 private:
  ptx::Global<int32_t> table_;
  ptx::U32 page_size_;
  Divider pages_;
};

// Rows that are not in use have a position from here on: -1 as a signed number, say.
constexpr uint32_t no_position = 0x80000000u;

// Refuses head counts, head sizes and page sizes that are out of range.
template <class Args>
void check_paged_heads(std::string_view kernel, const Args& a, uint32_t largest) {
  if (a.kv_heads == 0 || a.heads == 0 || a.heads % a.kv_heads)
    throw Error("{}: {} heads are not a positive multiple of {} kv heads", kernel, a.heads, a.kv_heads);
  for (uint32_t size : {a.head, a.value_head})
    if (size == 0 || size > largest) throw Error("{}: heads of {} values, 1 to {} expected", kernel, size, largest);
  if (a.page_size == 0) throw Error("{}: pages of 0 positions", kernel);
}

// Refuses arguments that a kernel with these fields would read and that are not there.
inline void check_scores(std::string_view kernel, const AttentionArgs& a, uint32_t softcap, uint32_t chunk,
                         uint32_t sinks, uint32_t slopes) {
  if (softcap && !(a.softcap > 0)) throw Error("{}: softcap = {}, but it must be positive", kernel, a.softcap);
  if (chunk && a.chunk == 0) throw Error("{}: chunks of 0 positions, but a token sees itself", kernel);
  if (sinks && a.sinks.address == 0) throw Error("{}: no sinks, but one for each head is read", kernel);
  if (slopes && a.slopes.address == 0) throw Error("{}: no slopes, but one for each head is read", kernel);
}

// Writing and reading a q8 cache: int8, and an f16 scale for each 32 values of a head, or for what is left of them.
// quant/kv_q8.h defines the rounding, and the bits are the same.

// A group of neighbouring values, one in each lane; 0 in lanes past its end.
struct KvQ8 {
  ptx::S32 q;      // this lane's value
  ptx::F16 scale;  // of all

  explicit KvQ8(ptx::F32 v) {
    using namespace ptx;
    // magnitudes are ordered as their bits are, with NaN above all numbers
    const U32 largest = warp_max(bitcast<uint32_t>(v) & 0x7fffffffu);
    scale = to_f16(bitcast<float>(largest) / 127.0f);
    const F32 wide = to_f32(scale);
    const S32 nearest = to<int32_t>(v / wide, Round::rni);
    q = select(wide != 0.0f, min(max(nearest, -127), 127), 0);
  }
};

// The four int8 in a word times their scale.
inline std::array<ptx::F32, 4> floats_of_bytes(ptx::U32 word, ptx::F32 scale) {
  std::array<ptx::F32, 4> v;
  for (uint32_t i = 0; i < 4; ++i) v[i] = to_f32(bit_field(ptx::bitcast<int32_t>(word), i * 8, 8u)) * scale;
  return v;
}

// The same as halves, without the scale: bytes 0 and 1, bytes 2 and 3.
inline std::array<ptx::F16x2, 2> halves_of_bytes(ptx::U32 word) {
  using namespace ptx;
  // A byte plus 128 becomes the low bits of an f16 between 1024 and 2048, where the last bit is worth 1.
  const U32 above = word ^ 0x80808080u;
  auto two = [&](uint32_t selector) {
    return bitcast<f16x2>(permute_bytes(above, 0x64646464u, selector)) - f16x2{0x64806480};  // 1152
  };
  return {two(0x4140), two(0x4342)};
}

// The same value in both halves.
inline ptx::F16x2 twice(ptx::F16 v) { return ptx::pack<ptx::f16x2>(v, v); }

// Eight int8 times their scale, as halves.
inline ptx::Vec<uint32_t, 4> scaled_halves(ptx::U32 low, ptx::U32 high, ptx::F16 scale) {
  const ptx::F16x2 both = twice(scale);
  ptx::Vec<uint32_t, 4> v;
  for (uint32_t i = 0; i < 4; ++i) v[i] = ptx::bitcast<uint32_t>(halves_of_bytes(i < 2 ? low : high)[i % 2] * both);
  return v;
}

// The operands of a matrix product from a q8 cache. The order of a head's values does not matter to the sum as long as
// q has the same, so here a lane's four values of a step of 16 are neighbours, one word of the cache:
//   keys: columns 2c, 2c + 1, 2c + 8, 2c + 9 (c = lane % 4) are the values 4c to 4c + 3 of the 16.
// Values are taken 32 at a time, by four products of 8 columns:
//   column n of product j is value 4n + j. A lane's results of the four are 8 neighbours, those from 8c on.
struct KvQ8Operands {
  // The right operand of a product of 16 values: a word of one position (column lane / 4), times its scale.
  static std::array<ptx::U32, 2> keys(ptx::U32 word, ptx::F16x2 scale) {
    const auto two = halves_of_bytes(word);
    return {ptx::bitcast<uint32_t>(two[0] * scale), ptx::bitcast<uint32_t>(two[1] * scale)};
  }
  // Two registers for each of the four products: words of the positions (rows) 2c, 2c + 1, 2c + 8, 2c + 9, and their
  // scales, of two positions each.
  static std::array<std::array<ptx::U32, 2>, 4> values(const std::array<ptx::U32, 4>& words,
                                                       const std::array<ptx::F16x2, 2>& scales) {
    using namespace ptx;
    std::array<std::array<U32, 2>, 4> all;
    for (uint32_t half = 0; half < 2; ++half)
      for (uint32_t j = 0; j < 4; j += 2) {
        // bytes j of both positions, then bytes j + 1 of both
        const U32 pairs = permute_bytes(words[half * 2], words[half * 2 + 1], j ? 0x7362u : 0x5140u);
        const auto two = halves_of_bytes(pairs);
        for (uint32_t i = 0; i < 2; ++i) all[j + i][half] = bitcast<uint32_t>(two[i] * scales[half]);
      }
    return all;
  }
};

}  // namespace heddle::kernels
