// A gated activation of which only the largest values of a row are left: those above a cutoff that follows from the
// row.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "kernels/spec/functions.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// y = act(max(gate - from, 0)) * up with from = mean(gate) + cutoff * deviation(gate), both over the row. One block per
// row. y may be gate.
struct CutGate {
  static constexpr std::string_view name = "cut_gate",
                                    summary = "activation of the largest values of a row, times a second input",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y, gate, up;  // (rows, cols)
    uint32_t rows, cols;
    uint32_t y_stride, in_stride;  // values from row to row; in_stride: of gate and up
    float cutoff;
    float xielu_positive = 0, xielu_negative = 0, xielu_beta = 0, xielu_epsilon = 0;  // read with that activation
  };
  uint32_t threads = 256;
  uint32_t act = act_gelu_tanh;
  uint32_t chained = 0;
  auto operator<=>(const CutGate&) const = default;
  static auto fields() {
    using F = Field<CutGate>;
    return std::tuple(F{"threads", &CutGate::threads, range(32, 1024, 32)}, F{"act", &CutGate::act, activations()},
                      F{"chained", &CutGate::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
