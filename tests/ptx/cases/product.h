// A matrix product as an item of a case: how it lies in memory, its inputs, its triple loop and its bound; and how a
// warp's fragments are loaded from such matrices, by the layouts of the PTX manual.
#pragma once
#include "tests/ptx/cases/case.h"

namespace heddle::ptx::cases {

// D = A * B + C. An item's input is A, B, C and a word that says whether to add C; its output is D, row by row.
struct Product {
  Type a = Type::f16, b = Type::f16, sum = Type::f32;
  uint32_t m = 16, n = 8, k = 16;
  uint32_t steps = 1;                       // instructions along k
  bool a_k_first = true, b_k_first = true;  // in memory: k is the contiguous dimension
  bool negate_a = false, negate_b = false;
  bool read_flag = false;  // the word decides; else C is added

  uint32_t a_bytes() const { return m * k * size_of(a); }
  uint32_t b_bytes() const { return k * n * size_of(b); }
  uint32_t c_bytes() const { return m * n * size_of(sum); }
  uint32_t b_at() const { return a_bytes(); }
  uint32_t c_at() const { return b_at() + b_bytes(); }
  uint32_t flag_at() const { return c_at() + c_bytes(); }
  uint32_t in_bytes() const { return flag_at() + 16; }

  double a_of(const uint8_t* in, uint32_t row, uint32_t i) const;
  double b_of(const uint8_t* in, uint32_t i, uint32_t col) const;
  double c_of(const uint8_t* in, uint32_t row, uint32_t col) const;  // 0 where it is not added
};

// A case whose item is `p` and whose kernel has one item per block.
Case product_case(std::string name, const Product& p, Callable<Kernel()> build);
void add_wgmma(std::vector<Case>& all);  // add_matrix adds these too

struct ItemKernel : Builder<Args> {
  ItemKernel(const std::string& name, uint32_t threads, uint32_t in_bytes, uint32_t out_bytes)
      : Builder<Args>(name, threads),
        in(arg(&Args::in) + block_id() * in_bytes),
        out(arg(&Args::out) + block_id() * out_bytes) {}
  Global<uint8_t> in, out;
};

// Register i of an accumulator whose 16 x n piece begins at row `first`: where in the row-major (m, n) matrix it lies.
// An 8 x 8 piece is split among lanes 4g + t: columns 2t, 2t + 1 of row g.
template <class T>
Global<T> accumulator_place(Global<uint8_t> matrix, U32 first, U32 lane, uint32_t n, uint32_t i) {
  const bool pairs = std::same_as<T, f16x2>;
  const uint32_t lower = pairs ? i % 2 : i / 2 % 2, right = pairs ? i / 2 : i / 4, column = pairs ? 0 : i % 2;
  const uint32_t bytes = pairs ? 2 : 4;
  U32 row = first + lane / 4u + lower * 8;
  U32 col = lane % 4u * 2u + (right * 8 + column);
  return (matrix + (row * n + col) * bytes).template as<T>();
}
template <class R>
void load_accumulator(std::vector<Var<R>>& acc, Global<uint8_t> c, U32 first, U32 lane, uint32_t n) {
  for (uint32_t i = 0; i < acc.size(); ++i) acc[i] = load(accumulator_place<R>(c, first, lane, n, i));
}
template <class R>
void store_accumulator(const std::vector<Var<R>>& acc, Global<uint8_t> d, U32 first, U32 lane, uint32_t n) {
  for (uint32_t i = 0; i < acc.size(); ++i) store(accumulator_place<R>(d, first, lane, n, i), acc[i].get());
}
// Register r of A: 32-bit word 4 (r / 2) + t of row g + 8 (r % 2); rows lie `row_bytes` apart.
inline U32 load_a(Global<uint8_t> a, U32 first, U32 lane, uint32_t row_bytes, uint32_t r) {
  return load((a + ((first + lane / 4u + r % 2 * 8) * row_bytes + lane % 4u * 4u + r / 2 * 16)).as<uint32_t>());
}

}  // namespace heddle::ptx::cases
