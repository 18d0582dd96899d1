#include "model/shard_cuts.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/parallel.h"

namespace heddle::model {
namespace {

// Neighbours become one slice.
Slices merged(const Slices& slices) {
  Slices to;
  for (const Slice& slice : slices) {
    if (!to.empty() && to.back().first + to.back().count == slice.first)
      to.back().count += slice.count;
    else if (slice.count)
      to.push_back(slice);
  }
  return to;
}

// The heads of neighbouring key heads.
Slices heads_of(const HeadShape& shape, const Slice& keys) {
  if (!shape.tiled) return {{keys.first * shape.group(), keys.count * shape.group()}};
  Slices heads;
  for (uint64_t i = 0; i < shape.group(); ++i) heads.push_back({i * shape.key_heads + keys.first, keys.count});
  return merged(heads);
}

// Several ranks have copies of one key head, and divide its heads. The first key heads have fewer ranks, so that no
// rank has more heads than the first.
std::vector<RankHeads> deal_with_copies(const HeadShape& shape, uint32_t ranks) {
  const auto keys = uint32_t(shape.key_heads);
  const bool apart = shape.tiled && keys > 1;  // the heads of a key do not lie together
  if (apart && shape.unit > 1) return {};
  std::vector<RankHeads> all;
  for (uint32_t key = 0; key < keys; ++key) {
    const auto of_key = uint32_t(deal(ranks, keys - 1 - key, keys).count);
    if (!can_deal(shape.group(), shape.unit, of_key)) return {};
    for (uint32_t i = 0; i < of_key; ++i) {
      const Slice part = deal_in_units(shape.group(), shape.unit, i, of_key);
      RankHeads& to = all.emplace_back(RankHeads{{}, {{key, 1}}, i});
      if (!apart) to.heads = {{key * shape.group() + part.first, part.count}};
      for (uint64_t h = part.first; apart && h < part.first + part.count; ++h) to.heads.push_back({h * keys + key, 1});
    }
  }
  return all;
}

}  // namespace

uint64_t count_of(const Slices& slices) {
  uint64_t count = 0;
  for (const Slice& slice : slices) count += slice.count;
  return count;
}

Slices times(const Slices& slices, uint64_t size) {
  Slices to;
  for (const Slice& slice : slices) to.push_back({slice.first * size, slice.count * size});
  return to;
}

Slices moved(Slices slices, uint64_t by) {
  for (Slice& slice : slices) slice.first += by;
  return slices;
}

Slices joined(Slices slices, const Slices& more) {
  slices.insert(slices.end(), more.begin(), more.end());
  return slices;
}

Slice deal(uint64_t count, uint32_t rank, uint32_t ranks) {
  const uint64_t each = count / ranks, rest = count % ranks;
  return {rank * each + std::min<uint64_t>(rank, rest), each + (rank < rest ? 1 : 0)};
}

Slice deal_in_units(uint64_t count, uint64_t unit, uint32_t rank, uint32_t ranks) {
  const Slice units = deal((count + unit - 1) / unit, rank, ranks);
  const uint64_t first = std::min(count, units.first * unit);
  return {first, std::min(count, (units.first + units.count) * unit) - first};
}

uint64_t column_unit(quant::Format format, uint64_t cols, uint32_t ranks) {
  const uint64_t block = quant::block_values(format), aligned = std::lcm(block, uint64_t(32));
  return can_deal(cols, aligned, ranks) ? aligned : block;
}

uint64_t things_for(uint64_t values, uint64_t size) { return values / std::gcd(values, size); }

uint64_t HeadShape::key_unit() const {
  if (!tiled) return things_for(unit, group());
  // Pieces of neighbouring heads begin at every multiple of key_heads.
  return group() > 1 && key_heads % unit != 0 ? key_heads : unit;
}

std::vector<RankHeads> deal_heads(const HeadShape& shape, uint64_t key_unit, uint32_t ranks) {
  if (!can_deal(shape.key_heads, key_unit, ranks)) {
    if (key_unit > 1) return {};
    return deal_with_copies(shape, ranks);
  }
  std::vector<RankHeads> all;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const Slice keys = deal_in_units(shape.key_heads, key_unit, rank, ranks);
    all.push_back({heads_of(shape, keys), {keys}, 0});
  }
  return all;
}

