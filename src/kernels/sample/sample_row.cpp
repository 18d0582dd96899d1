// Cuts by histograms over a cluster. Both cuts and all digits share the same code, because it is long.
#include "kernels/sample/sample_row.h"

#include <algorithm>
#include <limits>

namespace heddle::kernels {

using namespace ptx;

Cuts::Cuts(Share& share, Global<float> row, F32 largest, Shared<uint32_t> words)
    : share_(share),
      k_(share.k),
      row_(row),
      largest_(largest),
      last_bin_(k_.var(bins)),
      last_key_(k_.var(0u)),
      last_id_(k_.var(0u)),
      counts_(words),
      low_(words.offset(bins)),
      high_(words.offset(2 * bins)),
      all_weights_(words.offset(3 * bins).as<uint64_t>()),
      all_counts_(share.blocks > 1 ? words.offset(5 * bins) : counts_),
      found_(k_.shared<uint64_t>(4)) {}

U32 Cuts::bin_of(F32 logit) const {
  return min(to<uint32_t>((largest_ - logit) * bins_per_unit, Round::rzi), bins - 1);
}
U32 Cuts::key_of(F32 logit) { return ~ordered_bits(logit + 0.0f); }

Pred Cuts::keeps(F32 logit, U32 id) const {
  U32 bin = bin_of(logit), key = key_of(logit), last_bin = last_bin_.get(), last_key = last_key_.get();
  Pred at_key = key == last_key && id <= last_id_.get();
  return bin < last_bin || (bin == last_bin && (key < last_key || at_key));
}

void Cuts::cut(U32 top_k, F32 top_p, U32 vocab) {
  Pred some = top_k > 0u && top_k < vocab, part = top_p < 1.0f;
  k_.loop(select(some, k_.constant(0u), 1u), select(part, k_.constant(2u), 1u), 1u, [&](U32 turn) {
    Pred by_weight = turn == 1u;
    cut_at(by_weight, [&](U64 total) {
      U64 weight = to<uint64_t>(to<double>(total) * to_f64(top_p), Round::rpi);  // as many units or more
      return select(by_weight, max(weight, uint64_t(1)), widen(top_k));
    });
  });
}

void Cuts::cut_at(Pred by_weight, auto&& goal) {
  auto first_bin = k_.var(bins);             // by the first digit; `bins`: not found yet
  auto low = k_.var(0u), high = k_.var(0u);  // then the range of keys
  auto rest = k_.var(uint64_t(0)), amount = k_.var(uint64_t(0));
  auto count = k_.var(0u), exact = k_.var(0u);
  // The search ends when all tokens in the bin are kept, or when they are equal.
  auto all_kept = [&] { return count.get() == 1u || (!by_weight && rest.get() + uint64_t(1) == amount.get()); };
  k_.loop_while([&] { return exact.get() == 0u && !all_kept(); },
                [&] {
                  U32 chosen = first_bin.get(), from = low.get(), to = high.get();
                  Pred first = chosen == bins;
                  U32 shift = max(32u - leading_zeros(to - from), digit_bits) - digit_bits;
                  Hit hit = find(
                      by_weight,
                      [&](F32 logit, U32 id) {
                        U32 bin = bin_of(logit), key = key_of(logit);
                        Pred inside = keeps(logit, id) && (first || (bin == chosen && key >= from && key <= to));
                        return select(inside, select(first, bin, (key - from) >> shift), bins);
                      },
                      [&](U64 total) { return select(first, goal(total) - uint64_t(1), rest.get()); });
                  k_.when_else(
                      first,
                      [&] {  // one more bin on both sides, for rounding
                        F32 at = to_f32(hit.bin);
                        first_bin = hit.bin;
                        low = key_of(largest_ - max(at - 1.0f, 0.0f) * (1 / bins_per_unit));
                        high = key_of(select(hit.bin < bins - 1, largest_ - (at + 2.0f) * (1 / bins_per_unit),
                                             -std::numeric_limits<float>::infinity()));
                      },
                      [&] {
                        low = from + (hit.bin << shift);
                        high = low.get() + ((k_.constant(1u) << shift) - 1u);
                        exact = select(shift == 0u, k_.constant(1u), 0u);
                      });
                  rest = hit.rest;
                  amount = hit.amount;
                  count = hit.count;
                });
  // Equal logits have equal amounts: find the last one to keep.
  U32 bin = first_bin.get(), key = high.get(), equals = count.get();
  auto id = k_.var(~0u);
  k_.when(!all_kept(), [&] {
    U64 which = rest.get() / (amount.get() / widen(equals));
    k_.when(which + uint64_t(1) < widen(equals), [&] { id = id_of_equal(bin, key, which); });
  });
  // The previous cut may end inside the bin that this one keeps whole.
  U32 key_before = last_key_.get(), id_before = last_id_.get();
  Pred same_bin = bin == last_bin_.get();
  last_id_ = select(same_bin && key_before == key, min(id.get(), id_before), id.get());
  last_id_ = select(same_bin && key_before < key, id_before, last_id_.get());
  last_key_ = select(same_bin, min(key, key_before), key);
  last_bin_ = bin;
}

Cuts::Hit Cuts::find(Pred by_weight, auto&& bin, auto&& place) {
  U32 words = select(by_weight, k_.constant(3 * bins), bins);
  k_.loop(k_.thread(), words, k_.threads(), [&](U32 i) { store(counts_ + i, 0u); });
  k_.barrier();
  const Sync block{.scope = Scope::cta};
  share_.each(row_, [&](F32 logit, U32 id) {
    U32 at = bin(logit, id);
    // further away a token weighs less than half a unit, so no cut falls there
    k_.when(at < bins && (!by_weight || largest_ - logit < 25.0f), [&] {
      reduce(Atomic::add, counts_ + at, 1u, block);
      k_.when(by_weight, [&] {
        auto [low, high] = unpack<uint32_t>(weight_of(logit - largest_));
        U32 sum = atomic(Atomic::add, low_ + at, low, block) + low;
        U32 with_carry = high + select(sum < low, k_.constant(1u), 0u);
        k_.when(with_carry > 0u, [&] { reduce(Atomic::add, high_ + at, with_carry, block); });
      });
    });
  });
  share_.barrier();
  if (share_.blocks > 1) gather(by_weight);

  // first the thread with the bin, then the bin among the thread's own
  const uint32_t per_thread = (bins + k_.threads() - 1) / k_.threads();
  U32 first = k_.thread() * per_thread, end = min(first + per_thread, bins);
  auto sum = k_.var(uint64_t(0));
  k_.loop(first, end, 1u, [&](U32 i) { sum += amount_at(by_weight, i); });
  Scan scan = block_scan(k_, sum.get());
  U64 wanted = place(scan.total) - scan.before;
  k_.when(wanted < sum.get(), [&] {
    auto rest = k_.var(wanted);
    k_.loop(first, end, 1u, [&](U32 i) {
      U64 amount = amount_at(by_weight, i);
      k_.when(rest.get() < amount, [&] {
        store(found_, widen(i));
        store(found_.offset(1), widen(load(all_counts_ + i)));
        store(found_.offset(2), amount);
        store(found_.offset(3), rest.get());
      });
      rest = rest.get() - amount;  // wraps past the place
    });
  });
  k_.barrier();
  auto value = [&](uint32_t i) { return k_.assume_uniform(load(found_.offset(i)), Uniform::cluster); };
  return {to<uint32_t>(value(0)), to<uint32_t>(value(1)), value(2), value(3)};
}

// Each block adds up some of the bins of all blocks and sends the sums to all blocks.
void Cuts::gather(Pred by_weight) {
  const uint32_t blocks = share_.blocks, per_block = bins / blocks;
  k_.loop(k_.thread(), per_block, k_.threads(), [&](U32 i) {
    U32 bin = share_.rank * per_block + i;
    auto add_up = [&](Shared<uint32_t> of) {
      auto sum = k_.var(uint64_t(0));
      const uint32_t at_once = std::min(blocks, 8u);  // loads in flight; not all targets have registers for 16
      k_.loop(0u, blocks, at_once, [&](U32 first) {
        std::vector<U32> values;
        for (uint32_t b = 0; b < at_once; ++b) values.push_back(load(in_block(of + bin, first + b)));
        for (U32 value : values) sum += widen(value);
      });
      return sum.get();
    };
    U32 count = to<uint32_t>(add_up(counts_));
    for (uint32_t b = 0; b < blocks; ++b) store(in_block(all_counts_ + bin, b), count);
    k_.when(by_weight, [&] {
      U64 weight = add_up(low_) + (add_up(high_) << 32);
      for (uint32_t b = 0; b < blocks; ++b) store(in_block(all_weights_ + bin, b), weight);
    });
  });
  k_.cluster_barrier();
}

U64 Cuts::amount_at(Pred by_weight, U32 bin) const {
  auto amount = k_.var(uint64_t(0));
  k_.when_else(
      by_weight,
      [&] {
        amount = share_.blocks > 1 ? load(all_weights_ + bin) : pack<uint64_t>(load(low_ + bin), load(high_ + bin));
      },
      [&] { amount = widen(load(all_counts_ + bin)); });
  return amount.get();
}

// The id of the `which`-th kept token with this key, counted from 0 in the order of ids.
U32 Cuts::id_of_equal(U32 bin, U32 key, U64 which) {
  auto found = k_.shared<uint32_t>(1);
  share_.locate(
      row_,
      [&](F32 logit, U32 id) {
        Pred equal = key_of(logit) == key && bin_of(logit) == bin && keeps(logit, id);
        return select(equal, k_.constant(uint64_t(1)), uint64_t(0));
      },
      [&](U64) { return which; },
      [&](U32 id) {
        if (share_.blocks == 1) return store(found, id);
        for (uint32_t b = 0; b < share_.blocks; ++b) store(in_block(found, b), id);
      });
  share_.barrier();
  return k_.assume_uniform(load(found), Uniform::cluster);
}

}  // namespace heddle::kernels
