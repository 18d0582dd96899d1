// One block's share of a row of logits: neighbouring tokens, so that blocks, warps and lanes follow each other as ids
// do. The blocks of a row form a cluster and exchange their results; a single block is a cluster of its own.
#pragma once
#include <algorithm>

#include "kernels/spec/reduce.h"
#include "ptx/async.h"
#include "ptx/memory.h"

namespace heddle::kernels {

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

}  // namespace heddle::kernels
