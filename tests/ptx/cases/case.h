// One instruction (or a small group) as a testable case: a kernel, inputs, an independent reference, a bound.
// The same cases run in the interpreter (unit tests), through the assembler, and on a GPU against the interpreter.
#pragma once
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ptx/builder.h"
#include "tests/ptx/callable.h"

namespace heddle::ptx::cases {

struct Args {
  DevicePtr<uint8_t> in, out;
  uint32_t items;
  TensorMap map_in, map_out;  // filled where the case has specs for them
};

using Rng = std::mt19937_64;

// An item is what is checked at once: a thread's operands, a warp's 32 values, a block's tile. Item i reads
// in + i * in_bytes and writes out + i * out_bytes; the harness launches ceil(items / items_per_block) blocks, and a
// kernel with several items per block guards with `items`.
struct Case {
  std::string name;    // "add.rn.f32"
  std::string family;  // "arithmetic", "conversion", "warp", "memory", "async", "matrix"
  Callable<Kernel()> build;
  uint32_t in_bytes = 0, out_bytes = 0;
  uint32_t items_per_block = 128;
  // Makes one item's input. `index` counts items: low ones should be the special values, later ones random.
  Callable<void(Rng&, size_t index, uint8_t* in)> fill;
  // What the item must give, computed independently of the interpreter. (GPU runs compare with the interpreter.)
  Callable<void(const uint8_t* in, uint8_t* out)> reference;
  // Empty if `got` is acceptable where `want` is expected, else why not. Null: bit for bit.
  Callable<std::string(const uint8_t* in, const uint8_t* got, const uint8_t* want)> compare;
  std::string bound = "exact";  // in words, for the table: "2 ulp", "2^-22 relative", ...
  Type result = Type::none;     // type of the output's values, to report how far apart two are
  uint32_t fewest_items = 0;    // the fewest that a run on a GPU should do; 0: 10 000
  // For tensor copies: the maps over the whole input / output buffer.
  Callable<TensorMapSpec(uint64_t address, uint32_t items)> map_in, map_out;
  // Where an item is the work of a cluster: ceil(items / items_per_block) * blocks_per_item blocks are launched.
  uint32_t blocks_per_item = 1;
  uint32_t dynamic_shared_bytes = 0;  // shared memory that the launch sizes
};

// Each family in its own file.
void add_arithmetic(std::vector<Case>& all);
void add_bits(std::vector<Case>& all);  // of the family "arithmetic"
void add_conversions(std::vector<Case>& all);
void add_warp(std::vector<Case>& all);
void add_memory(std::vector<Case>& all);
void add_async(std::vector<Case>& all);
void add_matrix(std::vector<Case>& all);
const std::vector<Case>& all_cases();

}  // namespace heddle::ptx::cases
