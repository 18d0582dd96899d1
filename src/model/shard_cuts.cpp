#include "model/shard_cuts.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/parallel.h"

namespace heddle::model {
namespace {

// Neighbours become one range.
Ranges merged(const Ranges& ranges) {
  Ranges to;
  for (const Range& range : ranges) {
    if (!to.empty() && to.back().first + to.back().count == range.first)
      to.back().count += range.count;
    else if (range.count)
      to.push_back(range);
  }
  return to;
}

// Of neighbouring heads, the key head of each and how many heads it has; then as many heads for each key, which is
// repeated where it has more.
Ranges keys_of(const Range& heads, uint64_t group) {
  Ranges keys;
  uint64_t common = 0;
  std::vector<std::pair<uint64_t, uint64_t>> parts;  // key head, its heads
  for (uint64_t key = heads.first / group; key * group < heads.first + heads.count; ++key) {
    const uint64_t first = std::max(heads.first, key * group);
    const uint64_t end = std::min(heads.first + heads.count, (key + 1) * group);
    parts.emplace_back(key, end - first);
    common = std::gcd(common, end - first);
  }
  for (const auto& [key, count] : parts)
    for (uint64_t i = 0; i < count / common; ++i) keys.push_back({key, 1});
  return keys;
}

// The heads of neighbouring key heads.
Ranges heads_of(const HeadShape& shape, const Range& keys) {
  if (!shape.tiled) return {{keys.first * shape.group(), keys.count * shape.group()}};
  Ranges heads;
  for (uint64_t i = 0; i < shape.group(); ++i) heads.push_back({i * shape.key_heads + keys.first, keys.count});
  return merged(heads);
}

// Several ranks have copies of one unit of keys, and divide its heads. The first units have fewer ranks, so that no
// rank has more heads than the first.
std::vector<RankHeads> deal_with_copies(const HeadShape& shape, uint64_t key_unit, uint32_t ranks) {
  const auto units = uint32_t((shape.key_heads + key_unit - 1) / key_unit);
  const bool apart = shape.tiled && shape.key_heads > 1;  // the heads of a key do not lie together
  if (apart && (key_unit > 1 || shape.unit > 1)) return {};
  std::vector<RankHeads> all;
  for (uint32_t unit = 0; unit < units; ++unit) {
    const auto of_unit = uint32_t(deal(ranks, units - 1 - unit, units).count);
    const Range keys{unit * key_unit, std::min(key_unit, shape.key_heads - unit * key_unit)};
    const uint64_t heads = keys.count * shape.group();
    if (!can_deal(heads, shape.unit, of_unit)) return {};
    for (uint32_t i = 0; i < of_unit; ++i) {
      Range part = deal_in_units(heads, shape.unit, i, of_unit);
      if (apart) {
        Ranges of_rank;
        for (uint64_t h = part.first; h < part.first + part.count; ++h)
          of_rank.push_back({h * shape.key_heads + keys.first, 1});
        all.push_back({of_rank, {keys}, i});
      } else {
        part.first += keys.first * shape.group();
        all.push_back({{part}, merged(keys_of(part, shape.group())), i});
      }
    }
  }
  return all;
}

}  // namespace

uint64_t count_of(const Ranges& ranges) {
  uint64_t count = 0;
  for (const Range& range : ranges) count += range.count;
  return count;
}

Ranges times(const Ranges& ranges, uint64_t size) {
  Ranges to;
  for (const Range& range : ranges) to.push_back({range.first * size, range.count * size});
  return to;
}

Ranges moved(Ranges ranges, uint64_t by) {
  for (Range& range : ranges) range.first += by;
  return ranges;
}

Ranges joined(Ranges ranges, const Ranges& more) {
  ranges.insert(ranges.end(), more.begin(), more.end());
  return ranges;
}

Range deal(uint64_t count, uint32_t rank, uint32_t ranks) {
  const uint64_t each = count / ranks, rest = count % ranks;
  return {rank * each + std::min<uint64_t>(rank, rest), each + (rank < rest ? 1 : 0)};
}

Range deal_in_units(uint64_t count, uint64_t unit, uint32_t rank, uint32_t ranks) {
  const Range units = deal((count + unit - 1) / unit, rank, ranks);
  const uint64_t end = std::min(count, (units.first + units.count) * unit);
  return {units.first * unit, end - units.first * unit};
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
  if (!can_deal(shape.key_heads, key_unit, ranks)) return deal_with_copies(shape, key_unit, ranks);
  std::vector<RankHeads> all;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const Range keys = deal_in_units(shape.key_heads, key_unit, rank, ranks);
    all.push_back({heads_of(shape, keys), {keys}, 0});
  }
  return all;
}

