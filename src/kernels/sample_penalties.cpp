// Penalties: a thread per list entry, all tokens before all biases.
#include "kernels/sample_penalties.h"

#include <cstddef>

#include "kernels/chain.h"

namespace heddle::kernels {

using namespace ptx;

static_assert(sizeof(PenaltyRow) == 32 && offsetof(PenaltyRow, repetition) == 16);
static_assert(sizeof(TokenCount) == 8 && sizeof(TokenBias) == 8);

Kernel ApplyPenalties::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  chain_wait(k, chained);
  U32 row = k.block_id(), vocab = k.arg(&Args::vocab);
  k.when(row < k.arg(&Args::rows), [&] {
    auto params = k.arg(&Args::params) + row * uint32_t(sizeof(PenaltyRow) / 4);
    auto lists = load_vec<4>(params);
    auto penalties = load_vec<4>(params.offset(4).as<float>());
    auto logits = k.arg(&Args::logits) + mul_wide(row, vocab);

    k.loop(k.thread(), lists[1], threads, [&](U32 i) {
      auto entry = load_vec<2>(k.arg(&Args::tokens) + mul_wide(lists[0] + i, 2u));
      U32 id = entry[0], count = entry[1];
      k.when(id < vocab && count > 0u, [&] {
        F32 logit = load(logits + id), repetition = penalties[0];
        logit = select(logit > 0.0f, logit / repetition, logit * repetition);
        store(logits + id, logit - fma(to_f32(count), penalties[2], penalties[1]));
      });
    });
    k.barrier();  // a token may be in both lists
    k.loop(k.thread(), lists[3], threads, [&](U32 i) {
      auto entry = load_vec<2>(k.arg(&Args::biases) + mul_wide(lists[2] + i, 2u));
      U32 id = entry[0];
      k.when(id < vocab, [&] { store(logits + id, load(logits + id) + bitcast<float>(entry[1])); });
    });
  });
  return k.finish();
}

Grid ApplyPenalties::grid(const Args& args) const {
  if (args.params.address % 16 || args.tokens.address % 8 || args.biases.address % 8)
    throw Error("apply_penalties: params must be 16-byte, tokens and biases 8-byte aligned, found {:#x}, {:#x}, {:#x}",
                args.params.address, args.tokens.address, args.biases.address);
  return {.x = args.rows ? args.rows : 1};
}

}  // namespace heddle::kernels
