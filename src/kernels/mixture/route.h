// Which experts a row goes to.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// The `used` largest logits of each row, largest first, equal ones by the lower id, and their shares: softmax over all
// experts, or over those picked. One warp per row. NaN comes last; the ids of a row are different ones whatever the
// logits are.
struct Route {
  static constexpr std::string_view name = "route", summary = "the experts of each row and their shares",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint32_t> ids;   // (rows, used)
    ptx::DevicePtr<float> weights;  // (rows, used)
    ptx::DevicePtr<float> logits;   // (rows, experts)
    uint32_t rows, experts, used;   // used <= experts <= largest, used at most 32
    uint32_t logits_stride;         // values from row to row
  };
  uint32_t largest = 512;   // number of experts: fewer are found faster with less
  uint32_t sum_to_one = 0;  // the shares of those picked
  uint32_t chained = 0;
  auto operator<=>(const Route&) const = default;
  static auto fields() {
    return std::tuple(Field<Route>{"largest", &Route::largest, one_of({32, 64, 128, 256, 512})},
                      Field<Route>{"sum_to_one", &Route::sum_to_one, yes_or_no()},
                      Field<Route>{"chained", &Route::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
