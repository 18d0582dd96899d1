// A mixture of experts: which experts a row goes to, and how their results come together.
#pragma once
#include <compare>

#include "kernels/mixture/pick_experts.h"
#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// The experts of each row by their logits, and their weights: see pick_experts.h. One warp per row. The ids of a row
// are different ones whatever the logits are.
struct Route {
  static constexpr std::string_view name = "route", summary = "the experts of each row and their shares",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint32_t> ids;          // (rows, used)
    ptx::DevicePtr<float> weights;         // (rows, used)
    ptx::DevicePtr<float> logits;          // (rows, experts)
    uint32_t rows, experts, used;          // used <= experts <= largest, used at most 32
    uint32_t logits_stride;                // values from row to row
    ptx::DevicePtr<float> choice_bias{};   // (experts); read with choice_bias
    uint32_t groups = 0, groups_used = 0;  // with groups
    float scale = 1;                       // of the weights, with scaled
    float near = 0;                        // with sparsemixer
    ptx::DevicePtr<float> scales{};        // (experts), of the weights; read with each_scaled
  };
  uint32_t largest = 512;  // number of experts: fewer are found faster with less
  uint32_t score = score_softmax, choice_bias = 0, groups = no_groups;
  uint32_t sum_to_one = 0;  // the shares of those picked
  uint32_t scaled = 0, each_scaled = 0;
  uint32_t chained = 0;
  auto operator<=>(const Route&) const = default;
  static auto fields() {
    return std::tuple(Field<Route>{"largest", &Route::largest, one_of({32, 64, 128, 256, 512})},
                      Field<Route>{"score", &Route::score, score_kinds()},
                      Field<Route>{"choice_bias", &Route::choice_bias, yes_or_no()},
                      Field<Route>{"groups", &Route::groups, group_kinds()},
                      Field<Route>{"sum_to_one", &Route::sum_to_one, yes_or_no()},
                      Field<Route>{"scaled", &Route::scaled, yes_or_no()},
                      Field<Route>{"each_scaled", &Route::each_scaled, yes_or_no()},
                      Field<Route>{"chained", &Route::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// out = scale * (sum of weights[row, j] * y[row, j] [+ sigmoid(shared_gate[row]) * shared[row]]), or out += that, added
// in the order of j. With by_slot row j of y is y[slots[row, j]]; with `skips` it is left out where that is ~0. No j:
// the shared expert alone. Not weighted: all weights are 1.
struct Mix {
  static constexpr std::string_view name = "mix", summary = "the experts' results by their shares, into h",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> out;          // (rows, cols): h, or a buffer that a norm reads
    ptx::DevicePtr<float> y;            // (rows, used, cols); by_slot: (slots, cols)
    ptx::DevicePtr<float> weights;      // (rows, used); read with `weighted`
    ptx::DevicePtr<float> shared;       // (rows, cols); read with a shared expert
    ptx::DevicePtr<float> shared_gate;  // (rows), the same
    ptx::DevicePtr<uint32_t> slots;     // (rows, used); read with by_slot
    uint32_t rows, cols, used;
    uint32_t gate_stride = 1;  // values from row to row of shared_gate; 0: one for all rows
    float scale = 1;
  };
  uint32_t threads = 256;
  uint32_t vec = 1;      // columns of a thread; out, y and shared are aligned to as many values
  uint32_t add = 1;      // no: out is written
  uint32_t shared = 0;   // there is a shared expert
  uint32_t by_slot = 0;  // rows of y lie in the order of group_rows
  uint32_t weighted = 1;
  uint32_t skips = 0;  // with by_slot
  uint32_t chained = 0;
  auto operator<=>(const Mix&) const = default;
  static auto fields() {
    using F = Field<Mix>;
    return std::tuple(F{"threads", &Mix::threads, range(32, 1024, 32)}, F{"vec", &Mix::vec, one_of({1, 2, 4})},
                      F{"add", &Mix::add, yes_or_no()}, F{"shared", &Mix::shared, yes_or_no()},
                      F{"by_slot", &Mix::by_slot, yes_or_no()}, F{"weighted", &Mix::weighted, yes_or_no()},
                      F{"skips", &Mix::skips, yes_or_no()}, F{"chained", &Mix::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
