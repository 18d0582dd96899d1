// A row of logits that the blocks of a cluster share: the arithmetic of weights, passes over the row, and the cuts.
#pragma once
#include <algorithm>

#include "kernels/spec/reduce.h"
#include "ptx/async.h"
#include "ptx/convert.h"
#include "ptx/memory.h"

namespace heddle::kernels {

// The engine's arithmetic of weights and logarithms (engine/sampling/numbers.h) on the device,
// operation by operation, so that both have the same bits.

// e^x for x <= 0 in units of 2^-34: up to 2^18 of them add up exactly in 64 bits (and in a double).
inline ptx::U64 weight_of(ptx::F32 x) {
  using ptx::F32;
  F32 inside = max(x, -80.0f);
  F32 shifted = inside * 1.44269504f + 0x1.8p23f;  // the integer part in the low bits
  F32 n = shifted - 0x1.8p23f;
  F32 r = (inside - n * 0.693145752f) - n * 1.42860677e-6f;
  F32 square = r * r;
  F32 upper = (r * (1.f / 5040) + 1.f / 720) * square + (r * (1.f / 120) + 1.f / 24);
  F32 lower = (r * (1.f / 6) + 0.5f) * square + (r + 1.f);
  F32 p = upper * (square * square) + lower;
  F32 weight = p * bitcast<float>((bitcast<uint32_t>(shifted) << 23) + 0x3f800000u);
  F32 in_units = (weight + 0x1p-11f) - 0x1p-11f;  // 2^-34 is the last bit of 2^-11
  return to<uint64_t>(select(weight < 0x1p-11f, in_units, weight) * 0x1p34f, ptx::Round::rzi);
}
constexpr double weight_unit = 0x1p-34;

// The natural logarithm of a number of at least 1.
inline ptx::F64 log_of(ptx::F64 x) {
  using ptx::F64;
  constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
  ptx::U64 bits = bitcast<uint64_t>(x);
  ptx::U32 exponent = to<uint32_t>(bits >> 52) - 1022u;
  F64 m = bitcast<double>((bits & 0x000fffffffffffffu) | 0x3fe0000000000000u);  // 0.5 <= m < 1
  ptx::Pred small = m < 0.70710678118654752;
  m = select(small, m * 2.0, m);
  exponent = select(small, exponent - 1u, exponent);
  F64 s = (m - 1.0) / (m + 1.0), square = s * s;
  F64 sum = square * 0.0;
  for (int i = 21; i > 0; i -= 2) sum = sum * square + 1.0 / i;
  F64 e = ptx::to<double>(bitcast<int32_t>(exponent));
  return e * ln2_high + (s * 2.0 * sum + e * ln2_low);
}

// Random bits for sampling: Philox4x32 with 10 rounds (Salmon et al., 2011), a function of seed and step alone. No
// state, so a draw can be repeated, and rows of a batch do not depend on each other.
// The first 64 bits of the block with key `seed` and counter `step`.
inline ptx::U64 random_bits(ptx::U64 seed, ptx::U64 step) {
  using namespace ptx;
  auto [key_0, key_1] = unpack<uint32_t>(seed);
  auto [c0, c1] = unpack<uint32_t>(step);
  U32 c2 = c0 ^ c0, c3 = c2;  // the counter's upper half is 0
  for (int round = 0; round < 10; ++round) {
    U32 low_0 = c0 * 0xd2511f53u, high_0 = mul_hi(c0, 0xd2511f53u);
    U32 low_1 = c2 * 0xcd9e8d57u, high_1 = mul_hi(c2, 0xcd9e8d57u);
    c0 = high_1 ^ c1 ^ key_0;
    c1 = low_1;
    c2 = high_0 ^ c3 ^ key_1;
    c3 = low_0;
    key_0 = key_0 + 0x9e3779b9u;
    key_1 = key_1 + 0xbb67ae85u;
  }
  return pack<uint64_t>(c0, c1);
}

// One block's share of a row of logits: neighbouring tokens, so that blocks, warps and lanes follow each other as ids
// do. The blocks of a row form a cluster and exchange their results; a single block is a cluster of its own.

class Share {
 public:
  Share(ptx::Code& code, uint32_t block_count, uint32_t width, ptx::U32 vocab)
      : k(code), blocks(block_count), vec(width) {
    rank = blocks > 1 ? k.cluster_rank() : k.constant(0u);
    ptx::U32 per_block = (vocab / vec + (blocks - 1)) / blocks * vec;
    begin = min(rank * per_block, vocab);
    end = min(begin + per_block, vocab);
    ptx::U32 per_warp = ((end - begin) / vec + (k.warps() - 1)) / k.warps() * vec;
    warp_begin_ = min(begin + k.warp() * per_warp, end);
    warp_end_ = min(warp_begin_ + per_warp, end);
    if (blocks > 1) k.cluster_arrive(ptx::Order::relaxed);
  }
  // Waits until all blocks of the cluster run. Required before the first write to another block.
  void meet() {
    if (blocks > 1) k.cluster_wait();
  }
  void barrier() {
    if (blocks > 1)
      k.cluster_barrier();
    else
      k.barrier();
  }

