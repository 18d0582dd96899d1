// Sampling and the advance to the next step.
#include "kernels/sample/sample.h"

#include <cstddef>
#include <limits>

#include "kernels/attention/kv_cache.h"
#include "kernels/sample/sample_row.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "kernels/spec/reduce.h"
#include "ptx/memory.h"

namespace heddle::kernels {

using namespace ptx;

// The chain for one row, by the blocks of a cluster.

static_assert(sizeof(SampleRow) == 80 && offsetof(SampleRow, seed) == 32 && sizeof(Sampled) == 8);
static_assert(sizeof(TokenBias) == 8);

namespace {

using SampleArgs = Sample::Args;

constexpr uint32_t max_vocab = 1u << 18;  // the sum of the weights fits a double

// Biases and penalties on logits, before the cuts: the fields of SampleRow for them, in registers.
struct Penalties {
  F32 repetition, presence, frequency;
  U32 repetition_last, length, prompt;
  U32 biases;                     // how many
  Global<uint32_t> bias_entries;  // of TokenBias
  Global<uint32_t> text;          // (capacity), a ring
  U32 capacity;

  Pred any() const;
  // changed = logits with biases and penalties, for the block's share. `counts`: scratch words, see below.
  void apply(Share& share, Global<float> logits, Global<float> changed, Shared<uint32_t> counts, uint32_t words) const;

 private:
  U32 seen_from() const;       // where the window of the repetition penalty begins; `length` if it is off
  U32 generated_from() const;  // the same for the other two penalties
};

// Penalties: the tokens of the text are counted in shared memory, as many ids at a time as it has words.
U32 Penalties::seen_from() const {
  U32 window = select(repetition != 1.0f, repetition_last, 0u);
  return length - min(window, length);
}
U32 Penalties::generated_from() const {
  return select(presence != 0.0f || frequency != 0.0f, min(prompt, length), length);
}

Pred Penalties::any() const {
  Pred of_text = capacity > 0u && (seen_from() < length || generated_from() < length);
  return of_text || biases > 0u;
}

void Penalties::apply(Share& share, Global<float> logits, Global<float> changed, Shared<uint32_t> counts,
                      uint32_t words) const {
  Code& k = share.k;
  constexpr uint32_t seen = 1u << 31;  // in a word; the bits below count how often it was generated
  const uint32_t threads = k.threads();
  U32 seen_first = seen_from(), generated_first = generated_from();
  U32 first_known = max(min(seen_first, generated_first), length - min(capacity, length));
  k.loop(share.begin, share.end, words, [&](U32 first) {
    U32 last = min(first + words, share.end);
    k.loop(k.thread(), last - first, threads, [&](U32 i) { store(counts + i, 0u); });
    k.loop(first + k.thread() * share.vec, last, threads * share.vec,
           [&](U32 i) { store_wide(changed + i, load_wide(logits + i, share.vec)); });
    k.barrier();
    k.loop(k.thread(), biases, threads, [&](U32 i) {
      auto entry = load_vec<2>(bias_entries + mul_wide(i, 2u));
      U32 id = entry[0];
      k.when(id >= first && id < last, [&] { store(changed + id, load(changed + id) + bitcast<float>(entry[1])); });
    });
    k.loop(first_known + k.thread(), length, threads, [&](U32 i) {
      U32 id = load(text + i % capacity);
      k.when(id >= first && id < last, [&] {
        auto word = counts + (id - first);
        const Sync block{.scope = Scope::cta};
        k.when(i >= seen_first, [&] { reduce(Atomic::bit_or, word, seen, block); });
        k.when(i >= generated_first, [&] { reduce(Atomic::add, word, 1u, block); });
      });
    });
    k.barrier();
    k.loop(k.thread(), last - first, threads, [&](U32 i) {
      U32 word = load(counts + i);
      k.when(word != 0u, [&] {
        auto at = changed + (first + i);
        U32 generated = word & ~seen;
        F32 given = load(at);
        F32 repeated = select(given > 0.0f, given / repetition, given * repetition);
        F32 logit = select(word >= seen, repeated, given);
        store(at, select(generated > 0u, logit - (presence + to_f32(generated) * frequency), logit));
      });
    });
    k.barrier();
  });
}

class Chain {
 public:
  // min_blocks: when the assembler leaves room for two blocks, it takes 32 registers and spills on some targets
  explicit Chain(const Sample& spec)
      : s_(spec), k_(std::string(Sample::name), {.threads = spec.threads, .min_blocks = 1, .cluster = spec.splits}) {}

