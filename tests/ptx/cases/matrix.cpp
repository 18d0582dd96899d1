// mma, ldmatrix and stmatrix against a plain triple loop or a plain copy. Every fragment is loaded here, by the kernel,
// from the PTX manual's description of the layout; the interpreter has its own.
#include <algorithm>

#include "base/error.h"
#include "tests/ptx/cases/product.h"

namespace heddle::ptx::cases {
namespace {

template <class T, class A, class B, uint32_t M, uint32_t K>
void add_mma(std::vector<Case>& all) {
  const Product p{.a = type_of<A>, .b = type_of<B>, .sum = type_of<T>, .m = M, .n = 8, .k = K};
  std::string name = fmt::format("mma.m{}n8k{}.{}.{}.{}", M, K, ptx::name(p.sum), ptx::name(p.a), ptx::name(p.b));
  all.push_back(product_case(name, p, [p] {
    ItemKernel k("mma", 32, p.in_bytes(), p.c_bytes());
    U32 lane = k.lane(), top = k.constant(0u);
    Tile<A, M, K> a;
    Tile<B, K, 8> b;
    for (uint32_t r = 0; r < a.regs; ++r) a.reg[r] = load_a(k.in, top, lane, K * uint32_t(sizeof(A)), r);
    for (uint32_t r = 0; r < b.regs; ++r)  // word 4r + t of column g
      b.reg[r] = load((k.in + p.b_at() + (lane / 4u * (K * uint32_t(sizeof(B))) + lane % 4u * 4u + r * 16))
                          .template as<uint32_t>());
    Acc<T, M, 8> acc(k);
    load_accumulator(acc.var, k.in + p.c_at(), top, lane, 8);
    mma(acc, a, b);
    store_accumulator(acc.var, k.out, top, lane, 8);
    return k.finish();
  }));
}
template <class A, class B>
void add_mma_integer(std::vector<Case>& all) {
  add_mma<int32_t, A, B, 8, 16>(all);
  add_mma<int32_t, A, B, 16, 16>(all);
  add_mma<int32_t, A, B, 16, 32>(all);
}
template <class A, class B>
void add_mma_fp8(std::vector<Case>& all) {
  add_mma<float, A, B, 16, 16>(all);
  add_mma<float, A, B, 16, 32>(all);
  add_mma<heddle::f16, A, B, 16, 16>(all);
  add_mma<heddle::f16, A, B, 16, 32>(all);
}

// Where row r of `rows` lies in shared memory: not in order, so that every lane's address counts.
U32 scattered(U32 row, uint32_t rows) { return (row * 3u + 1u) & (rows - 1); }

// Rows of 16 bytes in; out word (i, lane) is what register i of the lane holds.
template <size_t N>
void add_ldmatrix(std::vector<Case>& all, bool transpose) {
  static constexpr uint32_t rows = 8 * N;
  Case c;
  c.name = fmt::format("ldmatrix.x{}{}", N, transpose ? ".trans" : "");
  c.family = "matrix";
  c.in_bytes = c.out_bytes = rows * 16;
  c.items_per_block = 1;
  c.fewest_items = 400;
  c.build = [transpose] {
    ItemKernel k("ldmatrix", 32, rows * 16, rows * 16);
    U32 lane = k.lane();
    auto tile = k.shared<uint32_t>(rows * 4);
    U32 row = lane & (rows - 1);  // lanes that name no row have a good address too: sm_75 wants that
    k.when(lane < rows,
           [&] { store_vec(tile + scattered(row, rows) * 4u, load_vec<4>((k.in + row * 16u).as<uint32_t>())); });
    k.barrier();
    auto got = load_matrices<N>(tile + scattered(row, rows) * 4u, transpose);
    for (uint32_t i = 0; i < N; ++i) store((k.out + lane * 4u).as<uint32_t>().offset(i * 32), got[i]);
    return k.finish();
  };
  c.fill = [](Rng& rng, size_t, uint8_t* in) { std::generate_n(in, rows * 16, [&] { return uint8_t(rng()); }); };
  c.reference = [transpose](const uint8_t* in, uint8_t* out) {
    for (uint32_t i = 0; i < N; ++i)
      for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t half = 0; half < 2; ++half) {
          const uint32_t line = lane / 4, at = lane % 4 * 2 + half;
          const uint32_t r = transpose ? at : line, col = transpose ? line : at;
          std::memcpy(out + (i * 32 + lane) * 4 + half * 2, in + (i * 8 + r) * 16 + col * 2, 2);
        }
  };
  all.push_back(std::move(c));
}
template <size_t N>
void add_stmatrix(std::vector<Case>& all, bool transpose) {
  static constexpr uint32_t rows = 8 * N;
  Case c;
  c.name = fmt::format("stmatrix.x{}{}", N, transpose ? ".trans" : "");
  c.family = "matrix";
  c.in_bytes = c.out_bytes = rows * 16;
  c.items_per_block = 1;
  c.fewest_items = 400;
  c.build = [transpose] {
    ItemKernel k("stmatrix", 32, rows * 16, rows * 16);
    U32 lane = k.lane();
    auto tile = k.shared<uint32_t>(rows * 4);
    std::array<U32, N> v;
    for (uint32_t i = 0; i < N; ++i) v[i] = load((k.in + lane * 4u).as<uint32_t>().offset(i * 32));
    U32 row = lane & (rows - 1);
    store_matrices(tile + scattered(row, rows) * 4u, v, transpose);
    k.barrier();
    k.when(lane < rows,
           [&] { store_vec((k.out + row * 16u).as<uint32_t>(), load_vec<4>(tile + scattered(row, rows) * 4u)); });
    return k.finish();
  };
  c.fill = [](Rng& rng, size_t, uint8_t* in) { std::generate_n(in, rows * 16, [&] { return uint8_t(rng()); }); };
  c.reference = [transpose](const uint8_t* in, uint8_t* out) {
    for (uint32_t i = 0; i < N; ++i)
      for (uint32_t r = 0; r < 8; ++r)
        for (uint32_t col = 0; col < 8; ++col) {
          const uint32_t line = transpose ? col : r, at = transpose ? r : col;
          std::memcpy(out + (i * 8 + r) * 16 + col * 2, in + (i * 32 + line * 4 + at / 2) * 4 + at % 2 * 2, 2);
        }
  };
  all.push_back(std::move(c));
}

// ldmatrix feeds mma as kernels use them: A (16, 16) row by row, B (16, 8) row by row and so transposed on the way.
void add_mma_from_shared(std::vector<Case>& all) {
  using heddle::f16;
  const Product p{.sum = Type::f16, .b_k_first = false};
  all.push_back(product_case("ldmatrix+mma.m16n8k16+stmatrix.f16", p, [p] {
    ItemKernel k("mma_from_shared", 32, p.in_bytes(), p.c_bytes());
    U32 lane = k.lane(), top = k.constant(0u);
    auto a = k.shared<f16>(16 * 16), b = k.shared<f16>(16 * 8), d = k.shared<f16>(16 * 8);
    store_vec((a + lane * 8u).as<uint32_t>(), load_vec<4>((k.in + lane * 16u).as<uint32_t>()));
    store_vec((b + lane * 4u).as<uint32_t>(), load_vec<2>((k.in + p.b_at() + lane * 8u).as<uint32_t>()));
    k.barrier();
    // matrices of A: upper left, lower left, upper right, lower right; of B: upper, lower
    Tile<f16, 16, 16> ta{load_matrices<4>(a + (lane % 16u * 16u + lane / 16u * 8u))};
    Tile<f16, 16, 8> tb{load_matrices<2>(b + lane % 16u * 8u, true)};
    Acc<f16, 16, 8> acc(k);
    load_accumulator(acc.var, k.in + p.c_at(), top, lane, 8);
    mma(acc, ta, tb);
    store_matrices(d + lane % 16u * 8u, std::array{bitcast<uint32_t>(acc.get(0)), bitcast<uint32_t>(acc.get(1))});
    k.barrier();
    store_vec((k.out + lane * 8u).as<uint32_t>(), load_vec<2>((d + lane * 4u).as<uint32_t>()));
    return k.finish();
  }));
}

}  // namespace

