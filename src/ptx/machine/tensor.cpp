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
  // Seen on an H200: shorter rows lie `span` bytes apart, so that the box takes more shared memory than its bytes.
  if (m.swizzle != Swizzle::none && row != span)
    return fmt::format("a row of the box has {} bytes, not the {} of the swizzle", row, span);
  return {};
}

std::string wrong_with_store(const TensorMapSpec& m, const std::array<int32_t, 5>& at) {
  // Both seen on an H200: below 0 a store stops with an illegal instruction (a load reads zeros there), and where rows
  // end inside 16 bytes it writes all 16.
  for (uint32_t d = 0; d < m.rank; ++d)
    if (at[d] < 0) return fmt::format("coordinate {} of a store is {}: only a load may begin below 0", d, at[d]);
  const uint64_t size = size_of(m.type), row = m.size[0] * size, begin = uint64_t(at[0]) * size;
  if (row % 16 && begin < row && begin + m.box[0] * size > row)
    return fmt::format("a store across the end of rows of {} bytes, not a multiple of 16, would write behind it", row);
  return {};
}

}  // namespace heddle::ptx::machine