  // body(logit, id) for all tokens of the block, in no particular order, with several loads issued before the first
  // use. The first pass over a row reads it from L2 with wide loads. Later passes use narrow ones: wide loads would
  // repeat the body in the code for every value, and code that runs once costs more to fetch than to run.
  void each_first(ptx::Global<float> row, auto&& body) { pass(row, vec, 2, warp_begin_, warp_end_, body); }
  void each(ptx::Global<float> row, auto&& body) { pass(row, 1, loads_ahead(), warp_begin_, warp_end_, body); }

  // body(block, value) for the value of each block. Takes one barrier; in a loop another is needed after it.
  void exchange(ptx::U64 v, auto&& body) {
    if (blocks == 1) return body(k.constant(0u), v);
    auto all = k.shared<uint64_t>(blocks);
    k.when(k.thread() < blocks, [&] { store(in_block(all + rank, k.thread()), v); });
    k.cluster_barrier();
    const uint32_t at_once = std::min(blocks, 8u);  // loads; not all targets have registers for 16
    k.loop(0u, blocks, at_once, [&](ptx::U32 first) {
      std::vector<ptx::U64> values;
      for (uint32_t b = 0; b < at_once; ++b)
        values.push_back(k.assume_uniform(load((all + first).offset(b)), ptx::Uniform::cluster));
      for (uint32_t b = 0; b < at_once; ++b) body(first + b, values[b]);
    });
  }
  // The largest of the values of all threads of all blocks.
  ptx::U64 largest(ptx::U64 v) {
    auto top = k.var(uint64_t(0));
    exchange(block_max(k, v), [&](ptx::U32, ptx::U64 other) { top = max(top.get(), other); });
    return k.assume_uniform(top.get(), ptx::Uniform::cluster);
  }
  // Their sum.
  ptx::U64 total(ptx::U64 v) {
    auto sum = k.var(uint64_t(0));
    exchange(block_scan(k, v).total, [&](ptx::U32, ptx::U64 other) { sum += other; });
    return k.assume_uniform(sum.get(), ptx::Uniform::cluster);
  }

  // Lays the tokens end to end in the order of their ids, each as long as amount(logit, id), and calls found(id) in the
  // one thread of the cluster that has the token at place(total). One exchange.
  void locate(ptx::Global<float> row, auto&& amount, auto&& place, auto&& found) {
    using namespace ptx;
    Piece mine = add_up(row, warp_begin_, warp_end_, amount);
    auto all = k.var(uint64_t(0)), before = k.var(uint64_t(0));
    exchange(mine.of_block, [&](U32 block, U64 other) {
      before += select(block < rank, other, uint64_t(0));
      all += other;
    });
    U64 in_block = place(all.get()) - before.get();  // wraps where it lies before this block
    if (blocks > 4) return walk(row, warp_begin_, warp_end_, in_block, mine, amount, found);
    // With few blocks a warp has too many tokens to walk through alone: all warps of the block share them.
    auto piece = k.shared<uint32_t>(2);
    auto rest = k.shared<uint64_t>(1);
    k.when(in_block < mine.of_block, [&] {
      U64 in_warp = in_block - mine.before;
      k.when(in_warp < mine.of_warp && k.lane() == 0u, [&] {
        store(piece, warp_begin_);
        store(piece.offset(1), warp_end_);
        store(rest, in_warp);
      });
      k.barrier();
      U32 from = k.assume_uniform(load(piece)), to = k.assume_uniform(load(piece.offset(1)));
      U32 per_warp = (to - from + (k.warps() - 1)) / k.warps(), first = min(from + k.warp() * per_warp, to);
      U32 last = min(first + per_warp, to);
      walk(row, first, last, load(rest), add_up(row, first, last, amount), amount, found);
    });
  }

  ptx::Code& k;
  uint32_t blocks, vec;
  ptx::U32 rank, begin, end;  // the block's tokens