std::span<const uint8_t> Cuts::copy(std::span<const uint8_t> from, uint64_t rows, uint64_t stride,
                                    const Slices& parts) {
  const uint64_t bytes = count_of(parts);
  std::vector<uint8_t>& to = storage.emplace_back(rows * bytes);
  constexpr uint64_t rows_at_once = 64;
  parallel_for((rows + rows_at_once - 1) / rows_at_once, 0, [&](size_t item) {
    for (uint64_t row = item * rows_at_once; row < std::min(rows, (item + 1) * rows_at_once); ++row) {
      uint8_t* out = to.data() + row * bytes;
      for (const Slice& part : parts) {
        std::memcpy(out, from.subspan(row * stride + part.first, part.count).data(), part.count);
        out += part.count;
      }
    }
  });
  return to;
}

Matrix Cuts::rows(const Matrix& matrix, const Slices& slices) {
  if (!matrix) return {};
  const Slices parts = merged(slices);
  const uint64_t bytes = matrix.row_bytes();
  for (const Slice& part : parts) check(part.first + part.count <= matrix.rows, "rows of the matrix");
  Matrix to{matrix.format, count_of(parts), matrix.cols, {}};
  if (matrix.data.empty()) return to;
  if (parts.size() == 1)
    to.data = matrix.data.subspan(parts[0].first * bytes, parts[0].count * bytes);
  else
    to.data = copy(matrix.data, 1, 0, times(parts, bytes));
  return to;
}

Matrix Cuts::columns(const Matrix& matrix, const Slices& slices) {
  if (!matrix) return {};
  const Slices parts = merged(slices);
  const uint64_t block = quant::block_values(matrix.format), bytes = quant::block_bytes(matrix.format);
  Slices of_row;
  for (const Slice& part : parts) {
    check(part.first + part.count <= matrix.cols, "columns of the matrix");
    if (part.first % block != 0 || part.count % block != 0) return columns_in_f16(matrix, parts);
    of_row.push_back({part.first / block * bytes, part.count / block * bytes});
  }
  Matrix to{matrix.format, matrix.rows, count_of(parts), {}};
  if (to.cols == matrix.cols && parts.size() == 1) return matrix;
  if (!matrix.data.empty()) to.data = copy(matrix.data, matrix.rows, matrix.row_bytes(), of_row);
  return to;
}

Matrix Cuts::columns_in_f16(const Matrix& matrix, const Slices& parts) {
  Matrix to{quant::Format::f16, matrix.rows, count_of(parts), {}};
  if (matrix.data.empty()) return to;
  std::vector<uint8_t>& data = storage.emplace_back(to.rows * to.row_bytes());
  parallel_for(matrix.rows, 0, [&](size_t row) {
    Vector whole(matrix.cols);
    quant::decode(matrix.format, matrix.slice(row, 1).data.data(), matrix.cols, whole.data());
    const Vector own = values(whole, parts);
    quant::encode(to.format, own.data(), own.size(), data.data() + row * to.row_bytes());
  });
  to.data = data;
  return to;
}

Experts Cuts::rows(const Experts& experts, const Slices& slices) {
  if (!experts.count) return {};
  Slices all;
  for (uint64_t i = 0; i < experts.count; ++i)
    all = joined(std::move(all), moved(slices, i * (experts.all.rows / experts.count) + experts.first));
  return {experts.count, rows(experts.all, all)};
}

Vector Cuts::values(const Vector& all, const Slices& slices) {
  Vector to;
  if (all.empty()) return to;
  for (const Slice& slice : slices) {
    check(slice.first + slice.count <= all.size(), "values of the vector");
    to.insert(to.end(), all.begin() + long(slice.first), all.begin() + long(slice.first + slice.count));
  }
  return to;
}

Experts some_experts(const Experts& experts, const Slice& slice) {
  if (!experts.count) return {};
  const uint64_t rows = experts.all.rows / experts.count;
  Experts to = experts;
  to.count = slice.count;
  if (experts.all.data.empty())
    to.all.rows = slice.count * rows;
  else
    to.all = experts.all.slice(slice.first * rows, slice.count * rows);
  return to;
}

}  // namespace heddle::model
