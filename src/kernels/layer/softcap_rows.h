// What is done to logits after their product.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

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

}  // namespace heddle::kernels
