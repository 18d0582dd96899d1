// Products of f32 rows, the quantisation of activations, activations, conversions.
#pragma once
#include "cpu/isa.h"
#include "cpu/kernels/vector.h"
#include "quant/half.h"

namespace heddle::cpu {
namespace {

// Weights of f32, f16 and bf16 as f32: a vector of them, or one.
template <class V>
struct FromF32 {
  static constexpr uint32_t bytes = 4;
  static HEDDLE_INLINE typename V::F vector(const uint8_t* from) { return load<typename V::F>(from); }
  static HEDDLE_INLINE float one(const uint8_t* from) { return load<float>(from); }
};
template <class V>
struct FromF16 {
  static constexpr uint32_t bytes = 2;
  static HEDDLE_INLINE typename V::F vector(const uint8_t* from) { return V::half(from); }
  static HEDDLE_INLINE float one(const uint8_t* from) { return quant::f32_of_f16(load<uint16_t>(from)); }
};
template <class V>
struct FromBf16 {
  static constexpr uint32_t bytes = 2;
  static HEDDLE_INLINE typename V::F vector(const uint8_t* from) {
    return (typename V::F)(Words<V>::pairs(from) << 16);
  }
  static HEDDLE_INLINE float one(const uint8_t* from) {
    const uint32_t bits = uint32_t(load<uint16_t>(from)) << 16;
    return load<float>(&bits);
  }
};

// Each pair of a row of weights and a row of x has a vector of sums of its own, to which products are added in the
// order of the columns: its result depends on nothing else.

// Adds the products of `rows` rows of weights, `row_bytes` apart, with `count` rows of x from column `begin` on, for
// some columns that make whole vectors.
template <class V, class W, int rows, int count>
HEDDLE_INLINE void add_products(const uint8_t* w, uint64_t row_bytes, const float* const* xs, uint32_t begin,
                                uint32_t columns, typename V::F (&sum)[rows][count]) {
  using F = typename V::F;
  for (uint32_t c = 0; c < columns; c += uint32_t(lanes<V>)) {
    F x[count];
    HEDDLE_UNROLLED (i, count) {
      x[i] = load<F>(xs[i] + begin + c);
    }
    HEDDLE_UNROLLED (r, rows) {
      const F weight = W::vector(w + uint64_t(r) * row_bytes + c * W::bytes);
      HEDDLE_UNROLLED (i, count) {
        sum[r][i] = V::fma(weight, x[i], sum[r][i]);
      }
    }
  }
}
template <class V>
HEDDLE_INLINE uint32_t whole_vectors(uint32_t cols) {
  return cols / uint32_t(lanes<V>) * uint32_t(lanes<V>);
}
// The sum of a pair, with the columns that are no whole vector.
template <class V, class W>
HEDDLE_INLINE float dot_of(typename V::F sum, const uint8_t* row, uint32_t cols, const float* x) {
  float value = sum_of<V>(sum);
  for (uint32_t c = whole_vectors<V>(cols); c < cols; ++c) value += W::one(row + uint64_t(c) * W::bytes) * x[c];
  return value;
}

template <class V, class W, int rows, int count>
HEDDLE_INLINE void dot_block(const uint8_t* w, uint32_t cols, const float* const* xs, float* out, uint32_t stride) {
  const uint64_t row_bytes = uint64_t(cols) * W::bytes;
  typename V::F sum[rows][count] = {};
  add_products<V, W>(w, row_bytes, xs, 0, whole_vectors<V>(cols), sum);
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < count; ++i)
      out[uint32_t(i) * stride + uint32_t(r)] = dot_of<V, W>(sum[r][i], w + uint64_t(r) * row_bytes, cols, xs[i]);
}

template <class V, class W, int rows>
void dot_rows(const uint8_t* w, uint32_t cols, const float* const* xs, uint32_t count, float* out, uint32_t stride) {
  constexpr int at_once = rows == 8 ? 1 : 4;
  uint32_t i = 0;
  for (; i + at_once <= count; i += at_once) dot_block<V, W, rows, at_once>(w, cols, xs + i, out + i * stride, stride);
  for (; i < count; ++i) dot_block<V, W, rows, 1>(w, cols, xs + i, out + i * stride, stride);
}

// More rows of x meet the weights by parts: some columns of a few rows become f32 in the first cache, and sums lie in
// memory until their next part.
template <class V, class W>
struct DotsOfMany {
  using F = typename V::F;
  static constexpr int at_once = V::registers == 32 ? 6 : 3;  // rows of x, with four of weights
  static constexpr uint32_t w_rows = 8, x_rows = 8 * at_once, columns = 512;
  // (rows of a power of two would share a few places of the cache)
  static constexpr uint32_t part_stride = columns + 16;
  float part[w_rows][part_stride];
  F sums[w_rows][x_rows];