std::span<const uint8_t> Cuts::copy(std::span<const uint8_t> from, uint64_t rows, uint64_t stride,
                                    const Ranges& parts) {
  const uint64_t bytes = count_of(parts);
  std::vector<uint8_t>& to = storage.emplace_back(rows * bytes);
  constexpr uint64_t rows_at_once = 64;
  parallel_for((rows + rows_at_once - 1) / rows_at_once, 0, [&](size_t item) {
    for (uint64_t row = item * rows_at_once; row < std::min(rows, (item + 1) * rows_at_once); ++row) {
      uint8_t* out = to.data() + row * bytes;
      for (const Range& part : parts) {
        std::memcpy(out, from.subspan(row * stride + part.first, part.count).data(), part.count);
        out += part.count;
      }
    }
  });
  return to;
}

Matrix Cuts::rows(const Matrix& matrix, const Ranges& ranges) {
  if (!matrix) return {};
  const Ranges parts = merged(ranges);
  const uint64_t bytes = matrix.row_bytes();
  for (const Range& part : parts) check(part.first + part.count <= matrix.rows, "rows of the matrix");
  Matrix to{matrix.format, count_of(parts), matrix.cols, {}};
  if (matrix.data.empty()) return to;
  if (parts.size() == 1)
    to.data = matrix.data.subspan(parts[0].first * bytes, parts[0].count * bytes);
  else
    to.data = copy(matrix.data, 1, 0, times(parts, bytes));
  return to;
}

Matrix Cuts::columns(const Matrix& matrix, const Ranges& ranges) {
  if (!matrix) return {};
  const Ranges parts = merged(ranges);
  const uint64_t block = quant::block_values(matrix.format), bytes = quant::block_bytes(matrix.format);
  Ranges of_row;
  for (const Range& part : parts) {
    check(part.first + part.count <= matrix.cols && part.first % block == 0 && part.count % block == 0,
          "columns at the borders of blocks");
    of_row.push_back({part.first / block * bytes, part.count / block * bytes});
  }
  Matrix to{matrix.format, matrix.rows, count_of(parts), {}};
  if (to.cols == matrix.cols && parts.size() == 1) return matrix;
  if (!matrix.data.empty()) to.data = copy(matrix.data, matrix.rows, matrix.row_bytes(), of_row);
  return to;
}

Experts Cuts::rows(const Experts& experts, const Ranges& ranges) {
  if (!experts.count) return {};
  Ranges all;
  for (uint64_t i = 0; i < experts.count; ++i)
    all = joined(std::move(all), moved(ranges, i * (experts.all.rows / experts.count) + experts.first));
  return {experts.count, rows(experts.all, all)};
}

Vector Cuts::values(const Vector& all, const Ranges& ranges) {
  Vector to;
  if (all.empty()) return to;
  for (const Range& range : ranges) {
    check(range.first + range.count <= all.size(), "values of the vector");
    to.insert(to.end(), all.begin() + long(range.first), all.begin() + long(range.first + range.count));
  }
  return to;
}

Experts some_experts(const Experts& experts, const Range& range) {
  if (!experts.count) return {};
  const uint64_t rows = experts.all.rows / experts.count;
  Experts to = experts;
  to.count = range.count;
  if (experts.all.data.empty())
    to.all.rows = range.count * rows;
  else
    to.all = experts.all.slice(range.first * rows, range.count * rows);
  return to;
}

}  // namespace heddle::model
