// x86-64 with AMX: many rows. A tile register multiplies 16 rows of x with the 16 weight rows of a slab, 64 bytes at a
// time; everything else is as with AVX-512. Where groups of a block have scales, the scales go into the weights: their
// products are split into bytes, weight * scale = 128 * high + low, so that a whole block is summed before it leaves
// the register.
#if defined(__x86_64__)
#include <cstring>
#include <utility>

#include "cpu/kernels/bf16_x86.h"
#include "cpu/kernels/product.h"

namespace heddle::cpu {
namespace {

static_assert(tile_rows<Zmm> == 16);
constexpr uint32_t rows_of_register = 16;

// The registers: 0 to 3 for sums, 4 and 5 for rows of x, 6 and 7 for weights. (Their numbers must be literals.)
struct Registers {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t columns[16] = {};  // in bytes
  uint8_t rows[16] = {};
};
static_assert(sizeof(Registers) == 64);

// What the registers hold: `values` bytes of each row of x at a time, and the rows of registers 4 and 5.
struct Use {
  uint32_t values = 64, first = rows_of_register, second = rows_of_register;
  bool operator==(const Use&) const = default;
};

// The registers are never released: both take longer than a small product, and the system releases those of a core that
// goes to sleep.
void configure(Use use) {
  thread_local Use configured{.values = 0};
  if (std::exchange(configured, use) == use) return;
  alignas(64) Registers set;
  const auto shape = [&](int index, uint32_t rows, uint32_t columns) {
    set.rows[index] = uint8_t(rows);
    set.columns[index] = uint16_t(columns);
  };
  for (const int sum : {0, 1, 2, 3}) shape(sum, sum % 2 == 0 ? use.first : use.second, 64);
  shape(4, use.first, use.values);
  shape(5, use.second, use.values);
  for (const int weights : {6, 7}) shape(weights, use.values / 4, 64);
  asm volatile("" ::: "memory");  // the intrinsic declares a read of 8 bytes only
  _tile_loadconfig(&set);
}

// Up to 16 rows of x, wherever they lie.
class RowsOfX {
 public:
  RowsOfX(const XRow* xs, uint32_t rows) : xs_(xs), rows_(rows), stride_(rows > 1 ? xs[1].q - xs[0].q : 0) {
    for (uint32_t i = 1; i < rows; ++i) even_ = even_ && xs[i].q - xs[i - 1].q == stride_;
  }
  // Where `bytes` of each, from `column` on, can be loaded from.
  HEDDLE_INLINE const int8_t* at(uint32_t column, uint32_t bytes) {
    if (even_) return xs_[0].q + column;
    asm volatile("" ::: "memory");  // the intrinsics declare no read: keep this between the last load and the next
    for (uint32_t i = 0; i < rows_; ++i) std::memcpy(gathered_ + i * stride_of_gathered, xs_[i].q + column, bytes);
    asm volatile("" ::: "memory");
    return gathered_;
  }
  HEDDLE_INLINE int64_t stride() const { return even_ ? stride_ : stride_of_gathered; }

