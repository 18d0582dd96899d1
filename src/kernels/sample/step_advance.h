// Between two steps of a decode batch: the picked tokens become the next step's input, without the host.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// Per row: token = picked id, position + 1, length + 1, sample step + 1, and history[step % ring][row] = picked. Then
// step + 1, after everything else is visible to the host and to other devices: a reader that sees the new step also
// sees its row of the history. One block. When chained, it waits but does not let the next kernel start early, because
// it writes what kernels read before they wait. Rows at positions from 2^31 on are not in use and stay as they are.
// Where nothing could be picked, the history has no_token and the next token is 0, a valid id.
struct StepAdvance {
  static constexpr std::string_view name = "step_advance", summary = "picked tokens become the input of the next step",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint32_t> picked;              // (rows) of Sampled, 8-byte aligned
    ptx::DevicePtr<uint32_t> tokens;              // (rows)
    ptx::DevicePtr<uint32_t> positions, lengths;  // (rows)
    ptx::DevicePtr<uint32_t> params;              // (rows) of SampleRow, 16-byte aligned
    ptx::DevicePtr<uint32_t> history;             // (ring, rows) of Sampled, 8-byte aligned
    ptx::DevicePtr<uint64_t> step;                // one number
    uint32_t rows, ring;                          // ring > 0
  };
  uint32_t chained = 0;
  auto operator<=>(const StepAdvance&) const = default;
  static auto fields() { return std::tuple(Field<StepAdvance>{"chained", &StepAdvance::chained, yes_or_no()}); }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
