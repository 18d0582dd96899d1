// Causal softmax: one pass finds maximum and sum, a second writes.
#include "kernels/attention/causal_softmax.h"

#include "kernels/spec/catalog.h"
#include "kernels/spec/chain.h"
#include "kernels/spec/reduce.h"

namespace heddle::kernels {

using namespace ptx;

Kernel CausalSoftmax::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), warps * 32);
  chain_start(k, chained);
  U32 row = row_per == block ? k.block_id() : k.block_id() * warps + k.warp();
  U32 mine = row_per == block ? k.thread() : k.lane();
  const uint32_t step = row_per == block ? warps * 32 : 32;
  U32 queries = k.arg(&Args::queries), keys = k.arg(&Args::keys);
  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows), [&] {
    S64 position = to<int64_t>(k.arg(&Args::offset)) + to<int64_t>(row % queries);
    U32 seen = to<uint32_t>(min(max(position + int64_t(1), int64_t(0)), to<int64_t>(keys)));
    U32 window = k.arg(&Args::window);
    // counted from the position, which may lie past the last key
    S64 start = select(window == 0u, k.constant(int64_t(0)), position + int64_t(1) - to<int64_t>(window));
    U32 first = to<uint32_t>(min(max(start, int64_t(0)), to<int64_t>(seen)));

    U64 begin = mul_wide(row, keys);
    auto x = k.arg(&Args::x) + begin, y = k.arg(&Args::y) + begin;
    F32 scale = k.arg(&Args::scale);
    F32 cap = k.arg(&Args::cap);
    auto score = [&](U32 i) {
      F32 s = load(x + i) * scale;
      return capped ? tanh(s / cap) * cap : s;
    };
    MaxAndSum all(k);
    k.loop(first + mine, seen, step, [&](U32 i) { all.add(score(i)); });
    const MaxAndSum::Result result = row_per == block ? all.over_block(k) : all.over_warp();
    F32 part = select(result.sum > 0.0f, rcp(result.sum), 0.0f);  // a row that sees no keys becomes zeros
    k.loop(mine, first, step, [&](U32 i) { store(y + i, 0.0f); });
    k.loop(first + mine, seen, step, [&](U32 i) { store(y + i, exp(score(i) - result.max) * part); });
    k.loop(seen + mine, keys, step, [&](U32 i) { store(y + i, 0.0f); });
  });
  return k.finish();
}

Grid CausalSoftmax::grid(const Args& args) const {
  if (args.rows && (args.queries == 0 || args.rows % args.queries))
    throw Error("causal_softmax: {} rows are not a multiple of {} queries", args.rows, args.queries);
  if (capped && !(args.cap > 0)) throw Error("causal_softmax: a cap of {}; it must be above 0", args.cap);
  const uint32_t per_block = row_per == block ? 1 : warps;
  const uint32_t blocks = args.rows / per_block + (args.rows % per_block != 0);
  return {.x = blocks ? blocks : 1};
}

void add_causal_softmax_kernels(std::vector<Entry>& all) { all.push_back(entry<CausalSoftmax>()); }

}  // namespace heddle::kernels
