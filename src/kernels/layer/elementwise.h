// Kernels in which a thread needs only its own values: activations and gates, the bias, scale and soft-cap of logits,
// and the plain read of memory that other kernels are measured against.
#pragma once
#include <compare>

#include "base/f16.h"
#include "kernels/spec/field.h"
#include "kernels/spec/functions.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// Kernels in which a thread needs only its own values: activations and gates, the residual add, and the bias, scale and
// soft-cap of logits.

// y = act(gate) * up, or act(gate). Rows have strides, so that gate and up may be the halves of one row. y may be gate.
// With out = bf16 the result goes to `narrow` instead of y, for products that read bf16.
struct Gate {
  static constexpr std::string_view name = "gate", summary = "activation of rows of f32, alone or times a second input",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y, gate, up;  // (rows, cols); up is not read without a product
    uint32_t rows, cols;
    uint32_t y_stride, gate_stride, up_stride;  // values from row to row; y_stride is also that of `narrow`
    ptx::DevicePtr<bf16> narrow{};              // (rows, cols)
    ptx::DevicePtr<float> weights{};            // (rows); read with `weighted`
    float xielu_positive = 0, xielu_negative = 0, xielu_beta = 0, xielu_epsilon = 0;  // read with that activation
  };
  uint32_t threads = 256;
  uint32_t vec = 1;  // values per access; cols, strides and addresses must be multiples of it
  uint32_t act = silu;
  uint32_t times_up = 1;  // no: act(gate) alone
  uint32_t weighted = 0;  // each row times its weight
  uint32_t out = out_f32;
  uint32_t chained = 0;
  enum : uint32_t { out_f32, out_bf16 };
  enum : uint32_t {
    silu = act_silu,
    gelu_erf = act_gelu_erf,
    gelu_tanh = act_gelu_tanh,
    relu_squared = act_relu_squared,
    clamped_swiglu = act_clamped_swiglu,
    xielu = act_xielu
  };
  auto operator<=>(const Gate&) const = default;
  static auto fields() {
    return std::tuple(
        Field<Gate>{"threads", &Gate::threads, range(32, 1024, 32)}, Field<Gate>{"vec", &Gate::vec, one_of({1, 2, 4})},
        Field<Gate>{"act", &Gate::act, activations()}, Field<Gate>{"times_up", &Gate::times_up, yes_or_no()},
        Field<Gate>{"weighted", &Gate::weighted, yes_or_no()}, Field<Gate>{"out", &Gate::out, named({"f32", "bf16"})},
        Field<Gate>{"chained", &Gate::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// y = (y + bias) * scale, or cap * tanh((y + bias) * scale / cap), in place.
struct SoftcapRows {
  static constexpr std::string_view name = "softcap_rows", summary = "bias, scale and soft-cap of rows of logits",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y;     // (rows, cols)
    ptx::DevicePtr<float> bias;  // (cols); read with `bias`
    uint32_t rows, cols;
    uint32_t stride;  // values from row to row
    float scale = 1;
    float cap = 0;  // read with `cap`; above 0
  };
  uint32_t threads = 256;
  uint32_t bias = 0;
  uint32_t cap = 1;
  uint32_t chained = 0;
  auto operator<=>(const SoftcapRows&) const = default;
  static auto fields() {
    using F = Field<SoftcapRows>;
    return std::tuple(F{"threads", &SoftcapRows::threads, range(32, 1024, 32)},
                      F{"bias", &SoftcapRows::bias, yes_or_no()}, F{"cap", &SoftcapRows::cap, yes_or_no()},
                      F{"chained", &SoftcapRows::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// y = x * w, column by column.
struct ScaleRows {
  static constexpr std::string_view name = "scale_rows", summary = "rows of f32 times a row of weights",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y, x;  // (rows, cols)
    ptx::DevicePtr<float> w;     // (cols)
    uint32_t rows, cols;
  };
  uint32_t threads = 256;
  uint32_t chained = 0;
  auto operator<=>(const ScaleRows&) const = default;
  static auto fields() {
    using F = Field<ScaleRows>;
    return std::tuple(F{"threads", &ScaleRows::threads, range(32, 1024, 32)},
                      F{"chained", &ScaleRows::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// Reads memory at full speed: the limit that every other kernel is measured against.

// sum += all words of data (modulo 2^32). The sum makes the result checkable and keeps the loads from being removed.
struct StreamRead {
  static constexpr std::string_view name = "stream_read", summary = "sum of all words: the streaming limit",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint32_t> sum;   // one word, added to
    ptx::DevicePtr<uint32_t> data;  // 16-byte aligned
    uint64_t words;                 // a multiple of 4
    uint32_t blocks;                // of the grid: SMs times blocks per SM
  };
  uint32_t threads = 512;
  uint32_t loads = 8;  // of 16 bytes, in flight per thread
  auto operator<=>(const StreamRead&) const = default;
  static auto fields() {
    return std::tuple(Field<StreamRead>{"threads", &StreamRead::threads, range(32, 1024, 32)},
                      Field<StreamRead>{"loads", &StreamRead::loads, one_of({1, 2, 4, 8})});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