  Kernel build() {
    chain_start(k_, s_.chained);
    chain_wait(k_, s_.chained);
    row_ = s_.splits > 1 ? k_.special(Special::clusterid_y) : k_.block_y();
    k_.when(row_ < k_.arg(&SampleArgs::rows), [&] { body(); });
    return k_.finish();
  }

 private:
  template <class T>
  Val<T> param(size_t offset) {
    auto row = k_.arg(&SampleArgs::params) + row_ * uint32_t(sizeof(SampleRow) / 4);
    return k_.assume_uniform(load(row.offset(int64_t(offset / 4)).template as<T>()), Uniform::cluster);
  }

  void body() {
    U32 vocab = k_.arg(&SampleArgs::vocab);
    Share share(k_, s_.splits, s_.vec, vocab);
    const uint32_t words = Cuts::scratch_words(s_.splits);
    auto scratch = k_.shared<uint32_t>(words);
    logits_ = k_.arg(&SampleArgs::logits) + mul_wide(row_, vocab);
    if (s_.masked) {
      share.meet();
      if (s_.logprob) sum_up(share);
      forbid(share, vocab);
    }
    U32 place = param<uint32_t>(offsetof(SampleRow, place));
    Pred placed = place != SampleRow::no_place;
    place = select(placed, place, 0u);
    capacity_ = select(placed, k_.arg(&SampleArgs::capacity), 0u);
    text_ = k_.arg(&SampleArgs::texts) + mul_wide(place, capacity_);
    length_ = param<uint32_t>(offsetof(SampleRow, length));
    const Penalties penalties{
        .repetition = param<float>(offsetof(SampleRow, repetition)),
        .presence = param<float>(offsetof(SampleRow, presence)),
        .frequency = param<float>(offsetof(SampleRow, frequency)),
        .repetition_last = param<uint32_t>(offsetof(SampleRow, repetition_last)),
        .length = length_,
        .prompt = param<uint32_t>(offsetof(SampleRow, prompt)),
        .biases = select(placed, param<uint32_t>(offsetof(SampleRow, biases)), 0u),
        .bias_entries = k_.arg(&SampleArgs::biases) + mul_wide(param<uint32_t>(offsetof(SampleRow, first_bias)), 2u),
        .text = text_,
        .capacity = capacity_};
    auto changed = k_.arg(&SampleArgs::changed) + mul_wide(place, vocab);
    Pred changes = penalties.any();
    k_.when(changes, [&] { penalties.apply(share, logits_, changed, scratch, words); });
    Global<float> row{select(changes, changed.base, logits_.base)};

    if (!s_.masked) share.meet();
    U64 best = best_of(share, row);
    U32 best_id = argmax_index(best);
    F32 largest = argmax_value(best);
    k_.when_else(
        best_id == no_token, [&] { in_one_thread(share, [&] { write(k_.constant(no_token), k_.constant(0.0f)); }); },
        [&] {
          if (s_.logprob && !s_.masked) sum_up(share);
          F32 temperature = param<float>(offsetof(SampleRow, temperature));
          k_.when_else(
              temperature > 0.0f,
              [&] {
                Cuts cuts(share, row, largest, scratch);
                cuts.cut(param<uint32_t>(offsetof(SampleRow, top_k)), param<float>(offsetof(SampleRow, top_p)), vocab);
                draw(share, row, cuts, largest, temperature);
              },
              [&] { in_one_thread(share, [&] { pick(best_id); }); });
        });
  }

  U64 best_of(Share& share, Global<float> of) {
    auto best = k_.var(uint64_t(0));
    share.each_first(of, [&](F32 logit, U32 id) { best = max(best.get(), argmax_key(logit, id)); });
    return share.largest(best.get());
  }

  // What log-probabilities need of the logits as given.
  void sum_up(Share& share) {
    raw_largest_ = argmax_value(best_of(share, logits_));
    auto sum = k_.var(uint64_t(0));
    share.each(logits_, [&](F32 logit, U32) { sum += weight_of(logit - raw_largest_); });
    log_total_ = log_of(to<double>(share.total(sum.get())) * weight_unit);
  }

  // NaN and +infinity stay: a row that has any is found to be invalid. Each block changes what it reads later.
  void forbid(Share& share, U32 vocab) {
    U32 place = param<uint32_t>(offsetof(SampleRow, mask));
    k_.when(place != SampleRow::no_mask, [&] {
      auto mask = k_.arg(&SampleArgs::masks) + mul_wide(place, (vocab + 31u) / 32u);
      constexpr float infinity = std::numeric_limits<float>::infinity();
      share.each(logits_, [&](F32 logit, U32 id) {
        Pred forbidden = ((load(mask + id / 32u) >> (id % 32u)) & 1u) == 0u;
        k_.when(forbidden && logit < infinity, [&] { store(logits_ + id, -infinity); });
      });
      k_.barrier();
    });
  }

