// x86-64 with AMX: many rows. A tile register multiplies 16 rows of x with the 16 weight rows of a tile, 64 bytes at a
// time; everything else is as with AVX-512. Where groups of a block have scales, the scales go into the weights: weight
// * scale is split into two bytes, so that a whole block is summed before it leaves the register. A block is unpacked
// to the first cache, where it meets all rows.
#if defined(__x86_64__)
#include <cstring>
#include <utility>

#include "cpu/kernels/bf16_x86.h"
#include "cpu/kernels/product_table.h"

namespace heddle::cpu {
namespace {

static_assert(tile_rows<Zmm> == 16);
constexpr uint32_t width = 16;      // weight rows of a tile, and rows of a register
constexpr uint32_t max_rows = 128;  // of x that meet an unpacked block
constexpr uint32_t max_rows_of_bf16 = 64;

// The registers: 0 to 3 for sums, 4 and 5 for rows of x, 6 and 7 for weights. (Their numbers must be literals.)
struct Registers {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t columns[16] = {};  // in bytes
  uint8_t rows[16] = {};
};
static_assert(sizeof(Registers) == 64);

// `values` bytes of each of `rows` rows of x at a time. The registers are never released: both take longer than a small
// product, and the system releases those of a core that goes to sleep.
void configure(uint32_t values, uint32_t rows) {
  thread_local std::pair<uint32_t, uint32_t> configured;
  if (std::exchange(configured, {values, rows}) == std::pair(values, rows)) return;
  alignas(64) Registers set;
  const auto shape = [&](int index, uint32_t rows_of, uint32_t columns) {
    set.rows[index] = uint8_t(rows_of);
    set.columns[index] = uint16_t(columns);
  };
  for (const int sum : {0, 1, 2, 3}) shape(sum, rows, 64);
  for (const int x : {4, 5}) shape(x, rows, values);
  for (const int weights : {6, 7}) shape(weights, values / 4, 64);
  asm volatile("" ::: "memory");  // the intrinsic declares a read of 8 bytes only
  _tile_loadconfig(&set);
}

// Rows of x in groups as large as a register. The last group begins before the end of the one before it where that is
// needed to fill it: its first rows are multiplied twice.
class Groups {
 public:
  // Bytes of scratch for `count` rows of `bytes` bytes.
  static constexpr uint64_t scratch_bytes(uint32_t count, uint64_t bytes) { return count * (bytes + 64); }
  // Rows of `bytes` bytes, which are copied to `scratch` unless they lie evenly.
  Groups(const XRow* xs, uint32_t count, uint64_t bytes, uint8_t* scratch)
      : rows(count < width ? count : width), count((count + width - 1) / width), all_(count), first_(xs[0].q) {
    if (count > 1) stride = xs[1].q - xs[0].q;
    bool even = true;
    for (uint32_t i = 1; i < count; ++i) even = even && xs[i].q - xs[i - 1].q == stride;
    if (even) return;
    first_ = reinterpret_cast<const int8_t*>(scratch);
    stride = int64_t(scratch_bytes(1, bytes));
    for (uint32_t i = 0; i < count; ++i) std::memcpy(scratch + i * stride, xs[i].q, bytes);
    asm volatile("" ::: "memory");  // the intrinsics declare no read
  }
  uint32_t row(uint32_t group) const { return group + 1 < count ? group * width : all_ - rows; }
  const int8_t* x(uint32_t group) const { return first_ + row(group) * stride; }
  // The first row of a group that is in no group before it.
  uint32_t first_new(uint32_t group) const { return group * width - row(group); }

  uint32_t rows, count;  // rows of a group, groups
  int64_t stride = 64;   // bytes from row to row