  template <int rows, int count>
  HEDDLE_INLINE void add(uint32_t r, uint32_t i, const float* const* xs, uint32_t begin, uint32_t some) {
    F sum[rows][count];
    HEDDLE_UNROLLED (a, rows) {
      HEDDLE_UNROLLED (b, count) {
        sum[a][b] = sums[r + uint32_t(a)][i + uint32_t(b)];
      }
    }
    add_products<V, FromF32<V>>(reinterpret_cast<const uint8_t*>(part[r]), sizeof part[r], xs + i, begin, some, sum);
    HEDDLE_UNROLLED (a, rows) {
      HEDDLE_UNROLLED (b, count) {
        sums[r + uint32_t(a)][i + uint32_t(b)] = sum[a][b];
      }
    }
  }
  template <int count>
  HEDDLE_INLINE void add_all_rows(uint32_t rows, uint32_t i, const float* const* xs, uint32_t begin, uint32_t some) {
    uint32_t r = 0;
    for (; r + 4 <= rows; r += 4) add<4, count>(r, i, xs, begin, some);
    for (; r < rows; ++r) add<1, count>(r, i, xs, begin, some);
  }
  // rows <= w_rows, count <= x_rows
  void run(const uint8_t* w, uint32_t rows, uint32_t cols, const float* const* xs, uint32_t count, float* out,
           uint32_t stride) {
    const uint64_t row_bytes = uint64_t(cols) * W::bytes;
    const uint32_t end = whole_vectors<V>(cols);
    for (uint32_t r = 0; r < rows; ++r) __builtin_memset(sums[r], 0, count * sizeof(F));
    for (uint32_t begin = 0; begin < end; begin += columns) {
      const uint32_t some = end - begin < columns ? end - begin : columns;
      for (uint32_t r = 0; r < rows; ++r)
        for (uint32_t c = 0; c < some; c += uint32_t(lanes<V>))
          store(part[r] + c, W::vector(w + r * row_bytes + (begin + c) * W::bytes));
      for (uint32_t i = 0, passes = (count + at_once - 1) / at_once; passes > 0; --passes) {  // of about as many each
        const uint32_t of_pass = (count - i + passes - 1) / passes;
        each<at_once>([&](auto n) HEDDLE_INLINE_LAMBDA {
          constexpr int size = HEDDLE_VALUE(n) + 1;
          if (of_pass == size) add_all_rows<size>(rows, i, xs, begin, some);
        });
        i += of_pass;
      }
    }
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t i = 0; i < count; ++i)
        out[uint64_t(i) * stride + r] = dot_of<V, W>(sums[r][i], w + r * row_bytes, cols, xs[i]);
  }
};

template <class V, class W>
void dots_of_many(const uint8_t* w, uint32_t rows, uint32_t cols, const float* const* xs, uint32_t count, float* out,
                  uint32_t stride) {
  using Many = DotsOfMany<V, W>;
  Many many;
  const auto least = [](uint32_t a, uint32_t b) { return a < b ? a : b; };
  for (uint32_t i = 0; i < count; i += Many::x_rows)
    for (uint32_t r = 0; r < rows; r += Many::w_rows)
      many.run(w + uint64_t(r) * cols * W::bytes, least(rows - r, Many::w_rows), cols, xs + i,
               least(count - i, Many::x_rows), out + uint64_t(i) * stride + r, stride);
}

template <class V, class W>
void dots(const void* weights, uint32_t rows, uint32_t cols, const float* const* xs, uint32_t count, float* out,
          uint32_t stride) {
  const auto row = [&](uint32_t r) { return static_cast<const uint8_t*>(weights) + uint64_t(r) * cols * W::bytes; };
  if (count > 4) return dots_of_many<V, W>(row(0), rows, cols, xs, count, out, stride);
  uint32_t r = 0;
  if (count == 1)
    for (; r + 8 <= rows; r += 8) dot_rows<V, W, 8>(row(r), cols, xs, count, out + r, stride);
  for (; r + 4 <= rows; r += 4) dot_rows<V, W, 4>(row(r), cols, xs, count, out + r, stride);
  for (; r < rows; ++r) dot_rows<V, W, 1>(row(r), cols, xs, count, out + r, stride);
}

