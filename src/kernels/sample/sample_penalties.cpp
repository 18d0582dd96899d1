// Penalties: tokens of the text are counted in shared memory, for as many ids at a time as it has words.
#include "kernels/sample/sample_penalties.h"

namespace heddle::kernels {

using namespace ptx;

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

}  // namespace heddle::kernels