 private:
  uint32_t all_;
  const int8_t* first_;
};

// Parts of about as many rows, each below a limit.
template <class Work>
HEDDLE_INLINE void each_part(uint32_t count, uint32_t limit, Work&& work) {
  for (uint32_t parts = (count + limit - 1) / limit, row = 0; parts > 0; --parts) {
    const uint32_t rows = (count - row + parts - 1) / parts;
    work(row, rows);
    row += rows;
  }
}

using SumsOfGroup = int32_t[width][16];
using TotalsOfGroup = float[width][16];

// An unpacked block: weight * scale = low + (high << shift), followed by the other fields of a slab's block. The slab's
// functions find these fields behind the weights, and `high` is as large as those: as_slab() points to it.
template <class S>
struct alignas(64) Block {
  static constexpr uint32_t plane = S::values * width;
  uint8_t low[plane], high[plane], fields[(S::bytes - S::values) * width];
  const uint8_t* as_slab() const { return high; }
};

// Weights of a slab with one block, times scales. Bits 0 to 6 of each product are its low byte.
template <class S>
void split(const uint8_t* slab, int offset_of_weights, Block<S>& to) {
  std::memcpy(to.fields, slab + to.plane, sizeof to.fields);
  const __m512i offset = _mm512_set1_epi16(short(offset_of_weights)), low_bytes = _mm512_set1_epi16(255);
  uint8_t *low_at = to.low, *high_at = to.high;
  for (int g = 0; g < S::groups; ++g) {
    const auto scale = (__m512i)S::scale(slab, g, 0);
    const __m512i scales = _mm512_mask_blend_epi16(0xaaaaaaaa, scale, _mm512_slli_epi32(scale, 16));
    for (int step = 0; step < S::steps; ++step, low_at += 64, high_at += 64) {
      const auto bytes = load<__m512i>(slab + (low_at - to.low));
      const __m512i even = _mm512_mullo_epi16(_mm512_sub_epi16(_mm512_and_si512(bytes, low_bytes), offset), scales);
      const __m512i odd = _mm512_mullo_epi16(_mm512_sub_epi16(_mm512_srli_epi16(bytes, 8), offset), scales);
      const __m512i low = _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaa, even, _mm512_slli_epi16(odd, 8));
      store(low_at, _mm512_and_si512(low, _mm512_set1_epi8(127)));
      store(high_at, _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaa, _mm512_srli_epi16(even, 7), _mm512_slli_epi16(odd, 1)));
    }
  }
}

// How a format's blocks of 256 values are unpacked.
template <class F>
struct Unpacked {
  using S = SlabOf<F>;
  static constexpr int shift = 7;
  static void unpack(const uint8_t* block, Block<S>& to) {
    alignas(64) uint8_t slab[S::bytes * width];
    prefetch_ahead<Zmm, F::bytes * width>(block);
    fill_slab<F>(block, F::values, slab);
    split<S>(slab, offset_of<F>, to);
  }
};
// Scales of 6 bits are split instead, into 3 and 3: their products with 4 bits are bytes, two of which are multiplied
// at once.
template <>
struct Unpacked<Q4_k<Zmm>> {
  using F = Q4_k<Zmm>;
  using S = SlabOf<F>;
  static constexpr int shift = 3;
  static void unpack(const uint8_t* block, Block<S>& to) {
    prefetch_ahead<Zmm, F::bytes * width>(block);
    each<8>([&](auto group) HEDDLE_INLINE_LAMBDA {
      constexpr int g = HEDDLE_VALUE(group);
      const auto scale = (__m512i)scale_of<F, g>(block, 0);
      const __m512i scales = _mm512_or_si512(scale, _mm512_slli_epi32(scale, 16));
      const __m512i low = _mm512_and_si512(scales, _mm512_set1_epi16(7)), high = _mm512_srli_epi16(scales, 3);
      each<8>([&](auto number) HEDDLE_INLINE_LAMBDA {
        constexpr int step = HEDDLE_VALUE(number), at = (8 * g + step) * 64;
        const auto weights = (__m512i)F::template weights<g % 2, step>(block, g / 2, 0);
        store(to.low + at, _mm512_mullo_epi16(weights, low));
        store(to.high + at, _mm512_mullo_epi16(weights, high));
      });
    });
    uint8_t* const fields = to.fields - S::values * width;
    store(fields + S::d_field * width, F::d(block, 0));
    store(fields + S::m_field * width, F::m(block, 0));
    S::put(fields, S::min_field, 0, 0, F::template min_bytes<0>(block, 0));
    S::put(fields, S::min_field, 1, 0, F::template min_bytes<1>(block, 0));
  }
};

