// The formats that kernels read. quant/ knows more: f64 and integers, which a file may hold too.
#pragma once
#include <array>
#include <span>

#include "kernels/spec/field.h"
#include "quant/format.h"

namespace heddle::kernels {

// Read from tiles (product/tile.h).
inline constexpr std::array known_formats{
    quant::Format::f32,    quant::Format::f16,   quant::Format::bf16,    quant::Format::q4_0,   quant::Format::q4_1,
    quant::Format::q5_0,   quant::Format::q5_1,  quant::Format::q8_0,    quant::Format::q2_k,   quant::Format::q3_k,
    quant::Format::q4_k,   quant::Format::q5_k,  quant::Format::q6_k,    quant::Format::iq4_nl, quant::Format::iq4_xs,
    quant::Format::mxfp4,  quant::Format::nvfp4, quant::Format::iq1_s,   quant::Format::iq1_m,  quant::Format::iq2_xxs,
    quant::Format::iq2_xs, quant::Format::iq2_s, quant::Format::iq3_xxs, quant::Format::iq3_s,  quant::Format::tq1_0,
    quant::Format::tq2_0,  quant::Format::q1_0,  quant::Format::q2_0,    quant::Format::q8_1,   quant::Format::q8_k};

// Read by gemv in the layout of the file.
inline constexpr std::array gemv_formats{
    quant::Format::f32,  quant::Format::f16,    quant::Format::bf16,   quant::Format::q4_0,
    quant::Format::q4_1, quant::Format::q5_0,   quant::Format::q5_1,   quant::Format::q8_0,
    quant::Format::q2_k, quant::Format::q3_k,   quant::Format::q4_k,   quant::Format::q5_k,
    quant::Format::q6_k, quant::Format::iq4_nl, quant::Format::iq4_xs, quant::Format::mxfp4};

// The field `format` of a spec: a quant::Format by its name.
inline Allowed weight_formats(std::span<const quant::Format> formats = known_formats) {
  Allowed a;
  for (quant::Format f : formats) {
    a.values.push_back(uint32_t(f));
    a.names.emplace_back(quant::name(f));
  }
  a.other_name = [](uint32_t v) { return v < quant::format_count ? quant::name(quant::Format(v)) : ""; };
  return a;
}

}  // namespace heddle::kernels
