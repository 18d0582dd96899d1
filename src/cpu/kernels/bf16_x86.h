// BF16 weights on x86-64 with AVX-512: what its instruction sets with products of bf16 have in common.
#pragma once
#include "cpu/isa.h"
#include "cpu/vectors_zmm.h"

namespace heddle::cpu {
namespace {

// What is not finite becomes a NaN.
void bf16_of_row(const float* x, uint32_t cols, int8_t* to) {
  const auto sixteen = [&](uint32_t c) HEDDLE_INLINE_LAMBDA {
    const auto values = load<__m512>(x + c);
    return values + (values - values);
  };
  for (uint32_t c = 0; c < cols; c += 32) store(to + 2 * c, _mm512_cvtne2ps_pbh(sixteen(c + 16), sixteen(c)));
}

// `few` takes any number of rows.
void put_bf16(Isa& isa, decltype(TileKernels::few) few, decltype(TileKernels::few_scratch) scratch = nullptr) {
  TileKernels& kernels = isa.tiles[unsigned(quant::Format::bf16)];
  kernels = {};
  kernels.few = few;
  kernels.max_few = UINT32_MAX;
  kernels.few_scratch = scratch;
  kernels.slab = {.values = 32, .group = 0, .mins = Mins::none, .is_signed = true, .offset = 0, .bytes = 64};
  isa.bf16_of_row = bf16_of_row;
}

}  // namespace
}  // namespace heddle::cpu
