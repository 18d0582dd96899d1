#include "kernels/mixture/own_experts.h"

#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "ptx/warp.h"

namespace heddle::kernels {

using namespace ptx;

namespace {
constexpr uint32_t own_experts_warps = 4;
}

Kernel OwnExperts::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), own_experts_warps * 32);
  chain_start(k, chained);
  const U32 row = k.block_id() * own_experts_warps + k.warp(), used = k.arg(&Args::used);
  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows), [&] {
    const U64 at = mad_wide(row, used, widen(k.lane()));
    const auto id = k.arg(&Args::ids) + at;
    auto own = k.var(~0u);
    k.when(k.lane() < used, [&] { own = load(id) - k.arg(&Args::first); });
    const Pred here = k.lane() < used && own.get() < k.arg(&Args::count);
    U32 other = k.arg(&Args::count);
    if (!marks) {
      // the lane with the row's first pick of this rank; without any, all lanes have 32
      auto first = k.var(select(here, k.lane(), 32u));
      for (uint32_t mask = 16; mask; mask /= 2) first = min(first.get(), shuffle_xor(first.get(), mask));
      const U32 same = shuffle(own.get(), min(first.get(), 31u));
      other = select(first.get() < 32u, same, 0u);
    }
    k.when(k.lane() < used, [&] {
      store(id, select(here, own.get(), other));
      k.when(!here, [&] { store(k.arg(&Args::weights) + at, 0.0f); });
    });
  });
  return k.finish();
}

Grid OwnExperts::grid(const Args& args) const {
  if (args.used == 0 || args.used > 32) throw Error("{}: {} experts of each row, 1 to 32 expected", name, args.used);
  if (args.count == 0) throw Error("{}: a rank without experts", name);
  return {.x = std::max(1u, (args.rows + own_experts_warps - 1) / own_experts_warps)};
}

void add_own_experts_kernels(std::vector<Entry>& all) { all.push_back(entry<OwnExperts>()); }

}  // namespace heddle::kernels