  void draw(Share& share, Global<float> row, const Cuts& cuts, F32 largest, F32 temperature) {
    F32 least = to_f32(to_f64(largest) + param<double>(offsetof(SampleRow, log_min_p)));
    U64 random = random_bits(param<uint64_t>(offsetof(SampleRow, seed)), param<uint64_t>(offsetof(SampleRow, step)));
    F64 part = to<double>(random >> 11) * 0x1p-53;
    share.locate(
        row,
        [&](F32 logit, U32 id) {
          U64 weight = weight_of((logit - largest) / temperature);
          return select(logit >= least && cuts.keeps(logit, id), weight, uint64_t(0));
        },
        [&](U64 total) { return to<uint64_t>(part * to<double>(total), Round::rzi); }, [&](U32 id) { pick(id); });
  }

  void in_one_thread(const Share& share, auto&& body) { k_.when(share.rank == 0u && k_.thread() == 0u, body); }

  void pick(U32 id) {
    F32 log_probability = k_.constant(0.0f);
    if (s_.logprob) log_probability = to_f32(to_f64(load(logits_ + id) - raw_largest_) - log_total_);
    write(id, log_probability);
    k_.when(capacity_ > 0u, [&] { store(text_ + length_ % capacity_, id); });
    auto params = k_.arg(&SampleArgs::params) + row_ * uint32_t(sizeof(SampleRow) / 4);
    store(params.offset(offsetof(SampleRow, length) / 4), length_ + 1u);
  }
  void write(U32 id, F32 log_probability) {
    auto out = k_.arg(&SampleArgs::out) + row_ * uint32_t(sizeof(Sampled) / 4);
    store_vec(out, Vec<uint32_t, 2>{id, bitcast<uint32_t>(log_probability)});
  }

  Sample s_;
  Builder<SampleArgs> k_;
  U32 row_, length_;
  Global<float> logits_;   // (vocab) as given
  Global<uint32_t> text_;  // (capacity)
  U32 capacity_;           // 0: the row has no place
  F32 raw_largest_;        // logprob: of the logits as given
  F64 log_total_;          // and the logarithm of their weights' sum
};

}  // namespace

Kernel Sample::build() const {
  check_fields(*this);
  return Chain(*this).build();
}

Grid Sample::grid(const SampleArgs& args) const {
  if (args.vocab == 0 || args.vocab % vec || args.vocab > max_vocab)
    throw Error("sample: a vocabulary of {}; with vec = {} a positive multiple of {} up to {} is expected", args.vocab,
                vec, vec, max_vocab);
  if (args.logits.address % (4 * vec) || args.changed.address % (4 * vec) || args.params.address % 16 ||
      args.out.address % 8 || args.biases.address % 8)
    throw Error(
        "sample: logits and changed must be {}-byte, params 16-byte, out and biases 8-byte aligned, "
        "found {:#x}, {:#x}, {:#x}, {:#x}, {:#x}",
        4 * vec, args.logits.address, args.changed.address, args.params.address, args.out.address, args.biases.address);
  if (masked && !args.masks.address) throw Error("sample: masks are expected where rows may have them, found none");
  if (args.rows > 65535) throw Error("sample: {} rows, 65535 at most", args.rows);
  return {.x = splits, .y = args.rows ? args.rows : 1};
}

uint32_t sample_splits(uint32_t rows, uint32_t sms, bool clusters) {
  uint32_t splits = clusters ? 16 : 1;
  while (splits > 1 && rows * splits > sms) splits /= 2;  // a block of 1024 threads has an SM to itself
  return splits;
}

void add_sample_kernels(std::vector<Entry>& all) {
  all.push_back(entry<Sample>());
  all.push_back(
      preset<Sample>("cluster_sample", "the same, a row shared by a cluster", {.splits = 16, .vec = 4}, "sm_90"));
}

// The most likely tokens: the largest key, then the largest below it, and so on.

Kernel TopTokens::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), {.threads = threads, .min_blocks = 1, .cluster = splits});
  chain_start(k, chained);
  chain_wait(k, chained);
  const U32 row = splits > 1 ? k.special(Special::clusterid_y) : k.block_y();
  k.when(row < k.arg(&Args::rows), [&] {
    const auto params = k.arg(&Args::params) + row * uint32_t(sizeof(SampleRow) / 4);
    const U32 top = k.assume_uniform(load(params.offset(offsetof(SampleRow, top) / 4)), Uniform::cluster);
    const U32 wanted = min(top, k.arg(&Args::most));
    k.when(wanted > 0u, [&] {
      const U32 vocab = k.arg(&Args::vocab);
      Share share(k, splits, 1, vocab);
      const auto logits = k.arg(&Args::logits) + mul_wide(row, vocab);
      const auto largest_below = [&](U64 limit) {
        auto best = k.var(uint64_t(0));
        share.each(logits, [&](F32 logit, U32 id) {
          U64 key = argmax_key(logit, id);
          best = max(best.get(), select(key < limit, key, uint64_t(0)));
        });
        return share.largest(best.get());
      };
      share.meet();
      auto next = k.var(uint64_t(0));
      next = largest_below(k.constant(~uint64_t(0)));
      const F32 largest = argmax_value(next.get());
      auto sum = k.var(uint64_t(0));
      share.each(logits, [&](F32 logit, U32) { sum += weight_of(logit - largest); });
      const F64 log_total = log_of(to<double>(share.total(sum.get())) * weight_unit);
      const auto out = k.arg(&Args::out) + mul_wide(row * k.arg(&Args::most), uint32_t(sizeof(Sampled) / 4));
      k.loop(0u, wanted, 1u, [&](U32 i) {
        U64 key = k.assume_uniform(next.get(), Uniform::cluster);
        k.when(share.rank == 0u && k.thread() == 0u, [&] {
          F32 log_probability = to_f32(to_f64(argmax_value(key) - largest) - log_total);
          store_vec(out + i * uint32_t(sizeof(Sampled) / 4),
                    Vec<uint32_t, 2>{argmax_index(key), bitcast<uint32_t>(log_probability)});
        });
        share.barrier();
        next = largest_below(select(argmax_index(key) != no_token, key, uint64_t(0)));  // then there are no others
      });
    });
  });
  return k.finish();
}