 private:
  static constexpr int64_t stride_of_gathered = 64;
  const XRow* xs_;
  uint32_t rows_;
  int64_t stride_;
  bool even_ = true;
  alignas(64) int8_t gathered_[rows_of_register * stride_of_gathered];
};

// Integer sums of 16 rows of x and 16 weight rows, for even and odd blocks.
struct alignas(64) Sums {
  int32_t low[2][rows_of_register][16], high[2][rows_of_register][16];
};

// Q8_0 as it is packed: 16 scales in f16, then the bytes.
struct PackedQ8_0 {
  using V = Zmm;
  static constexpr uint32_t values = 32, groups = 1, bytes = 34, before = 2 * rows_of_register;
  static constexpr Mins mins = Mins::none;
  static HEDDLE_INLINE Zmm::F d(const uint8_t* at, int) { return Zmm::half(at); }
};
// Bytes before the weights of a block.
template <class S>
constexpr uint32_t bytes_before = [] {
  if constexpr (requires { S::before; }) return S::before;
  return 0u;
}();

// Integer sums of one block. With groups it is as `split` leaves it: low bytes, high bytes, the other fields.
template <class S, int odd>
HEDDLE_INLINE void multiply_block(const uint8_t* at, uint32_t b, RowsOfX& x, Sums& sums) {
  constexpr uint32_t plane = S::values * rows_of_register, step = S::groups > 1 ? 64 : S::values;
  if constexpr (odd) {
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  for (uint32_t k = 0; k < S::values; k += step) {
    _tile_loadd(4, x.at(b * S::values + k, step), x.stride());
    _tile_loadd(6, at + bytes_before<S> + k * rows_of_register, 64);
    if constexpr (odd)
      _tile_dpbssd(2, 4, 6);
    else
      _tile_dpbssd(0, 4, 6);
    if constexpr (S::groups > 1) {
      _tile_loadd(7, at + plane + k * rows_of_register, 64);
      if constexpr (odd)
        _tile_dpbssd(3, 4, 7);
      else
        _tile_dpbssd(1, 4, 7);
    }
  }
  if constexpr (odd) {
    _tile_stored(2, sums.low[1], 64);
    if constexpr (S::groups > 1) _tile_stored(3, sums.high[1], 64);
  } else {
    _tile_stored(0, sums.low[0], 64);
    if constexpr (S::groups > 1) _tile_stored(1, sums.high[0], 64);
  }
}

// A tile with up to 16 rows of x, for which the registers are configured. While one block is added up, the next is
// multiplied.
template <class S>
void sixteen_rows(const uint8_t* at, uint32_t cols, const XRow* xs, uint32_t rows, float* out, uint32_t stride) {
  constexpr uint32_t plane = S::groups > 1 ? S::values * rows_of_register : 0;
  constexpr uint32_t bytes = S::bytes * rows_of_register + plane;
  const uint32_t blocks = cols / S::values;
  RowsOfX x(xs, rows);
  Sums sums{};
  Zmm::F sum[rows_of_register] = {};
  const auto add = [&](uint32_t b, int odd) HEDDLE_INLINE_LAMBDA {
    const uint8_t* fields = at + plane;
    const Zmm::F d = S::d(fields, 0);
    each<rows_of_register>([&](auto a) HEDDLE_INLINE_LAMBDA {
      constexpr int i = HEDDLE_VALUE(a);
      auto total = load<Zmm::I>(sums.low[odd][i]);
      if constexpr (S::groups > 1) total += load<Zmm::I>(sums.high[odd][i]) << 7;
      sum[i] = with_block<S>(sum[i], total, d, fields, xs[i], b, 0);
    });
    at += bytes;
  };
  multiply_block<S, 0>(at, 0, x, sums);
  for (uint32_t b = 0; b < blocks; b += 2) {
    if (b + 1 < blocks) multiply_block<S, 1>(at + bytes, b + 1, x, sums);
    add(b, 0);
    if (b + 1 == blocks) break;
    if (b + 2 < blocks) multiply_block<S, 0>(at + bytes, b + 2, x, sums);
    add(b + 1, 1);
  }
  each<rows_of_register>([&](auto a) HEDDLE_INLINE_LAMBDA {
    constexpr int i = HEDDLE_VALUE(a);
    store(out + uint32_t(i) * stride, sum[i]);
  });
}

template <class S>
void many_rows_in_registers(const uint8_t* slab, uint32_t cols, int, const XRow* xs, uint32_t count, float* out,
                            uint32_t stride) {
  const uint32_t values = S::groups > 1 ? 64 : S::values, whole = count / rows_of_register * rows_of_register;
  if (whole > 0) configure({.values = values});
  for (uint32_t first = 0; first < whole; first += rows_of_register)
    sixteen_rows<S>(slab, cols, xs + first, rows_of_register, out + first * stride, stride);
  if (const uint32_t rows = count - whole; rows > 0) {
    XRow rest[rows_of_register];  // for the scales, padded with the last one
    float to[rows_of_register * 16];
    for (uint32_t i = 0; i < rows_of_register; ++i) rest[i] = xs[whole + (i < rows ? i : rows - 1)];
    configure({.values = values, .first = rows, .second = rows});
    sixteen_rows<S>(slab, cols, rest, rows, to, 16);
    for (uint32_t i = 0; i < rows; ++i) std::memcpy(out + (whole + i) * stride, to + i * 16, 16 * sizeof(float));
  }
}

// Q8_0 needs no slab. A few rows, or a few that are left, are done sooner without the registers.
constexpr uint32_t max_without_registers = 12;
void many_rows_of_q8_0(const uint8_t* tile, uint32_t cols, int, const XRow* xs, uint32_t count, float* out,
                       uint32_t stride) {
  const uint32_t left = count % rows_of_register, whole = left <= 8 ? count - left : count;
  many_rows_in_registers<PackedQ8_0>(tile, cols, 0, xs, whole, out, stride);
  if (whole == count) return;
  float to[8 * 16];
  static const auto few = isa_avx512_vnni().tiles[unsigned(quant::Format::q8_0)].few;
  few(tile, 1, cols, xs + whole, left, to, nullptr);
  for (uint32_t i = 0; i < left; ++i) std::memcpy(out + (whole + i) * stride, to + i * 16, 16 * sizeof(float));
}

// One or two tiles of BF16 with up to 32 rows of x that lie `x_stride` bytes apart; `second`: there are more than 16.
template <bool second, bool two_tiles>
HEDDLE_INLINE void multiply_bf16(const uint8_t* at, uint32_t cols, const int8_t* x, int64_t x_stride, float* out,
                                 uint32_t stride) {
  const uint64_t tile_bytes = 32 * uint64_t(cols);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (uint32_t c = 0; c < cols; c += 32, at += 1024) {
    prefetch<Zmm, 1024>(at);
    _tile_loadd(6, at, 64);
    _tile_loadd(4, x + 2 * c, x_stride);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (second) {
      _tile_loadd(5, x + rows_of_register * x_stride + 2 * c, x_stride);
      _tile_dpbf16ps(1, 5, 6);
    }
    if constexpr (two_tiles) {
      prefetch<Zmm, 1024>(at + tile_bytes);
      _tile_loadd(7, at + tile_bytes, 64);
      _tile_dpbf16ps(2, 4, 7);
      if constexpr (second) _tile_dpbf16ps(3, 5, 7);
    }
  }
  const int64_t out_bytes = int64_t(stride) * 4;
  float* const behind = out + rows_of_register * stride;
  _tile_stored(0, out, out_bytes);
  if constexpr (second) _tile_stored(1, behind, out_bytes);
  if constexpr (two_tiles) _tile_stored(2, out + 16, out_bytes);
  if constexpr (two_tiles && second) _tile_stored(3, behind + 16, out_bytes);
}

// Any number of rows: a row's sums have one order. Rows that do not lie evenly are copied to `scratch`.
void rows_of_bf16(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* xs, uint32_t count, float* out,
                  uint8_t* scratch) {
  constexpr uint32_t most = 2 * rows_of_register;
  const uint32_t stride = tiles * 16;
  const uint64_t tile_bytes = 32 * uint64_t(cols);
  for (uint32_t row = 0; row < count; row += most) {
    const uint32_t rows = count - row < most ? count - row : most;
    const int8_t* x = xs[row].q;
    int64_t x_stride = rows > 1 ? xs[row + 1].q - x : 0;
    bool even = true;
    for (uint32_t i = 1; i < rows; ++i) even = even && xs[row + i].q - xs[row + i - 1].q == x_stride;
    if (!even) {
      x = reinterpret_cast<const int8_t*>(scratch);
      x_stride = 2 * int64_t(cols) + 64;
      for (uint32_t i = 0; i < rows; ++i) std::memcpy(scratch + i * x_stride, xs[row + i].q, 2 * cols);
    }
    const uint32_t second = rows > rows_of_register ? rows - rows_of_register : 0;
    configure({64, rows - second, second ? second : rows_of_register});
    asm volatile("" ::: "memory");  // the intrinsics declare no read
    for (uint32_t t = 0; t < tiles; t += 2) {
      const uint8_t* at = tile + t * tile_bytes;
      float* const to = out + uint64_t(row) * stride + t * 16;
      if (t + 1 < tiles)
        second ? multiply_bf16<true, true>(at, cols, x, x_stride, to, stride)
               : multiply_bf16<false, true>(at, cols, x, x_stride, to, stride);
      else
        second ? multiply_bf16<true, false>(at, cols, x, x_stride, to, stride)
               : multiply_bf16<false, false>(at, cols, x, x_stride, to, stride);
    }
    asm volatile("" ::: "memory");  // nor a write
  }
}

// Subtracts the offset: the bytes become signed.
void make_signed(uint8_t* slab, const SlabShape& shape, uint32_t cols) {
  const uint32_t plane = shape.values * rows_of_register;
  const __m512i offset = _mm512_set1_epi8(char(shape.offset));
  for (uint32_t b = 0; b < cols / shape.values; ++b, slab += shape.bytes * rows_of_register)
    for (uint8_t* at = slab; at < slab + plane; at += 64) store(at, _mm512_sub_epi8(load<__m512i>(at), offset));
}

// Weights times scales, as low and high bytes. From the last block to the first: each becomes larger.
void split(uint8_t* slab, const SlabShape& shape, uint32_t cols) {
  constexpr uint32_t max_bytes = 400;
  alignas(64) uint8_t copy[max_bytes * rows_of_register];
  const uint32_t rows = rows_of_register, plane = shape.values * rows, rest = shape.bytes * rows - plane;
  const uint32_t group_bytes = shape.group * rows;
  const __m512i offset = _mm512_set1_epi16(short(shape.offset)), low_bytes = _mm512_set1_epi16(255);
  for (uint32_t b = cols / shape.values; b-- > 0;) {
    const uint8_t* from = slab + b * shape.bytes * rows;
    uint8_t* to = slab + b * (shape.bytes + shape.room) * rows;
    if (to < from + shape.bytes * rows) {  // the first blocks overlap
      std::memcpy(copy, from, shape.bytes * rows);
      from = copy;
    }
    std::memcpy(to + 2 * plane, from + plane, rest);
    const uint8_t* scale_at = from + shape.scale_field() * rows;
    for (const uint8_t* end = from + plane; from < end; scale_at += 64) {
      const auto scale = load<__m512i>(scale_at);
      const __m512i scales = _mm512_mask_blend_epi16(0xaaaaaaaa, scale, _mm512_slli_epi32(scale, 16));
      for (const uint8_t* end_of_group = from + group_bytes; from < end_of_group; from += 64, to += 64) {
        const auto bytes = load<__m512i>(from);
        const __m512i even = _mm512_mullo_epi16(_mm512_sub_epi16(_mm512_and_si512(bytes, low_bytes), offset), scales);
        const __m512i odd = _mm512_mullo_epi16(_mm512_sub_epi16(_mm512_srli_epi16(bytes, 8), offset), scales);
        // bits 0 to 6, and from 7 on, of both
        const __m512i low = _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaa, even, _mm512_slli_epi16(odd, 8));
        store(to, _mm512_and_si512(low, _mm512_set1_epi8(127)));
        store(to + plane,
              _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaa, _mm512_srli_epi16(even, 7), _mm512_slli_epi16(odd, 1)));
      }
    }
  }
}

constexpr uint32_t max_without_slab = 32;  // a slab takes as long as the products of as many rows

void arrange(uint8_t* slab, const SlabShape& shape, uint32_t cols) {
  if (shape.has_groups())
    split(slab, shape, cols);
  else if (shape.offset != 0)
    make_signed(slab, shape, cols);
}

template <int values, int group, Mins mins>
void put(Isa& isa) {
  for (TileKernels& kernels : isa.tiles) {
    SlabShape& shape = kernels.slab;
    if (!kernels.few || shape.values != values || shape.group != group || shape.mins != mins) continue;
    kernels.many = many_rows_in_registers<Slab<Zmm, values, group, mins, false>>;
    if (shape.has_groups()) shape.room = shape.values;
  }
}

}  // namespace

const Isa& isa_avx512_amx() {
  static const Isa all = [] {
    Isa isa = isa_avx512_bf16();
    isa.name = "avx512-amx";
    isa.arrange = arrange;
    for (TileKernels& kernels : isa.tiles) {
      kernels.many = nullptr;
      if (kernels.max_few > 1) kernels.max_few = max_without_slab;
    }
    put<16, 16, Mins::none>(isa);
    put<32, 32, Mins::none>(isa);
    put<32, 32, Mins::plain>(isa);
    put<256, 16, Mins::none>(isa);
    put<256, 16, Mins::scaled>(isa);
    put<256, 32, Mins::none>(isa);
    put<256, 32, Mins::scaled>(isa);
    TileKernels& q8_0 = isa.tiles[unsigned(quant::Format::q8_0)];
    q8_0.many = many_rows_of_q8_0;
    q8_0.many_packed = true;
    q8_0.max_few = max_without_registers;
    put_bf16(isa, rows_of_bf16);
    return isa;
  }();
  return all;
}

}  // namespace heddle::cpu
#endif
