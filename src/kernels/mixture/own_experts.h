// Of the experts that were picked for each row, those that this rank has: others are other ranks'.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// Ids become those of this rank's experts, counted from its first. A pick of another rank's has a weight of 0 here.
// With `marks` its id becomes `count`, for group_rows to skip; otherwise that of the row's first pick that this rank
// has, or 0: products then read no expert that they would not read anyway. One warp per row.
struct OwnExperts {
  static constexpr std::string_view name = "own_experts", summary = "the picks of each row that a rank's experts have",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint32_t> ids;   // (rows, used)
    ptx::DevicePtr<float> weights;  // (rows, used)
    uint32_t rows, used;            // used at most 32
    uint32_t first, count;          // of the rank's experts
  };
  uint32_t marks = 0;
  uint32_t chained = 0;
  auto operator<=>(const OwnExperts&) const = default;
  static auto fields() {
    return std::tuple(Field<OwnExperts>{"marks", &OwnExperts::marks, yes_or_no()},
                      Field<OwnExperts>{"chained", &OwnExperts::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
