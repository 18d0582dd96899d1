// The activation between the products of a feed-forward layer, alone or times a second input.
#pragma once
#include <compare>

#include "base/f16.h"
#include "kernels/layer/activation.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// y = act(gate) * up, or act(gate). Rows have strides, so that gate and up may be the halves of one row. y may be gate.
// With out = bf16 the result goes to `narrow` instead of y, for products that read it so.
struct Gate {
  static constexpr std::string_view name = "gate", summary = "activation of rows of f32, alone or times a second input",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y, gate, up;  // (rows, cols); up is not read without a product
    uint32_t rows, cols;
    uint32_t y_stride, gate_stride, up_stride;  // values from row to row; y_stride is also that of `narrow`
    ptx::DevicePtr<bf16> narrow{};              // (rows, cols)
  };
  uint32_t threads = 256;
  uint32_t vec = 1;  // values per access: cols, strides and addresses must suit
  uint32_t act = silu;
  uint32_t times_up = 1;  // no: act(gate) alone
  uint32_t out = out_f32;
  uint32_t chained = 0;
  enum : uint32_t { out_f32, out_bf16 };
  enum : uint32_t { silu = act_silu, gelu_erf = act_gelu_erf, gelu_tanh = act_gelu_tanh };
  auto operator<=>(const Gate&) const = default;
  static auto fields() {
    return std::tuple(
        Field<Gate>{"threads", &Gate::threads, range(32, 1024, 32)}, Field<Gate>{"vec", &Gate::vec, one_of({1, 2, 4})},
        Field<Gate>{"act", &Gate::act, activations()}, Field<Gate>{"times_up", &Gate::times_up, yes_or_no()},
        Field<Gate>{"out", &Gate::out, named({"f32", "bf16"})}, Field<Gate>{"chained", &Gate::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
