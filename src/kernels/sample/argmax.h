// The largest logit of each row.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// ids[r * stride] = the first index of row r's largest value: what `sample` picks at temperature 0, including no_token
// where the row has NaN or +infinity, or only -infinity. Several blocks share a row; the last one to finish writes the
// result and restores the scratch memory.
struct Argmax {
  static constexpr std::string_view name = "argmax",
                                    summary = "index of each row's largest value, several blocks a row",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint32_t> ids;      // (rows, stride), the first of each
    ptx::DevicePtr<float> x;           // (rows, cols)
    ptx::DevicePtr<uint64_t> best;     // (rows), scratch: zeros before the first launch, zeros after each
    ptx::DevicePtr<uint32_t> arrived;  // (rows), the same
    uint32_t rows, cols;               // cols > 0, rows at most 65535
    uint32_t stride = 1;               // 2: the ids are those of Sampled
  };
  uint32_t threads = 256;
  uint32_t vec = 1;    // values per load; cols must be a multiple of it
  uint32_t loads = 4;  // per thread: a block takes threads * vec * loads columns
  uint32_t chained = 0;
  auto operator<=>(const Argmax&) const = default;
  static auto fields() {
    return std::tuple(Field<Argmax>{"threads", &Argmax::threads, range(32, 1024, 32)},
                      Field<Argmax>{"vec", &Argmax::vec, one_of({1, 2, 4})},
                      Field<Argmax>{"loads", &Argmax::loads, range(1, 16)},
                      Field<Argmax>{"chained", &Argmax::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
