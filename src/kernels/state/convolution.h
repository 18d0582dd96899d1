// Causal convolutions of channels with their last inputs, which are a part of a sequence's state.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// y = silu(convolution(x) + bias), or without `silu` what is inside; with `gates` x is (b, c, v) and
// y = c * (convolution(b * v) + bias). A thread takes a channel of a part of a sequence's rows, row after row.
struct StateConvolution {
  static constexpr std::string_view name = "state_convolution",
                                    summary = "a causal convolution of each channel, with a state per sequence",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y;             // (rows, y_stride)
    ptx::DevicePtr<float> x;             // (rows, x_stride): channels, or three times as many
    ptx::DevicePtr<float> weight;        // (channels, width), of the oldest input first
    ptx::DevicePtr<float> bias;          // (channels); read with `bias`
    ptx::DevicePtr<float> state;         // (slots, slot_stride): (width - 1, channels), the oldest input first
    ptx::DevicePtr<uint32_t> runs;       // StateRun, 16-byte aligned
    ptx::DevicePtr<uint32_t> order;      // the row of each entry
    ptx::DevicePtr<uint32_t> positions;  // of each row; see load_run()
    uint64_t slot_stride;
    uint32_t run_count, channels;
    uint32_t x_stride, y_stride;
    uint32_t parts;  // into which the rows of each run are divided
  };
  uint32_t width = 4;
  uint32_t bias = 0;
  uint32_t silu = 1;
  uint32_t gates = 0;
  uint32_t threads = 128;
  uint32_t ahead = 8;  // rows that are read at once
  uint32_t chained = 0;
  auto operator<=>(const StateConvolution&) const = default;
  static auto fields() {
    using S = StateConvolution;
    using F = Field<S>;
    return std::tuple(F{"width", &S::width, range(2, 8)}, F{"bias", &S::bias, yes_or_no()},
                      F{"silu", &S::silu, yes_or_no()}, F{"gates", &S::gates, yes_or_no()},
                      F{"threads", &S::threads, range(32, 1024, 32)}, F{"ahead", &S::ahead, range(1, 16)},
                      F{"chained", &S::chained, yes_or_no()});
  }

  static constexpr uint32_t rows_of_part = 32;  // as many are worth a block

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