Grid TopTokens::grid(const Args& args) const {
  if (args.vocab == 0 || args.vocab > max_vocab)
    throw Error("{}: a vocabulary of {}, expected 1 to {}", name, args.vocab, max_vocab);
  if (args.out.address % 8) throw Error("{}: out must be 8-byte aligned, found {:#x}", name, args.out.address);
  if (args.rows > 65535) throw Error("{}: {} rows, 65535 at most", name, args.rows);
  return {.x = splits, .y = args.rows ? args.rows : 1};
}

void add_top_tokens_kernels(std::vector<Entry>& all) { all.push_back(entry<TopTokens>()); }

// Threads take rows; the number of the step is written last.

namespace {

constexpr uint32_t step_threads = 128;
constexpr uint32_t sampled_words = sizeof(Sampled) / 4, params_words = sizeof(SampleRow) / 4;
static_assert(sampled_words == 2 && offsetof(Sampled, id) == 0 && offsetof(SampleRow, step) % 8 == 0);

}  // namespace

Kernel StepAdvance::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), step_threads);
  chain_wait(k, chained);  // without chain_start: see the header
  const U32 rows = k.arg(&Args::rows);
  const U64 step = load(k.arg(&Args::step));
  const U64 history_row = step % widen(k.arg(&Args::ring)) * widen(rows);
  k.loop(k.thread(), rows, step_threads, [&](U32 row) {
    const auto position = k.arg(&Args::positions) + row, length = k.arg(&Args::lengths) + row;
    const U32 before = load(position);
    k.when(before < no_position, [&] {
      const auto picked = load_vec<2>(k.arg(&Args::picked) + row * sampled_words);
      store(k.arg(&Args::tokens) + row, select(picked[0] != no_token, picked[0], 0u));
      store(position, before + 1u);
      store(length, load(length) + 1u);
      const auto params = k.arg(&Args::params) + row * params_words;
      const auto drawn = params.offset(offsetof(SampleRow, step) / 4).template as<uint64_t>();
      store(drawn, load(drawn) + uint64_t(1));
      store_vec(k.arg(&Args::history) + (history_row + widen(row)) * uint64_t(sampled_words), picked);
    });
  });
  k.barrier();  // all threads have read the step and written their rows
  k.when(k.thread() == 0u, [&] { store_release(k.arg(&Args::step), step + uint64_t(1), Scope::sys); });
  return k.finish();
}

Grid StepAdvance::grid(const Args& args) const {
  if (args.ring == 0) throw Error("{}: a history of 0 steps", name);
  if (args.picked.address % 8 || args.history.address % 8 || args.params.address % 8 || args.step.address % 8)
    throw Error("{}: picked, history, params and step must be 8-byte aligned", name);
  if (args.rows > (1u << 24)) throw Error("{}: {} rows, {} at most", name, args.rows, 1u << 24);
  return {.x = 1};
}

void add_step_advance_kernels(std::vector<Entry>& all) { all.push_back(entry<StepAdvance>()); }

}  // namespace heddle::kernels
