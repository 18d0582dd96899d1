// All kernels for the vectors V.
#pragma once
#include "cpu/kernels/attention.h"
#include "cpu/kernels/floats.h"
#include "cpu/kernels/product_table.h"
#include "cpu/kernels/recurrence.h"

namespace heddle::cpu {
namespace {

template <class V>
Isa make_isa(const char* name) {
  Isa isa{};
  isa.name = name;
  isa.tile_rows = uint32_t(tile_rows<V>);
  fill_products<V>(isa);
  fill_floats<V>(isa);
  fill_attention<V>(isa);
  fill_recurrence<V>(isa);
  return isa;
}

}  // namespace
}  // namespace heddle::cpu
