// Sampling, one block per row, nothing sorted: sets are cut at a threshold, found digit by digit in histograms.
#include "kernels/sample.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "kernels/argmax_key.h"
#include "kernels/chain.h"
#include "kernels/sample_random.h"
#include "kernels/wide.h"

namespace heddle::kernels {

using namespace ptx;

static_assert(sizeof(SampleRow) == 32 && offsetof(SampleRow, seed) == 16 && sizeof(Sampled) == 8);

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
constexpr float unit = 0x1p-44f;  // of the weights: max_vocab tokens come to 2^63 at most
constexpr uint32_t max_vocab = 1u << 19;
constexpr float coldest = 0x1p-100f;  // temperatures below count as 0
constexpr uint32_t digit_bits = 11;   // 2048 bins of 8 bytes; three passes find a threshold of 32 bits
constexpr uint32_t bins = 1u << digit_bits;

U64 in_units(F32 weight) { return to<uint64_t>(weight * (1 / unit), Round::rni); }

// body(logit, index) for all tokens, in no order; what is loaded beyond the last is NaN, which counts nowhere. Two
// loads before the first use: a row comes from L2, and one SM has too few threads to hide its latency with one each.
void each_logit(Code& k, Global<float> logits, U32 vocab, uint32_t vec, auto&& body) {
  constexpr uint32_t loads = 2;
  const uint32_t step = k.threads() * vec;
  k.loop(k.thread() * vec, vocab, step * loads, [&](U32 first) {
    std::vector<Var<float>> values;
    for (uint32_t j = 0; j < loads * vec; ++j) values.push_back(k.var(nan));
    for (uint32_t l = 0; l < loads; ++l)
      k.when(first + l * step < vocab, [&] {
        auto v = load_wide(logits + (first + l * step), vec);
        for (uint32_t j = 0; j < vec; ++j) values[l * vec + j] = v[j];
      });
    for (uint32_t l = 0; l < loads; ++l)
      for (uint32_t j = 0; j < vec; ++j) body(values[l * vec + j].get(), first + (l * step + j));
  });
}

// A token's distance below the largest logit, in temperatures. Linear in the logit, so that the first digit spreads the
// tokens over many bins. Beyond 32 a token weighs nothing (e^-32 is a quarter unit): it is not in the draw.
struct Token {
  F32 distance;
  Pred inside;
  U32 key;  // distance in units of 2^-27
  F32 weight() const { return exp(-distance); }
};

// The draw from one row whose largest logit is finite. Every thread of the block takes part in every step.
class Draw {
 public:
  Draw(Code& k, Global<float> logits, U32 vocab, uint32_t vec, F32 largest, F32 inverse_temperature)
      : k_(k),
        logits_(logits),
        vocab_(vocab),
        vec_(vec),
        largest_(largest),
        inverse_temperature_(inverse_temperature),
        histogram_(k.shared<uint64_t>(bins)),
        found_(k.shared<uint64_t>(2)),
        limit_(k.var(~0u)) {}

  void top_k(U32 count) {
    limit_ = threshold([&](const Token&) { return k_.constant(uint64_t(1)); },
                       [&](U64 total) { return min(widen(count), total); });
  }
  void top_p(F32 part) {
    limit_ = threshold([&](const Token& t) { return in_units(t.weight()); },
                       [&](U64 total) {
                         U64 goal = to<uint64_t>(to<double>(total) * to_f64(part), Round::rpi);
                         return min(max(goal, uint64_t(1)), total);
                       });
  }