// Integer sums of a block of 256 values with one or two groups of rows.
struct alignas(64) SumsOfBlock {
  SumsOfGroup low[2], high[2];
};
template <class S, bool two>
HEDDLE_INLINE void multiply(const Block<S>& block, const int8_t* x, const int8_t* second, int64_t stride,
                            SumsOfBlock& sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (uint32_t k = 0; k < S::values; k += 64) {
    _tile_loadd(4, x + k, stride);
    _tile_loadd(6, block.low + k * width, 64);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, block.high + k * width, 64);
    _tile_dpbssd(1, 4, 7);
    if constexpr (two) {
      _tile_loadd(5, second + k, stride);
      _tile_dpbssd(2, 5, 6);
      _tile_dpbssd(3, 5, 7);
    }
  }
  _tile_stored(0, sums.low[0], 64);
  _tile_stored(1, sums.high[0], 64);
  if constexpr (two) _tile_stored(2, sums.low[1], 64);
  if constexpr (two) _tile_stored(3, sums.high[1], 64);
}

// Any number of rows with blocks of 256 values. While one block is added up, the next is multiplied.
template <class F>
void rows_by_blocks(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* all, uint32_t count, float* out,
                    uint8_t* scratch) {
  using U = Unpacked<F>;
  using S = SlabOf<F>;
  constexpr uint64_t block_bytes = F::bytes * width;
  const uint32_t blocks = cols / S::values;
  Block<S> block[2];
  SumsOfBlock sums[2];
  alignas(64) TotalsOfGroup totals[max_rows / width];
  each_part(count, max_rows, [&](uint32_t row, uint32_t rows) HEDDLE_INLINE_LAMBDA {
    const XRow* const xs = all + row;
    const Groups groups(xs, rows, cols, scratch);
    configure(64, groups.rows);
    for (uint32_t t = 0; t < tiles; ++t) {
      std::memset(totals, 0, groups.count * sizeof totals[0]);
      const auto add = [&](uint32_t b, uint32_t first, uint32_t some, const SumsOfBlock& from) HEDDLE_INLINE_LAMBDA {
        const uint8_t* fields = block[b % 2].as_slab();
        const Zmm::F d = S::d(fields, 0);
        for (uint32_t g = 0; g < some; ++g) {
          const XRow* const x = xs + groups.row(first + g);
          for (uint32_t i = groups.first_new(first + g); i < groups.rows; ++i) {
            float* const to = totals[first + g][i];
            const auto total = load<Zmm::I>(from.low[g][i]) + (load<Zmm::I>(from.high[g][i]) << U::shift);
            store(to, with_block<S>(load<Zmm::F>(to), total, d, fields, x[i], b, 0));
          }
        }
      };
      struct {
        uint32_t block, first, some;
      } last = {0, 0, 0};
      uint32_t parity = 0;
      U::unpack(tile + t * blocks * block_bytes, block[0]);
      for (uint32_t b = 0; b < blocks; ++b) {
        for (uint32_t g = 0; g < groups.count; g += 2) {
          const int8_t* const x = groups.x(g) + b * S::values;
          asm volatile("" ::: "memory");
          if (g + 1 < groups.count)
            multiply<S, true>(block[b % 2], x, groups.x(g + 1) + b * S::values, groups.stride, sums[parity]);
          else
            multiply<S, false>(block[b % 2], x, x, groups.stride, sums[parity]);
          asm volatile("" ::: "memory");
          add(last.block, last.first, last.some, sums[1 - parity]);
          last = {b, g, g + 1 < groups.count ? 2u : 1u};
          parity = 1 - parity;
        }
        if (b + 1 < blocks) U::unpack(tile + (t * blocks + b + 1) * block_bytes, block[(b + 1) % 2]);
      }
      add(last.block, last.first, last.some, sums[1 - parity]);
      for (uint32_t g = 0; g < groups.count; ++g)
        for (uint32_t i = groups.first_new(g); i < groups.rows; ++i)
          std::memcpy(out + uint64_t(row + groups.row(g) + i) * tiles * width + t * width, totals[g][i], 64);
    }
  });
}