void add_matrix(std::vector<Case>& all) {
  using heddle::bf16;
  using heddle::e4m3;
  using heddle::e5m2;
  using heddle::f16;
  add_mma<float, f16, f16, 16, 8>(all);
  add_mma<float, f16, f16, 16, 16>(all);
  add_mma<f16, f16, f16, 16, 8>(all);
  add_mma<f16, f16, f16, 16, 16>(all);
  add_mma<float, bf16, bf16, 16, 8>(all);
  add_mma<float, bf16, bf16, 16, 16>(all);
  add_mma<float, tf32, tf32, 16, 4>(all);
  add_mma<float, tf32, tf32, 16, 8>(all);
  add_mma_integer<int8_t, int8_t>(all);
  add_mma_integer<int8_t, uint8_t>(all);
  add_mma_integer<uint8_t, int8_t>(all);
  add_mma_integer<uint8_t, uint8_t>(all);
  add_mma_fp8<e4m3, e4m3>(all);
  add_mma_fp8<e4m3, e5m2>(all);
  add_mma_fp8<e5m2, e4m3>(all);
  add_mma_fp8<e5m2, e5m2>(all);

  for (bool transpose : {false, true}) {
    add_ldmatrix<1>(all, transpose);
    add_ldmatrix<2>(all, transpose);
    add_ldmatrix<4>(all, transpose);
    add_stmatrix<1>(all, transpose);
    add_stmatrix<2>(all, transpose);
    add_stmatrix<4>(all, transpose);
  }
  add_mma_from_shared(all);

  add_wgmma(all);
}

}  // namespace heddle::ptx::cases