template <class V>
void f16_of_f32(const float* from, uint32_t count, uint16_t* to) {
  uint32_t i = 0;
  for (; i + uint32_t(lanes<V>) <= count; i += lanes<V>) V::store_half(to + i, load<typename V::F>(from + i));
  for (; i < count; ++i) to[i] = quant::f16_of_f32(from[i]);
}

// `values` numbers to int8 by their largest magnitude: returns the scale. The sums of each 16 go to `sums`. A value
// that is not finite makes the scale a NaN, and with it every product of the block.
template <class V, int values>
HEDDLE_INLINE float quantise(const float* x, int8_t* q, int32_t* sums) {
  using F = typename V::F;
  using I = typename V::I;
  constexpr int step = lanes<V>;
  typedef int8_t Bytes __attribute__((vector_size(step)));
  I most{};  // magnitudes are ordered as their bits are
  for (int i = 0; i < values; i += step) {
    const I bits = (I)load<F>(x + i) & 0x7fffffff;
    most = bits > most ? bits : most;
  }
  const int32_t max = largest_of<V>(most);
  float largest;
  __builtin_memcpy(&largest, &max, 4);
  const bool finite = max < 0x7f800000;
  const float scale = finite ? largest / 127 : __builtin_nanf("");
  const float inverse = largest > 0x1p-119f ? 127 / largest : 0;  // below, the inverse is infinite: these become 0
  const int32_t keep = finite ? -1 : 0;                           // the low bits of a NaN are no integer
  for (int g = 0; g < values / 16; ++g) {
    I sum{};
    for (int i = 16 * g; i < 16 * g + 16; i += step) {
      // the sum's last place is 1: it rounds to the nearest, and its low bits are the integer
      const I n = ((I)(load<F>(x + i) * inverse + 12582912.0f) - 0x4b400000) & keep;
      const Bytes bytes = __builtin_convertvector(n, Bytes);
      __builtin_memcpy(q + i, &bytes, sizeof bytes);
      sum += n;
    }
    sums[g] = sum_of<V>(sum);
  }
  return scale;
}

template <class V>
void quantise_32(const float* x, uint32_t cols, int8_t* q, float* d, int32_t* sums) {
  for (uint32_t b = 0; b < cols / 32; ++b) d[b] = quantise<V, 32>(x + 32 * b, q + 32 * b, sums + 2 * b);
}

template <class V>
void quantise_256(const float* x, uint32_t cols, int8_t* q, float* d, int32_t* sums, int8_t* split) {
  for (uint32_t b = 0; b < cols / 256; ++b, sums += 16, split += 48) {
    d[b] = quantise<V, 256>(x + 256 * b, q + 256 * b, sums);
    for (int g = 0; g < 8; ++g) {
      const int32_t sum = sums[2 * g] + sums[2 * g + 1];
      split[g] = int8_t(sum & 63);
      split[8 + g] = int8_t(sum >> 6);
    }
    for (int g = 0; g < 16; ++g) {
      split[16 + g] = int8_t(sums[g] & 63);
      split[32 + g] = int8_t(sums[g] >> 6);
    }
  }
}

// The cumulative standard normal distribution. The tail is e^(-x^2 / 2) times a polynomial of 1 / (1 + |x| / sqrt(8)),
// a Chebyshev fit: good to 3e-6 of itself.
template <class V>
HEDDLE_INLINE typename V::F normal_below(typename V::F x) {
  using F = typename V::F;
  using I = typename V::I;
  constexpr float fit[] = {0.282082674f, 0.282445042f,  0.242572893f, 0.204853655f, -0.0318417574f,
                           0.28569771f,  -0.493863649f, 0.28776831f,  -0.059714919f};
  F away = choose<V>((I)(x < 0.0f), -x, x);
  away = choose<V>((I)(away > 15.0f), all<V>(15.0f), away);
  const F t = 1.0f / (away * 0x1.6a09e6p-2f + 1.0f);
  F sum = all<V>(fit[8]);
  for (int i = 7; i >= 0; --i) sum = V::fma(sum, t, all<V>(fit[i]));
  const F tail = 0.5f * t * sum * exponential<V>(-0.5f * away * away);
  return choose<V>((I)(x < 0.0f), tail, 1.0f - tail);
}

