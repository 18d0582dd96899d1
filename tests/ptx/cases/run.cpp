#include "tests/ptx/cases/run.h"

#include <algorithm>

namespace heddle::ptx::cases {

Grid grid(const Case& c, uint32_t items) {
  return {.x = (items + c.items_per_block - 1) / c.items_per_block * c.blocks_per_item};
}

std::vector<uint8_t> make_inputs(const Case& c, uint32_t items, uint64_t seed) {
  Rng rng(seed);
  std::vector<uint8_t> in(size_t(items) * c.in_bytes);
  for (uint32_t i = 0; i < items; ++i) c.fill(rng, i, in.data() + size_t(i) * c.in_bytes);
  return in;
}

std::vector<uint8_t> interpret_case(const Case& c, const Kernel& kernel, const std::vector<uint8_t>& in, uint32_t items,
                                    InterpretOptions options) {
  Memory memory;
  const size_t out_bytes = size_t(items) * c.out_bytes;
  Args args{.in = memory.put(in), .out = memory.alloc<uint8_t>(out_bytes), .items = items, .map_in = {}, .map_out = {}};
  if (c.map_in) args.map_in = interpreter_map(c.map_in(args.in.address, items));
  if (c.map_out) args.map_out = interpreter_map(c.map_out(args.out.address, items));
  options.dynamic_shared_bytes = c.dynamic_shared_bytes;
  interpret(kernel, grid(c, items), args, memory, options);
  return memory.get(args.out, out_bytes);
}

std::vector<uint8_t> reference(const Case& c, const std::vector<uint8_t>& in, uint32_t items) {
  std::vector<uint8_t> out(size_t(items) * c.out_bytes, untouched);
  for (uint32_t i = 0; i < items; ++i)
    c.reference(in.data() + size_t(i) * c.in_bytes, out.data() + size_t(i) * c.out_bytes);
  return out;
}

namespace {

std::string hex(const uint8_t* p, size_t from, size_t bytes) {
  std::string s;
  for (size_t i = from; i < std::min(from + 16, bytes); ++i) s += fmt::format("{:02x}", p[i]);
  return s;
}
// Bit for bit.
std::string difference(const Case& c, const uint8_t* in, const uint8_t* got, const uint8_t* want) {
  const size_t at = size_t(std::mismatch(got, got + c.out_bytes, want).first - got);
  if (at == c.out_bytes) return "";
  const size_t from = at / 4 * 4;
  return fmt::format("byte {} of {}: got {}, expected {} (input {}...)", at, c.out_bytes, hex(got, from, c.out_bytes),
                     hex(want, from, c.out_bytes), hex(in, 0, c.in_bytes));
}

}  // namespace

Difference compare(const Case& c, const std::vector<uint8_t>& in, const std::vector<uint8_t>& got,
                   const std::vector<uint8_t>& want, uint32_t items) {
  Difference d;
  for (uint32_t i = 0; i < items; ++i) {
    const uint8_t *x = in.data() + size_t(i) * c.in_bytes, *g = got.data() + size_t(i) * c.out_bytes,
                  *w = want.data() + size_t(i) * c.out_bytes;
    const std::string why = c.compare ? c.compare(x, g, w) : difference(c, x, g, w);
    if (why.empty()) continue;
    if (d.mismatches++ == 0) d.first = fmt::format("item {}: {}", i, why);
  }
  return d;
}

}  // namespace heddle::ptx::cases