// Q8_0 as it is packed: 16 scales in f16, then the bytes.
struct PackedQ8_0 {
  using V = Zmm;
  static constexpr uint32_t values = 32, bytes = 34, before = 2 * width;
  static constexpr Mins mins = Mins::none;
  static HEDDLE_INLINE Zmm::F d(const uint8_t* at, int) { return Zmm::half(at); }
};
// Bytes before the weights of a block.
template <class S>
constexpr uint32_t bytes_before = [] {
  if constexpr (requires { S::before; }) return S::before;
  return 0u;
}();

// One block of up to 32 values without groups, with one group of rows.
template <class S, int odd>
HEDDLE_INLINE void multiply_small(const uint8_t* at, const int8_t* x, int64_t stride, SumsOfGroup& sums) {
  asm volatile("" ::: "memory");
  if constexpr (odd) {
    _tile_zero(1);
    _tile_loadd(5, x, stride);
    _tile_loadd(7, at + bytes_before<S>, 64);
    _tile_dpbssd(1, 5, 7);
    _tile_stored(1, sums, 64);
  } else {
    _tile_zero(0);
    _tile_loadd(4, x, stride);
    _tile_loadd(6, at + bytes_before<S>, 64);
    _tile_dpbssd(0, 4, 6);
    _tile_stored(0, sums, 64);
  }
  asm volatile("" ::: "memory");
}

// A tile of such blocks with a group of rows, of which those from `first` on are wanted. While one block is added up,
// the next is multiplied. All sums stay in registers: in memory they cost 10 to 18 % of Q8_0.
template <class S>
void group_of_small_blocks(const uint8_t* at, uint32_t cols, const int8_t* x, int64_t stride, const XRow* of_group,
                           uint32_t first, uint32_t rows, float* out, uint32_t out_stride) {
  constexpr uint32_t bytes = S::bytes * width;
  const uint32_t blocks = cols / S::values;
  XRow xs[width];  // for the scales, padded with the last one
  for (uint32_t i = 0; i < width; ++i) xs[i] = of_group[i < rows ? i : rows - 1];
  alignas(64) SumsOfGroup sums[2] = {};
  Zmm::F sum[width] = {};
  const auto add = [&](uint32_t b, int odd) HEDDLE_INLINE_LAMBDA {
    const uint8_t* fields = at + b * bytes;
    const Zmm::F d = S::d(fields, 0);
    each<int(width)>([&](auto a) HEDDLE_INLINE_LAMBDA {
      constexpr int i = HEDDLE_VALUE(a);
      sum[i] = with_block<S>(sum[i], load<Zmm::I>(sums[odd][i]), d, fields, xs[i], b, 0);
    });
  };
  multiply_small<S, 0>(at, x, stride, sums[0]);
  for (uint32_t b = 0; b < blocks; b += 2) {
    if (b + 1 < blocks) multiply_small<S, 1>(at + (b + 1) * bytes, x + (b + 1) * S::values, stride, sums[1]);
    add(b, 0);
    if (b + 1 == blocks) break;
    if (b + 2 < blocks) multiply_small<S, 0>(at + (b + 2) * bytes, x + (b + 2) * S::values, stride, sums[0]);
    add(b + 1, 1);
  }
  each<int(width)>([&](auto a) HEDDLE_INLINE_LAMBDA {
    constexpr uint32_t i = HEDDLE_VALUE(a);
    if (i >= first && i < rows) store(out + i * out_stride, sum[i]);
  });
}

template <class S>
void groups_of_small_blocks(const uint8_t* tile, uint32_t cols, const Groups& groups, const XRow* xs, float* out,
                            uint32_t stride) {
  for (uint32_t g = 0; g < groups.count; ++g)
    group_of_small_blocks<S>(tile, cols, groups.x(g), groups.stride, xs + groups.row(g), groups.first_new(g),
                             groups.rows, out + uint64_t(groups.row(g)) * stride, stride);
}

// Of blocks without groups, a tile is unpacked to a slab first.
template <class F>
constexpr uint64_t slab_bytes_of(uint32_t cols) {
  using S = SlabOf<F>;
  return F::groups > 1 ? 0 : cols / S::values * S::bytes * width;
}

