// Softmax over rows of attention scores.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// Row r = head * queries + query has position offset + query and sees keys position - window + 1 ... position; what it
// does not see becomes 0, and so does a row that sees nothing or only -infinity. y may be x.
struct CausalSoftmax {
  static constexpr std::string_view name = "causal_softmax",
                                    summary = "softmax of score rows up to each row's position",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y, x;    // (rows, keys)
    uint32_t rows, queries, keys;  // rows: a multiple of queries
    int32_t offset;                // position of query 0, that is the keys before it
    uint32_t window;               // a row sees the last `window` keys; 0: all
    float scale;                   // of the scores
    float cap;                     // capped: cap * tanh(scale * score / cap) instead of scale * score
  };
  uint32_t warps = 4;  // per block
  uint32_t row_per = block;
  uint32_t capped = 0;
  uint32_t chained = 0;
  enum : uint32_t { warp, block };
  auto operator<=>(const CausalSoftmax&) const = default;
  static auto fields() {
    return std::tuple(Field<CausalSoftmax>{"warps", &CausalSoftmax::warps, range(1, 32)},
                      Field<CausalSoftmax>{"row_per", &CausalSoftmax::row_per, named({"warp", "block"})},
                      Field<CausalSoftmax>{"capped", &CausalSoftmax::capped, yes_or_no()},
                      Field<CausalSoftmax>{"chained", &CausalSoftmax::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