 private:
  // Total amounts of the warps before this one, of this warp, and of the block.
  struct Piece {
    ptx::U64 before, of_warp, of_block;
  };
  Piece add_up(ptx::Global<float> row, ptx::U32 from, ptx::U32 to, auto&& amount) {
    using namespace ptx;
    auto sum = k.var(uint64_t(0));
    pass(row, 1, loads_ahead(), from, to, [&](F32 logit, U32 id) { sum += amount(logit, id); });
    U64 of_warp = k.assume_uniform(warp_sum(sum.get()), Uniform::warp);
    U64 of_warps = warp_scan(k, detail::exchange(k, of_warp, 0));
    U64 before = select(k.warp() > 0u, shuffle(of_warps, k.warp() - 1u), uint64_t(0));
    return {before, of_warp, k.assume_uniform(shuffle(of_warps, k.constant(31u)))};
  }
  // In the warp that has the place: `at` is counted from the first of the block's tokens, or of those that its warps
  // share.
  void walk(ptx::Global<float> row, ptx::U32 from, ptx::U32 to, ptx::U64 at, const Piece& mine, auto&& amount,
            auto&& found) {
    using namespace ptx;
    U64 start = k.assume_uniform(at - mine.before, Uniform::warp);
    k.when(start < mine.of_warp, [&] {
      auto rest = k.var(start);
      k.loop(from, to, 32u, [&](U32 first) {
        U32 id = first + k.lane();
        auto own = k.var(uint64_t(0));
        k.when(id < to, [&] { own = amount(load(row + id), id); });
        U64 up_to = warp_scan(k, own.get());
        k.when(rest.get() - (up_to - own.get()) < own.get(), [&] { found(id); });
        rest = rest.get() - shuffle(up_to, k.constant(31u));  // wraps to a huge number once the token is found
      });
    });
  }

  uint32_t loads_ahead() const { return blocks > 1 ? 2 : 4; }
  void pass(ptx::Global<float> row, uint32_t width, uint32_t loads, ptx::U32 from, ptx::U32 to, auto&& body) {
    const uint32_t step = 32 * width;
    k.loop(from + k.lane() * width, to, step * loads, [&](ptx::U32 first) {
      std::vector<ptx::Var<float>> values;
      for (uint32_t l = 0; l < loads; ++l) {
        for (uint32_t j = 0; j < width; ++j) values.push_back(k.var(0.0f));
        k.when(first + l * step < to, [&] {
          auto v = load_wide(row + (first + l * step), width);
          for (uint32_t j = 0; j < width; ++j) values[l * width + j] = v[j];
        });
      }
      for (uint32_t l = 0; l < loads; ++l)
        k.when(first + l * step < to, [&] {
          for (uint32_t j = 0; j < width; ++j) body(values[l * width + j].get(), first + (l * step + j));
        });
    });
  }

  ptx::U32 warp_begin_, warp_end_;
};

// Top-k and top-p: which tokens of a row may be drawn. A cut keeps the largest logits, and among equal ones those with
// the lowest ids. Nothing is sorted: the limit is found in histograms, digit by digit, until the last token that is
// kept has a bin of its own.

class Cuts {
 public:
  // `words`: scratch, scratch_words(blocks) of them.
  Cuts(Share& share, ptx::Global<float> row, ptx::F32 largest, ptx::Shared<uint32_t> words);
  static uint32_t scratch_words(uint32_t blocks) { return blocks > 1 ? 6 * bins : 3 * bins; }

  // top_k, then top_p. top_k is off at 0 and from `vocab` on, top_p from 1 on.
  void cut(ptx::U32 top_k, ptx::F32 top_p, ptx::U32 vocab);
  ptx::Pred keeps(ptx::F32 logit, ptx::U32 id) const;

 private:
  static constexpr uint32_t digit_bits = 11, bins = 1u << digit_bits;
  // The first digit is linear in the distance from the largest logit, with 64 bins per unit, so that the tokens near a
  // cut are in bins of their own and few threads hit the same bin at once. Logits more than 32 below the largest share
  // the last bin.
  static constexpr float bins_per_unit = 64;

  struct Hit {
    ptx::U32 bin, count;  // count: tokens in the bin
    ptx::U64 amount;      // of all tokens in the bin
    ptx::U64 rest;        // from the start of the bin to the place
  };
  ptx::U32 bin_of(ptx::F32 logit) const;
  static ptx::U32 key_of(ptx::F32 logit);  // ascending where logits descend

  // Keeps tokens from the largest logit on until their amounts reach goal(total). An amount is 1 or a weight.
  void cut_at(ptx::Pred by_weight, auto&& goal);
  // The bin at place(total), with the amounts of the tokens that have bin(logit, id) < bins laid end to end.
  Hit find(ptx::Pred by_weight, auto&& bin, auto&& place);
  void gather(ptx::Pred by_weight);
  ptx::U64 amount_at(ptx::Pred by_weight, ptx::U32 bin) const;
  ptx::U32 id_of_equal(ptx::U32 bin, ptx::U32 key, ptx::U64 which);

  Share& share_;
  ptx::Code& k_;
  ptx::Global<float> row_;
  ptx::F32 largest_;
  // The last token that is kept, by bin, then key, then id.
  ptx::Var<uint32_t> last_bin_, last_key_, last_id_;
  ptx::Shared<uint32_t> counts_, low_, high_;  // (bins) of this block; weights are high * 2^32 + low
  ptx::Shared<uint64_t> all_weights_;          // (bins) of all blocks
  ptx::Shared<uint32_t> all_counts_;
  ptx::Shared<uint64_t> found_;  // (4) a Hit
};

}  // namespace heddle::kernels
