// The residual stream's additions.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// y = a + b, or a + scale * b. y may be a or b. Any size and alignment; 16-byte accesses where all three are aligned.
struct ResidualAdd {
  static constexpr std::string_view name = "residual_add", summary = "y = a + b or a + scale * b, any number of f32",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y, a, b;  // (n)
    uint32_t n;
    float scale;  // scaled: of b
  };
  uint32_t threads = 256;
  uint32_t scaled = 0;
  uint32_t chained = 0;
  auto operator<=>(const ResidualAdd&) const = default;
  static auto fields() {
    return std::tuple(Field<ResidualAdd>{"threads", &ResidualAdd::threads, range(32, 1024, 32)},
                      Field<ResidualAdd>{"scaled", &ResidualAdd::scaled, yes_or_no()},
                      Field<ResidualAdd>{"chained", &ResidualAdd::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
