// Where matrices are cut, and the cuts themselves: rows as views, columns as copies.
#pragma once
#include <cstdint>
#include <vector>

#include "model/model.h"

namespace heddle::model {

struct Slice {
  uint64_t first = 0, count = 0;
  bool operator==(const Slice&) const = default;
};
// In the order in which a rank has them.
using Slices = std::vector<Slice>;
uint64_t count_of(const Slices& slices);
// Of things that have `size` values each, the values.
Slices times(const Slices& slices, uint64_t size);
// The same slices, each moved by `by`.
Slices moved(Slices slices, uint64_t by);
Slices joined(Slices slices, const Slices& more);

// What a rank has of `count` things: as even as can be, the first ranks have one more.
Slice deal(uint64_t count, uint32_t rank, uint32_t ranks);
// The same in units of `unit` things, of which the last may be smaller. Every rank has some where can_deal() says so.
Slice deal_in_units(uint64_t count, uint64_t unit, uint32_t rank, uint32_t ranks);
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
  // The smallest number of key heads that have a whole number of units.
  uint64_t key_unit() const;
};
struct RankHeads {
  Slices heads, keys;  // as many heads for each of the keys
  uint32_t copy = 0;   // how many ranks before this one have the same keys
  bool operator==(const RankHeads&) const = default;
};
// The heads of each rank, by key heads where there are enough units of `key_unit` for all ranks. Otherwise, if that is
// 1, key heads are copied, and the heads of each are divided. Empty: not all ranks can have some.
std::vector<RankHeads> deal_heads(const HeadShape& shape, uint64_t key_unit, uint32_t ranks);

// Cuts of matrices, which may be absent, for a model of its own. A matrix without data, of which only the shape is
// known, is cut without it.
class Cuts {
 public:
  // A view where the rows lie together; otherwise they are copied.
  Matrix rows(const Matrix& matrix, const Slices& slices);
  // Copies: of whole blocks, or in f16 where a slice begins or ends within a block.
  Matrix columns(const Matrix& matrix, const Slices& slices);
  // Of each matrix of the stack, these rows.
  Experts rows(const Experts& experts, const Slices& slices);
  static Vector values(const Vector& all, const Slices& slices);

  std::vector<std::vector<uint8_t>> storage;  // of the copies

 private:
  Matrix columns_in_f16(const Matrix& matrix, const Slices& parts);
  // `rows` rows of `parts` of bytes, each from a row of `stride` bytes.
  std::span<const uint8_t> copy(std::span<const uint8_t> from, uint64_t rows, uint64_t stride, const Slices& parts);
};
// Of each matrix of the stack, all rows, of the matrices in the slice.
Experts some_experts(const Experts& experts, const Slice& slice);

}  // namespace heddle::model
