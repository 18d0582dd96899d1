// The formats that kernels read. quant/ knows more: a file may hold what no kernel reads.
#pragma once
#include <array>

#include "quant/format.h"

namespace heddle::kernels {

inline constexpr std::array known_formats{
    quant::Format::f32,  quant::Format::f16,    quant::Format::bf16,   quant::Format::q4_0,
    quant::Format::q4_1, quant::Format::q5_0,   quant::Format::q5_1,   quant::Format::q8_0,
    quant::Format::q2_k, quant::Format::q3_k,   quant::Format::q4_k,   quant::Format::q5_k,
    quant::Format::q6_k, quant::Format::iq4_nl, quant::Format::iq4_xs, quant::Format::mxfp4};

}  // namespace heddle::kernels
