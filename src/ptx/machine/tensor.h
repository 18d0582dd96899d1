// Where the elements of a tensor copy's box lie, in global and in shared memory.
#pragma once
#include <string>

#include "ptx/tensor_map.h"

namespace heddle::ptx::machine {

// Empty if the map is one the hardware would take, else what is wrong with it.
std::string wrong_with(const TensorMapSpec& map);
// The same for a store of the box at these coordinates, which is held to more than a load: see tensor.cpp.
std::string wrong_with_store(const TensorMapSpec& map, const std::array<int32_t, 5>& at);

inline uint32_t box_bytes(const TensorMapSpec& map) {
  uint32_t n = size_of(map.type);
  for (uint32_t d = 0; d < map.rank; ++d) n *= map.box[d];
  return n;
}

// f(shared offset, global address, bytes, inside) for every run of neighbours in the box: up to 16 bytes long, because
// the swizzle permutes chunks of 16. Elements outside the tensor are not `inside`. The pattern follows the bits of the
// shared address, so a box that begins inside a pattern continues it.
template <class F>
void for_each_chunk(const TensorMapSpec& map, std::array<int32_t, 5> at, uint32_t offset, F f) {
  const uint32_t size = size_of(map.type), row = map.box[0] * size;
  std::array<uint32_t, 5> i{};  // position in the box; i[0] in bytes
  for (uint32_t linear = 0; linear < box_bytes(map);) {
    // A run ends with the 16-byte chunk, with the row, and at the tensor's edge.
    int64_t first = int64_t(at[0]) + i[0] / size, edge = int64_t(map.size[0]);
    uint32_t n = std::min(16 - linear % 16, row - i[0]);
    bool inside = first >= 0 && first < edge;
    if (inside)
      n = uint32_t(std::min<int64_t>(n, (edge - first) * size));
    else if (first < 0)
      n = uint32_t(std::min<int64_t>(n, -first * size));
    uint64_t address = map.address + uint64_t(first) * size;
    for (uint32_t d = 1; d < map.rank; ++d) {
      int64_t c = int64_t(at[d]) + i[d];
      inside = inside && c >= 0 && c < int64_t(map.size[d]);
      address += uint64_t(c) * map.stride[d];
    }
    f(swizzled(map.swizzle, offset + linear), address, n, inside);
    linear += n;
    i[0] += n;
    for (uint32_t d = 0; d + 1 < map.rank && i[d] == (d ? map.box[d] : row); ++d) {
      i[d] = 0;
      ++i[d + 1];
    }
  }
}

}  // namespace heddle::ptx::machine