  // body(logit, index), in one thread, of the token that the random bits fall on: cumulated in the order of the index.
  void pick(F32 min_p, U64 random, auto&& body) {
    // segments of as many tokens as there are threads, a warp for each; then the segment that is hit, a thread a token
    const uint32_t size = k_.threads();
    auto sums = k_.shared<uint64_t>(size);
    U32 segments = (vocab_ + (size - 1)) / size, thread = k_.thread();
    k_.loop(k_.warp(), segments, k_.warps(), [&](U32 segment) {
      auto sum = k_.var(uint64_t(0));
      U32 begin = segment * size;
      k_.loop(begin + k_.lane() * vec_, min(begin + size, vocab_), 32 * vec_, [&](U32 i) {
        for (F32 logit : load_wide(logits_ + i, vec_)) sum += kept_weight(logit, min_p);
      });
      U64 total = warp_sum(sum.get());
      k_.when(k_.lane() == 0u, [&] { store(sums + segment, total); });
    });
    k_.barrier();
    auto mine = k_.var(uint64_t(0));
    k_.when(thread < segments, [&] { mine = load(sums + thread); });
    Scan of_segments = block_scan(k_, mine.get());
    auto [segment, rest] = hit(of_segments.before, mine.get(), mul_hi(random, of_segments.total), widen(thread));

    U32 i = to<uint32_t>(segment) * size + thread;
    auto weight = k_.var(uint64_t(0));
    auto logit = k_.var(0.0f);
    k_.when(i < vocab_, [&] {
      logit = load(logits_ + i);
      weight = kept_weight(logit.get(), min_p);
    });
    U64 before = block_scan(k_, weight.get()).before;
    k_.when(before <= rest && rest - before < weight.get(), [&] { body(logit.get(), i); });
  }

 private:
  Token token(F32 logit) const {
    F32 distance = (largest_ - logit) * inverse_temperature_;
    return {distance, distance < 32.0f, to<uint32_t>(distance * 0x1p27f, Round::rzi)};  // NaN is not inside
  }
  // 0 for what is cut.
  U64 kept_weight(F32 logit, F32 min_p) const {
    Token t = token(logit);
    F32 weight = t.weight();
    Pred kept = t.inside && t.key <= limit_.get() && (weight >= min_p || t.distance == 0.0f);
    return select(kept, in_units(weight), uint64_t(0));
  }

  struct Hit {
    U64 what, rest;
  };
  // `what` of the one thread whose interval (before, before + size) the place falls in, and how far; for all threads.
  Hit hit(U64 before, U64 size, U64 place, U64 what) {
    k_.when(before <= place && place - before < size, [&] {
      store(found_, what);
      store(found_.offset(1), place - before);
    });
    k_.barrier();
    return {k_.assume_uniform(load(found_)), k_.assume_uniform(load(found_.offset(1)))};
  }

  // The smallest key up to which the amounts of the tokens come to goal(all of them).
  U32 threshold(auto&& amount, auto&& goal) {
    U32 prefix = k_.constant(0u);
    U64 wanted = k_.constant(uint64_t(0));
    const uint32_t per_thread = (bins + k_.threads() - 1) / k_.threads();
    for (uint32_t shift : {21u, 10u, 0u}) {
      const uint32_t bits = shift ? digit_bits : 10;
      k_.barrier();  // the last round's histogram and hit have been read
      k_.loop(k_.thread(), bins, k_.threads(), [&](U32 i) { store(histogram_ + i, uint64_t(0)); });
      k_.barrier();
      each_logit(k_, logits_, vocab_, vec_, [&](F32 logit, U32) {
        Token t = token(logit);
        Pred counts = t.inside && t.key <= limit_.get();
        if (shift < 21) counts = counts && (t.key >> (shift + bits)) == prefix;
        k_.when(counts, [&] {
          U32 bin = (t.key >> shift) & ((1u << bits) - 1);
          reduce(Atomic::add, histogram_ + bin, amount(t), {.scope = Scope::cta});
        });
      });
      k_.barrier();

      // each thread's bins, then the one among them
      U32 first = k_.thread() * per_thread, end = min(first + per_thread, bins);
      auto sum = k_.var(uint64_t(0));
      k_.loop(first, end, 1u, [&](U32 i) { sum += load(histogram_ + i); });
      Scan scan = block_scan(k_, sum.get());
      if (shift == 21) wanted = goal(scan.total) - uint64_t(1);  // as a place: the last that is wanted
      auto before = k_.var(scan.before);
      auto bin = k_.var(first);
      auto size = k_.var(uint64_t(0));
      k_.when(scan.before <= wanted && wanted - scan.before < sum.get(), [&] {
        k_.loop(first, end, 1u, [&](U32 i) {
          U64 next = load(histogram_ + i);
          Pred here = size.get() == uint64_t(0) && before.get() <= wanted && wanted - before.get() < next;
          Pred later = size.get() == uint64_t(0) && !here;
          bin = select(here, i, bin.get());
          size = select(here, next, size.get());
          before = select(later, before.get() + next, before.get());
        });
      });
      auto [digit, rest] = hit(before.get(), size.get(), wanted, widen(bin.get()));
      prefix = prefix << bits | to<uint32_t>(digit);
      wanted = rest;
    }
    return prefix;
  }