// inner = f(gate) * by(up).
template <class V, class Function, class By>
HEDDLE_INLINE void activate_by(Function f, By by, const float* gate, const float* up, uint32_t count, float* inner) {
  using F = typename V::F;
  constexpr uint32_t step = uint32_t(lanes<V>);
  for (uint32_t i = 0; i < count; i += step) {
    float ends[2][lanes<V>] = {};  // the last vector may be incomplete
    const uint32_t here = count - i < step ? count - i : step;
    const bool whole = here == step;
    if (!whole) {
      __builtin_memcpy(ends[0], gate + i, here * 4);
      if (up) __builtin_memcpy(ends[1], up + i, here * 4);
    }
    F value = f(whole ? load<F>(gate + i) : load<F>(ends[0]));
    if (up) value *= by(whole ? load<F>(up + i) : load<F>(ends[1]));
    if (whole)
      store(inner + i, value);
    else
      __builtin_memcpy(inner + i, &value, here * 4);
  }
}

// kind as in model::Activation: silu, gelu, gelu_tanh, relu_squared, clamped_swiglu, xielu
template <class V>
void activate(uint8_t kind, const float* xielu, const float* gate, const float* up, uint32_t count, float* inner) {
  using F = typename V::F;
  using I = typename V::I;
  const auto same = [](F x) { return x; };
  const auto at_most = [](F x, float limit) { return choose<V>((I)(x > limit), all<V>(limit), x); };
  if (kind == 0) {
    activate_by<V>([](F x) { return x / (exponential<V>(-x) + 1.0f); }, same, gate, up, count, inner);
  } else if (kind == 1) {
    activate_by<V>([](F x) { return x * normal_below<V>(x); }, same, gate, up, count, inner);
  } else if (kind == 2) {
    activate_by<V>([](F x) { return 0.5f * x * (1.0f + tangent<V>(0.79788456f * (x + 0.044715f * x * x * x))); }, same,
                   gate, up, count, inner);
  } else if (kind == 3) {
    activate_by<V>([](F x) { return choose<V>((I)(x > 0.0f), x * x, F{}); }, same, gate, up, count, inner);
  } else if (kind == 4) {
    activate_by<V>(
        [&](F x) {
          x = at_most(x, 7);
          return x / (exponential<V>(-1.702f * x) + 1.0f);
        },
        [&](F x) { return -at_most(-at_most(x, 7), 7) + 1.0f; }, gate, up, count, inner);
  } else {
    const float positive = xielu[0], negative = xielu[1], beta = xielu[2], epsilon = xielu[3];
    activate_by<V>(
        [&](F x) {
          const F below = negative * (exponential<V>(at_most(x, epsilon)) - 1.0f - x) + beta * x;
          return choose<V>((I)(x > 0.0f), x * (positive * x + beta), below);
        },
        same, gate, up, count, inner);
  }
}

template <class V>
void gate_values(const float* gate, float* x, uint32_t count) {
  using F = typename V::F;
  activate_by<V>([](F g) { return 1.0f / (exponential<V>(-g) + 1.0f); }, [](F value) { return value; }, gate, x, count,
                 x);
}

template <class V>
uint64_t read_all(const uint8_t* from, uint64_t bytes) {
  typename V::B sums[8] = {};
  for (const uint8_t* end = from + bytes; from != end; from += sizeof sums)
    each<8>([&](auto i) HEDDLE_INLINE_LAMBDA {
      sums[HEDDLE_VALUE(i)] ^= load<typename V::B>(from + HEDDLE_VALUE(i) * V::width);
    });
  for (int i = 1; i < 8; ++i) sums[0] ^= sums[i];
  return load<uint64_t>(sums);
}

template <class V>
void fill_floats(Isa& isa) {
  isa.read_all = read_all<V>;
  isa.dots[unsigned(quant::Format::f32)] = dots<V, FromF32<V>>;
  isa.dots[unsigned(quant::Format::f16)] = dots<V, FromF16<V>>;
  isa.dots[unsigned(quant::Format::bf16)] = dots<V, FromBf16<V>>;
  isa.f16_of_f32 = f16_of_f32<V>;
  isa.quantise_32 = quantise_32<V>;
  isa.quantise_256 = quantise_256<V>;
  isa.activate = activate<V>;
  isa.gate = gate_values<V>;
}

}  // namespace
}  // namespace heddle::cpu
