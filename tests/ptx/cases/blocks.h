// Cases in which an item is the work of a block, or of a cluster of blocks.
#pragma once
#include <algorithm>

#include "tests/ptx/cases/threads.h"

namespace heddle::ptx::cases {

inline constexpr uint32_t block_threads = 128;

// An item of `in` and `out` bytes that one block, or a cluster of them, works on.
struct AsyncTile {
  Builder<Args>& k;
  Global<uint8_t> in, out;  // of the item
};
inline Case block_case(const std::string& name, uint32_t in_bytes, uint32_t out_bytes, Callable<void(AsyncTile&)> body,
                       Callable<void(const uint8_t*, uint8_t*)> reference, uint32_t cluster = 1) {
  Case c;
  c.name = name;
  c.family = "async";
  c.in_bytes = in_bytes;
  c.out_bytes = out_bytes;
  c.items_per_block = 1;
  c.blocks_per_item = cluster;
  c.fill = [=](Rng& rng, size_t, uint8_t* in) { random_bytes(rng, in, in_bytes); };
  c.reference = std::move(reference);
  c.build = [=] {
    Builder<Args> k("item", Launch{.threads = block_threads, .cluster = cluster});
    U32 item = cluster == 1 ? k.block_id() : k.special(Special::clusterid_x);
    AsyncTile tile{k, k.arg(&Args::in) + mul_wide(item, in_bytes), k.arg(&Args::out) + mul_wide(item, out_bytes)};
    body(tile);
    return k.finish();
  };
  return c;
}
inline Callable<void(const uint8_t*, uint8_t*)> copied(uint32_t bytes) {
  return [=](const uint8_t* in, uint8_t* out) { std::memcpy(out, in, bytes); };
}

// All threads of the block, a word at a time.
template <Space From, Space To>
void copy_words(Code& k, Ptr<uint8_t, To> to, Ptr<uint8_t, From> from, uint32_t bytes) {
  k.loop(k.thread(), bytes / 4, block_threads,
         [&](U32 i) { store(to.template as<uint32_t>() + i, load(from.template as<uint32_t>() + i)); });
}
void one_thread(Code& k, auto body) { k.when(k.thread() == 0u, body); }
// An mbarrier that the block can use.
inline Mbarrier ready_barrier(Code& k, uint32_t arrivals) {
  Mbarrier b = mbarrier(k);
  one_thread(k, [&] {
    b.init(arrivals);
    fence_mbarrier_init(k);
  });
  k.barrier();
  return b;
}

}  // namespace heddle::ptx::cases
