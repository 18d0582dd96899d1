// Where matrices are cut, and the cuts themselves: rows as views, columns at the borders of blocks as copies.
#pragma once
#include <cstdint>
#include <vector>

#include "model/model.h"

namespace heddle::model {

struct Range {
  uint64_t first = 0, count = 0;
  bool operator==(const Range&) const = default;
};
// In the order in which a rank has them.
using Ranges = std::vector<Range>;
uint64_t count_of(const Ranges& ranges);
// Of things that have `size` values each, the values.
Ranges times(const Ranges& ranges, uint64_t size);
// The same ranges, each moved by `by`.
Ranges moved(Ranges ranges, uint64_t by);
Ranges joined(Ranges ranges, const Ranges& more);

// What a rank has of `count` things: as even as can be, the first ranks have one more.
Range deal(uint64_t count, uint32_t rank, uint32_t ranks);
// The same in units of `unit` things, of which the last may be smaller. No rank has none: see can_deal().
Range deal_in_units(uint64_t count, uint64_t unit, uint32_t rank, uint32_t ranks);
inline bool can_deal(uint64_t count, uint64_t unit, uint32_t ranks) { return (count + unit - 1) / unit >= ranks; }
// The unit of `cols` columns of a format: whole blocks, and 32 columns where there are enough of them for all ranks,
// so that rows of floats stay aligned.
uint64_t column_unit(quant::Format format, uint64_t cols, uint32_t ranks);
// How many things of `size` values each make a multiple of `values` values.
uint64_t things_for(uint64_t values, uint64_t size);

// Heads of which several share a key head: those of attention, and those with a state.
struct HeadShape {
  uint64_t heads = 0, key_heads = 0;
  uint64_t unit = 1;   // heads that stay together
  bool tiled = false;  // as of Recurrence
  uint64_t group() const { return heads / key_heads; }
  // Key heads whose heads are whole units.
  uint64_t key_unit() const;
};
struct RankHeads {
  Ranges heads, keys;  // as many heads for each of the keys, of which some may be copies
  uint32_t copy = 0;   // how many ranks before this one have these keys
  bool operator==(const RankHeads&) const = default;
};
// The heads of each rank, by key heads where there are enough units of `key_unit` for all ranks. Otherwise key heads
// are copied, and the heads of each are divided. Empty: not all ranks can have some.
std::vector<RankHeads> deal_heads(const HeadShape& shape, uint64_t key_unit, uint32_t ranks);

// Cuts of matrices, which may be absent, for a model of its own. A matrix without data, of which only the shape is
// known, is cut without it.
class Cuts {
 public:
  // A view where the rows lie together; otherwise they are copied.
  Matrix rows(const Matrix& matrix, const Ranges& ranges);
  Matrix columns(const Matrix& matrix, const Ranges& ranges);
  // Of each matrix of the stack, these rows.
  Experts rows(const Experts& experts, const Ranges& ranges);
  static Vector values(const Vector& all, const Ranges& ranges);

  std::vector<std::vector<uint8_t>> storage;  // of the copies

 private:
  // `rows` rows of `parts` of bytes, each from a row of `stride` bytes.
  std::span<const uint8_t> copy(std::span<const uint8_t> from, uint64_t rows, uint64_t stride, const Ranges& parts);
};
// Of each matrix of the stack, all rows, of the matrices in the range.
Experts some_experts(const Experts& experts, const Range& range);

}  // namespace heddle::model
