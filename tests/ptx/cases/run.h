// Runs a case: makes its inputs, interprets it, compares outputs item by item. The GPU program uses the same parts.
#pragma once
#include "ptx/interpret.h"
#include "tests/ptx/cases/case.h"

namespace heddle::ptx::cases {

// What output buffers hold before the kernel runs, on the CPU and on a GPU: items may leave bytes untouched.
inline constexpr uint8_t untouched = 0xCC;

Grid grid(const Case& c, uint32_t items);
// (items, in_bytes)
std::vector<uint8_t> make_inputs(const Case& c, uint32_t items, uint64_t seed);
// (items, out_bytes)
std::vector<uint8_t> interpret_case(const Case& c, const Kernel& kernel, const std::vector<uint8_t>& in, uint32_t items,
                                    InterpretOptions options = {});  // the dynamic shared memory is the case's
std::vector<uint8_t> reference(const Case& c, const std::vector<uint8_t>& in, uint32_t items);

struct Difference {
  uint32_t mismatches = 0;
  std::string first;         // what is wrong with the first of them, in words
  double largest_error = 0;  // relative, over all values; 0 where a case is compared bit for bit
};
Difference compare(const Case& c, const std::vector<uint8_t>& in, const std::vector<uint8_t>& got,
                   const std::vector<uint8_t>& want, uint32_t items);

}  // namespace heddle::ptx::cases
