#include "ptx/machine/tensor.h"

#include <fmt/format.h>

namespace heddle::ptx::machine {

std::string wrong_with(const TensorMapSpec& m) {
  if (m.rank < 1 || m.rank > 5) return fmt::format("rank {}, expected 1 to 5", m.rank);
  uint32_t size = size_of(m.type);
  if (!size) return "an element type without a size";
  if (m.address % 16) return fmt::format("address {:#x} is not a multiple of 16", m.address);
  for (uint32_t d = 0; d < m.rank; ++d) {
    if (!m.size[d] || m.size[d] > uint64_t(1) << 32) return fmt::format("dimension {} has {} elements", d, m.size[d]);
    if (!m.box[d] || m.box[d] > 256)
      return fmt::format("dimension {} of the box has {} elements, expected 1 to 256", d, m.box[d]);
    if (d && (m.stride[d] % 16 || m.stride[d] >= uint64_t(1) << 40))
      return fmt::format("stride {} of dimension {} is not a multiple of 16", m.stride[d], d);
  }
  uint32_t row = m.box[0] * size;
  if (row % 16) return fmt::format("a row of the box has {} bytes, not a multiple of 16", row);
  uint32_t span = m.swizzle == Swizzle::b32 ? 32 : m.swizzle == Swizzle::b64 ? 64 : 128;
  if (m.swizzle != Swizzle::none && row > span)
    return fmt::format("a row of the box has {} bytes, more than the {} of the swizzle", row, span);
  return {};
}

}  // namespace heddle::ptx::machine