  Code& k_;
  Global<float> logits_;
  U32 vocab_;
  uint32_t vec_;
  F32 largest_, inverse_temperature_;
  Shared<uint64_t> histogram_, found_;
  Var<uint32_t> limit_;  // the largest key that is kept
};

}  // namespace

Kernel Sample::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  chain_wait(k, chained);
  U32 row = k.block_id(), vocab = k.arg(&Args::vocab);
  k.when(row < k.arg(&Args::rows), [&] {
    auto logits = k.arg(&Args::logits) + mul_wide(row, vocab);
    auto params = k.arg(&Args::params) + row * uint32_t(sizeof(SampleRow) / 4);
    auto out = k.arg(&Args::out) + row * uint32_t(sizeof(Sampled) / 4);
    auto write = [&](U32 id, F32 log_probability) {
      store_vec(out, Vec<uint32_t, 2>{id, bitcast<uint32_t>(log_probability)});
    };
    auto each = [&](auto&& body) { each_logit(k, logits, vocab, vec, body); };

    auto best = k.var(uint64_t(0));
    each([&](F32 logit, U32 i) { best = max(best.get(), argmax_key(logit, i)); });
    U32 first = argmax_index(block_max(k, best.get()));
    F32 largest = k.assume_uniform(load(logits + first));
    auto in_one_thread = [&](auto&& body) { k.when(k.thread() == 0u, body); };
    auto sample_finite = [&] {
      auto sum = k.var(uint64_t(0));
      each([&](F32 logit, U32) { sum += select(logit == logit, in_units(exp(logit - largest)), uint64_t(0)); });
      F32 log_sum = lg2_approx(to_f32(block_scan(k, sum.get()).total) * unit) * 0x1.62e43p-1f;

      F32 temperature = k.assume_uniform(load(params.as<float>()));
      k.when_else(
          temperature >= coldest,
          [&] {
            Draw draw(k, logits, vocab, vec, largest, rcp(temperature));
            U32 top_k = k.assume_uniform(load(params.offset(1)));
            k.when(top_k > 0u && top_k < vocab, [&] { draw.top_k(top_k); });
            F32 top_p = k.assume_uniform(load(params.offset(2).as<float>()));
            k.when(top_p < 1.0f, [&] { draw.top_p(top_p); });
            F32 min_p = load(params.offset(3).as<float>());
            auto counter = load_vec<2>(params.offset(4).as<uint64_t>());
            draw.pick(min_p, random_bits(counter[0], counter[1]),
                      [&](F32 logit, U32 id) { write(id, logit - largest - log_sum); });
          },
          [&] { in_one_thread([&] { write(first, -log_sum); }); });
    };
    auto sample_infinite = [&] {
      in_one_thread([&] {
        Pred above = largest > 0.0f;
        write(select(above, first, 0u), select(above, k.constant(0.0f), -infinity));
      });
    };
    k.when_else(abs(largest) < infinity, sample_finite, sample_infinite);
  });
  return k.finish();
}

Grid Sample::grid(const Args& args) const {
  const uint32_t most = std::min(threads * threads, max_vocab);
  if (args.vocab == 0 || args.vocab % vec || args.vocab > most)
    throw Error(
        "sample: a vocabulary of {}; with {} threads and vec = {} a positive multiple of {} up to {} is expected",
        args.vocab, threads, vec, vec, most);
  if (args.logits.address % (4 * vec) || args.params.address % 16 || args.out.address % 8)
    throw Error("sample: logits must be {}-byte, params 16-byte, out 8-byte aligned, found {:#x}, {:#x}, {:#x}",
                4 * vec, args.logits.address, args.params.address, args.out.address);
  return {.x = args.rows ? args.rows : 1};
}

}  // namespace heddle::kernels
