// Probes of the matrix units: every shape and type of mma and wgmma, and what goes with them.
#include "tests/ptx/instructions/instructions.h"

namespace heddle::ptx::instructions {
namespace {

using heddle::bf16;
using heddle::f16;

template <class T, uint32_t Rows, uint32_t Cols>
Tile<T, Rows, Cols> tile(Stage& s) {
  Tile<T, Rows, Cols> t;
  for (auto& r : t.reg) r = s.value<uint32_t>();
  return t;
}

template <class T, class A, class B, uint32_t M, uint32_t N, uint32_t K>
void mma_shape(Probes& all) {
  all.push_back([](Stage& s) {
    Acc<T, M, N> d(s);
    mma(d, tile<A, M, K>(s), tile<B, K, N>(s));
  });
}

template <class A, class B>
void mma_integers(Probes& all) {
  mma_shape<int32_t, A, B, 8, 8, 16>(all);
  mma_shape<int32_t, A, B, 16, 8, 16>(all);
  mma_shape<int32_t, A, B, 16, 8, 32>(all);
}

template <class A, class B>
void mma_fp8(Probes& all) {
  mma_shape<float, A, B, 16, 8, 32>(all);
  mma_shape<float, A, B, 16, 8, 16>(all);
  mma_shape<f16, A, B, 16, 8, 32>(all);
  mma_shape<f16, A, B, 16, 8, 16>(all);
}

void mmas(Probes& all) {
  mma_shape<float, f16, f16, 16, 8, 8>(all);
  mma_shape<f16, f16, f16, 16, 8, 8>(all);
  mma_shape<float, f16, f16, 16, 8, 16>(all);
  mma_shape<f16, f16, f16, 16, 8, 16>(all);
  mma_shape<float, bf16, bf16, 16, 8, 8>(all);
  mma_shape<float, bf16, bf16, 16, 8, 16>(all);
  mma_shape<float, tf32, tf32, 16, 8, 4>(all);
  mma_shape<float, tf32, tf32, 16, 8, 8>(all);
  mma_integers<int8_t, int8_t>(all);
  mma_integers<int8_t, uint8_t>(all);
  mma_integers<uint8_t, int8_t>(all);
  mma_integers<uint8_t, uint8_t>(all);
  mma_fp8<e4m3, e4m3>(all);
  mma_fp8<e4m3, e5m2>(all);
  mma_fp8<e5m2, e4m3>(all);
  mma_fp8<e5m2, e5m2>(all);
}

template <size_t N>
void matrices(Probes& all) {
  for (bool transpose : {false, true}) {
    all.push_back([=](Stage& s) { load_matrices<N>(s.shared_at<f16>(), transpose); });
    all.push_back([=](Stage& s) {
      std::array<U32, N> v;
      for (auto& r : v) r = s.value<uint32_t>();
      store_matrices(s.shared_at<f16>().offset(8), v, transpose);
    });
  }
}

template <class T, class A, class B, uint32_t N>
void wgmma_shape(Probes& all, WgmmaOptions o = {}) {
  all.push_back([o](Stage& s) {
    GroupAcc<T, N> d(s);
    wgmma<A, B>(d, s.value<uint64_t>(), s.value<uint64_t>(), s.value<bool>(), o);
  });
  if (o.transpose_a) return;  // A in registers has no layout
  all.push_back([o](Stage& s) {
    GroupAcc<T, N> d(s);
    std::array<U32, 4> a;
    for (auto& r : a) r = s.value<uint32_t>();
    wgmma<A, B>(d, a, s.value<uint64_t>(), true, o);
  });
}

template <class T, class A, class B>
void wgmma_signs(Probes& all) {
  for (bool a : {false, true})
    for (bool b : {false, true}) wgmma_shape<T, A, B, 8>(all, {.negate_a = a, .negate_b = b});
}

template <class T, class A>
void wgmma_layouts(Probes& all) {
  wgmma_signs<T, A, A>(all);
  for (bool a : {false, true})
    for (bool b : {false, true}) wgmma_shape<T, A, A, 16>(all, {.transpose_a = a, .transpose_b = b});
}

// Every N from 8 to 256 in steps of 8.
template <class T, class A, uint32_t... I>
void wgmma_widths(Probes& all, std::integer_sequence<uint32_t, I...>) {
  (wgmma_shape<T, A, A, 8 * (I + 1)>(all), ...);
}
// Integers: 8, 16, 24, 32, then steps of 16.
template <class A, class B, uint32_t... N>
void wgmma_integers(Probes& all, std::integer_sequence<uint32_t, N...>) {
  (wgmma_shape<int32_t, A, B, N>(all), ...);
}

void wgmmas(Probes& all) {
  wgmma_layouts<float, f16>(all);
  wgmma_layouts<f16, f16>(all);
  wgmma_layouts<float, bf16>(all);
  wgmma_signs<float, tf32, tf32>(all);
  types<float, f16>([&]<class T>() {
    wgmma_signs<T, e4m3, e4m3>(all);
    wgmma_signs<T, e4m3, e5m2>(all);
    wgmma_signs<T, e5m2, e4m3>(all);
    wgmma_signs<T, e5m2, e5m2>(all);
  });
  wgmma_widths<float, f16>(all, std::make_integer_sequence<uint32_t, 32>());
  wgmma_integers<int8_t, int8_t>(all, std::integer_sequence<uint32_t, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160,
                                                            176, 192, 208, 224, 240, 256>());
  wgmma_integers<int8_t, uint8_t>(all, std::integer_sequence<uint32_t, 8>());
  wgmma_integers<uint8_t, int8_t>(all, std::integer_sequence<uint32_t, 8>());
  wgmma_integers<uint8_t, uint8_t>(all, std::integer_sequence<uint32_t, 8>());
  all.push_back([](Stage& s) { wgmma_fence(s); });
  all.push_back([](Stage& s) { wgmma_commit(s); });
  all.push_back([](Stage& s) { wgmma_wait(s, 1); });
  all.push_back([](Stage& s) { release_registers(s, 160); });
  all.push_back([](Stage& s) { take_registers(s, 240); });
}

}  // namespace

void add_matrix(Probes& all) {
  mmas(all);
  matrices<1>(all);
  matrices<2>(all);
  matrices<4>(all);
  wgmmas(all);
}

const Probes& all_probes() {
  static const Probes all = [] {
    Probes p;
    add_arithmetic(p);
    add_conversions(p);
    add_memory(p);
    add_threads(p);
    add_async(p);
    add_matrix(p);
    return p;
  }();
  return all;
}

}  // namespace heddle::ptx::instructions