// Any number of rows with such blocks.
template <class F>
void rows_by_tiles(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* all, uint32_t count, float* out,
                   uint8_t* scratch) {
  using S = SlabOf<F>;
  const uint64_t tile_bytes = uint64_t(cols / (F::values * F::together)) * F::bytes * width;
  const uint64_t slab_bytes = slab_bytes_of<F>(cols);
  const __m512i offset = _mm512_set1_epi8(char(offset_of<F>));
  each_part(count, max_rows, [&](uint32_t row, uint32_t rows) HEDDLE_INLINE_LAMBDA {
    const Groups groups(all + row, rows, cols, scratch + slab_bytes);
    configure(S::values, groups.rows);
    for (uint32_t t = 0; t < tiles; ++t) {
      fill_slab<F>(tile + t * tile_bytes, cols, scratch);
      if (offset_of<F> != 0)  // the bytes become signed
        for (uint8_t* block = scratch; block < scratch + slab_bytes; block += S::bytes * width)
          for (uint32_t i = 0; i < S::values * width; i += 64)
            store(block + i, _mm512_sub_epi8(load<__m512i>(block + i), offset));
      groups_of_small_blocks<S>(scratch, cols, groups, all + row, out + uint64_t(row) * tiles * width + t * width,
                                tiles * width);
    }
  });
}
// Q8_0 needs no slab.
template <>
void rows_by_tiles<Q8_0<Zmm>>(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* all, uint32_t count,
                              float* out, uint8_t* scratch) {
  const uint64_t tile_bytes = uint64_t(cols / 32) * PackedQ8_0::bytes * width;
  each_part(count, max_rows, [&](uint32_t row, uint32_t rows) HEDDLE_INLINE_LAMBDA {
    const Groups groups(all + row, rows, cols, scratch);
    configure(PackedQ8_0::values, groups.rows);
    for (uint32_t t = 0; t < tiles; ++t)
      groups_of_small_blocks<PackedQ8_0>(tile + t * tile_bytes, cols, groups, all + row,
                                         out + uint64_t(row) * tiles * width + t * width, tiles * width);
  });
}

// One or two tiles of BF16 with some groups of rows: of one tile up to four, of two up to two.
template <int groups, bool two_tiles>
HEDDLE_INLINE void multiply_bf16(const uint8_t* at, uint32_t cols, const Groups& x, float* out, uint32_t stride) {
  static_assert(groups <= (two_tiles ? 2 : 4));
  const uint64_t tile_bytes = 32 * uint64_t(cols);
  const int8_t* from[groups];
  for (int g = 0; g < groups; ++g) from[g] = x.x(uint32_t(g));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (uint32_t c = 0; c < cols; c += 32, at += 1024) {
    prefetch_ahead<Zmm, 1024>(at);
    _tile_loadd(6, at, 64);
    _tile_loadd(4, from[0] + 2 * c, x.stride);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (groups > 1) {
      _tile_loadd(5, from[1] + 2 * c, x.stride);
      _tile_dpbf16ps(1, 5, 6);
    }
    if constexpr (two_tiles) {
      prefetch_ahead<Zmm, 1024>(at + tile_bytes);
      _tile_loadd(7, at + tile_bytes, 64);
      _tile_dpbf16ps(2, 4, 7);
      if constexpr (groups > 1) _tile_dpbf16ps(3, 5, 7);
    }
    if constexpr (groups > 2) {
      _tile_loadd(4, from[2] + 2 * c, x.stride);
      _tile_dpbf16ps(2, 4, 6);
    }
    if constexpr (groups > 3) {
      _tile_loadd(5, from[3] + 2 * c, x.stride);
      _tile_dpbf16ps(3, 5, 6);
    }
  }
  const int64_t out_bytes = int64_t(stride) * 4;
  const auto to = [&](uint32_t g) { return out + uint64_t(x.row(g)) * stride; };
  _tile_stored(0, to(0), out_bytes);
  if constexpr (groups > 1) _tile_stored(1, to(1), out_bytes);
  if constexpr (two_tiles) _tile_stored(2, to(0) + width, out_bytes);
  if constexpr (two_tiles && groups > 1) _tile_stored(3, to(1) + width, out_bytes);
  if constexpr (groups > 2) _tile_stored(2, to(2), out_bytes);
  if constexpr (groups > 3) _tile_stored(3, to(3), out_bytes);
}

