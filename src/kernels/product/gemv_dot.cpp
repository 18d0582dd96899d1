// Dot products in f32 and int8. Weights are decoded once for all columns, x is read once for all rows.
#include "kernels/product/gemv_dot.h"

namespace heddle::kernels {

using namespace ptx;

GemvWeights::Place GemvWeights::place(Code& k) const {
  U32 lane = k.lane();
  if (!blocks) return {.index = lane, .lane = {}, .block = lane, .first = k.constant(0u)};
  Place p{.index = lane,
          .lane = lane_of(k, lane, blocks->pieces(), narrow),
          .block = lane / lanes_per_block(),
          .first = {}};
  p.first = blocks->first(p.lane);
  return p;
}

std::vector<U32> GemvWeights::load_head(Code& k, Global<uint8_t> at, const Place& place, Access how) const {
  const BlockInFile block(at, blocks->align, how);
  if (!shuffled) return blocks->load_head(block, place.lane);
  std::vector<Var<uint32_t>> words;
  for (uint32_t i = 0; i < blocks->shared_head; ++i) words.push_back(k.var(0u));
  const uint32_t others = lanes_per_block() - 1;
  k.when((place.index & others) == 0u, [&] {
    auto head = blocks->load_head(block, place.lane);
    for (size_t i = 0; i < words.size(); ++i) words[i] = head[i];
  });
  std::vector<U32> head;
  for (auto& word : words) head.push_back(shuffle(word.get(), place.index & ~others));
  return head;
}

Raw GemvWeights::load(Code& k, Global<uint8_t> at, const Place& place) const {
  const bool once = blocks ? blocks->align == 16 && !narrow : load_bytes == 16;
  const Access how{.nc = true, .l1 = once ? L1::no_allocate : L1::normal};
  if (!blocks) return {.head = {}, .quants = load_floats(at, load_bytes, how)};
  auto quants = blocks->load_quants(BlockInFile(at, blocks->align, how), place.lane);
  return {.head = load_head(k, at, place, {.nc = true}), .quants = std::move(quants)};
}

namespace {

std::vector<std::array<Run, 2>> decode(const GemvWeights& format, const GemvWeights::Place& place,
                                       const std::vector<Raw>& weights, const Pred* active) {
  std::vector<std::array<Run, 2>> rows;
  for (const Raw& raw : weights) {
    rows.push_back(format.blocks->decode(raw, place.lane));
    if (!active) continue;
    for (Run& run : rows.back()) {
      run.scale = select(*active, run.scale, 0.0f);
      if (run.has_min) run.min = select(*active, run.min, 0.0f);
    }
  }
  return rows;
}

// Plain floats: the weights as they are.
template <Space S>
void add_floats(GemvSums& sums, const GemvWeights& format, const std::vector<Raw>& weights, const GemvFloats<S>& x,
                uint32_t value, const Pred* active) {
  std::vector<std::vector<F32>> w;
  for (const Raw& raw : weights) {
    w.push_back(decode_floats(format.format, raw.quants, format.load_bytes));
    if (active)
      for (F32& v : w.back()) v = select(*active, v, 0.0f);
  }
  for (uint32_t c = 0; c < sums.columns; ++c) {
    const auto xs = x.load(c, value, uint32_t(w[0].size()));
    for (uint32_t r = 0; r < sums.rows; ++r)
      for (size_t i = 0; i < xs.size(); ++i) sums.at(r, c).add_product(w[r][i], xs[i]);
    sums.column_done(c);
  }
}

template <Space S>
void add_any(GemvSums& sums, const GemvWeights& format, const GemvWeights::Place& place,
             const std::vector<Raw>& weights, const GemvFloats<S>& x, uint32_t value, const Pred* active) {
  if (!format.blocks) return add_floats(sums, format, weights, x, value, active);
  auto rows = decode(format, place, weights, active);
  for (uint32_t half = 0; half < 2; ++half) {
    std::vector<std::vector<F32>> w;
    for (auto& runs : rows) {
      const Run& run = runs[half];
      w.push_back(to_floats(run));
      if (run.has_min)
        for (F32& v : w.back()) v = fma(v, run.scale, -run.min);
    }
    for (uint32_t c = 0; c < sums.columns; ++c) {
      const auto xs = x.load(c, value + half * format.blocks->apart, uint32_t(w[0].size()));
      for (uint32_t r = 0; r < sums.rows; ++r) {
        if (format.blocks->has_min) {
          for (size_t i = 0; i < xs.size(); ++i) sums.at(r, c).add_product(w[r][i], xs[i]);
          continue;
        }
        F32 sum = w[r][0] * xs[0];  // the scale is the same for the run
        for (size_t i = 1; i < xs.size(); ++i) sum = fma(w[r][i], xs[i], sum);
        sums.at(r, c).add_product(sum, rows[r][half].scale);
      }
      sums.column_done(c);
    }
  }
}

}  // namespace

void add_products(GemvSums& sums, const GemvWeights& format, const GemvWeights::Place& place,
                  const std::vector<Raw>& weights, const GemvFloats<Space::global>& x, uint32_t value,
                  const Pred* active) {
  add_any(sums, format, place, weights, x, value, active);
}
void add_products(GemvSums& sums, const GemvWeights& format, const GemvWeights::Place& place,
                  const std::vector<Raw>& weights, const GemvFloats<Space::shared>& x, uint32_t value,
                  const Pred* active) {
  add_any(sums, format, place, weights, x, value, active);
}

void add_products(GemvSums& sums, const GemvWeights& format, const GemvWeights::Place& place,
                  const std::vector<Raw>& weights, const GemvQ8& x, uint32_t value, const Pred* active) {
  const BlockFormat& blocks = *format.blocks;
  auto rows = decode(format, place, weights, active);
  // runs within the same 32 values share a scale, in x as well: they are one dot product
  const uint32_t together = blocks.apart < quant::q8_1_values ? 2 : 1;
  for (uint32_t c = 0; c < sums.columns; ++c) {
    for (uint32_t first = 0; first < 2; first += together) {
      const auto [d, s] = x.pair(c, value + first * blocks.apart);
      std::vector<U32> q;
      for (uint32_t half = first; half < first + together; ++half)
        for (U32 word : x.load(c, value + half * blocks.apart, place.lane.words)) q.push_back(word);
      F32 sum_of_x;
      if (blocks.values_per_min == 16) {  // s is that of 32 values: add up the lane's own
        S32 sum = dp4a(q[0], 0x01010101u, 0);
        for (size_t i = 1; i < q.size(); ++i) sum = dp4a(q[i], 0x01010101u, sum);
        sum_of_x = to_f32(sum) * d;
      } else if (blocks.has_min) {  // the lanes that share the 32 values take equal parts of s
        sum_of_x = s * (4 * float(q.size()) / quant::q8_1_values);
      }
      for (uint32_t r = 0; r < sums.rows; ++r) {
        const Run& run = rows[r][first];
        S32 dot = dp4a(run.q[0], q[0], 0);
        for (size_t i = 1; i < q.size(); ++i) {
          const Run& here = rows[r][first + i / run.q.size()];
          dot = dp4a(here.q[i % run.q.size()], q[i], dot);
        }
        sums.at(r, c).add_product(to_f32(dot) * d, run.scale);
        if (run.has_min) sums.at(r, c).add_product(-run.min, sum_of_x);
      }
    }
    sums.column_done(c);
  }
}

}  // namespace heddle::kernels