// Any number of rows: a row's sums have one order. Up to 64 rows read each tile once and all tiles in their order, as
// memory likes it: 9 % of one stream. More read two tiles at a time, with 32 rows.
void rows_of_bf16(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* all, uint32_t count, float* out,
                  uint8_t* scratch) {
  const uint32_t stride = tiles * width;
  const uint64_t tile_bytes = 32 * uint64_t(cols);
  const bool two_tiles = count > max_rows_of_bf16;
  each_part(count, two_tiles ? 2 * width : max_rows_of_bf16, [&](uint32_t row, uint32_t rows) HEDDLE_INLINE_LAMBDA {
    const Groups x(all + row, rows, 2 * uint64_t(cols), scratch);
    configure(64, x.rows);
    asm volatile("" ::: "memory");  // the intrinsics declare no read
    const uint8_t* at = tile;
    float* to = out + uint64_t(row) * stride;
    uint32_t left = tiles;
    for (; two_tiles && left >= 2; left -= 2, at += 2 * tile_bytes, to += 2 * width)
      x.count == 1 ? multiply_bf16<1, true>(at, cols, x, to, stride) : multiply_bf16<2, true>(at, cols, x, to, stride);
    for (; left > 0; --left, at += tile_bytes, to += width) {
      if (x.count == 1)
        multiply_bf16<1, false>(at, cols, x, to, stride);
      else if (x.count == 2)
        multiply_bf16<2, false>(at, cols, x, to, stride);
      else if (x.count == 3)
        multiply_bf16<3, false>(at, cols, x, to, stride);
      else
        multiply_bf16<4, false>(at, cols, x, to, stride);
    }
    asm volatile("" ::: "memory");  // nor a write
  });
}

// Up to 12 rows are done sooner without the registers: one pass of them. Of blocks without groups that goes for a few
// rows behind whole groups as well.
constexpr uint32_t max_without_registers = 12;
template <class F>
constexpr uint32_t max_left = F::groups > 1 || F::max_few == 1 ? 0 : 4;

template <class Of>
void any_number_of_rows(const uint8_t* tile, uint32_t tiles, uint32_t cols, const XRow* xs, uint32_t count, float* out,
                        uint8_t* scratch) {
  using F = typename Of::F;
  static const auto few = isa_avx512_vnni().tiles[unsigned(Of::format)].few;
  uint32_t rows = count;  // with registers
  if (count <= (F::max_few == 1 ? 1 : max_without_registers))
    rows = 0;
  else if (count > width && count % width <= max_left<F>)
    rows = count / width * width;
  if (rows > 0) {
    if constexpr (F::groups > 1)
      rows_by_blocks<F>(tile, tiles, cols, xs, rows, out, scratch);
    else
      rows_by_tiles<F>(tile, tiles, cols, xs, rows, out, scratch);
  }
  if (rows < count) few(tile, tiles, cols, xs + rows, count - rows, out + uint64_t(rows) * tiles * width, scratch);
}

}  // namespace

const Isa& isa_avx512_amx() {
  static const Isa all = [] {
    Isa isa = isa_avx512_bf16();
    isa.name = "avx512-amx";
    each_format<Zmm>([&]<class Of>(Of) {
      using F = typename Of::F;
      TileKernels& kernels = isa.tiles[unsigned(Of::format)];
      kernels.few = any_number_of_rows<Of>;
      kernels.max_few = UINT32_MAX;
      kernels.many = nullptr;
      kernels.few_scratch = [](uint32_t cols) {
        return slab_bytes_of<F>(cols) + Groups::scratch_bytes(max_rows, cols);
      };
    });
    put_bf16(isa, rows_of_bf16,
             [](uint32_t cols) { return Groups::scratch_bytes(max_rows_of_bf16, 2 * uint64_t(cols)); });
    return isa;
  }();
  return all;
}

}  // namespace heddle::cpu
#endif
