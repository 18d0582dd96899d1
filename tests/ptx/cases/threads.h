// Cases in which every thread of an item has its own share of the input and of the output: a thread, a warp, a block
// or a cluster is one item.
#pragma once
#include <cstring>

#include "base/error.h"
#include "tests/ptx/cases/case.h"

namespace heddle::ptx::cases {

inline constexpr Scope scopes[] = {Scope::cta, Scope::cluster, Scope::gpu, Scope::sys};

// What the body of such a kernel works with.
struct Place {
  Builder<Args>& k;
  Global<uint8_t> in, out;  // this thread's share
};

struct Threads {
  std::string name, family;
  uint32_t threads = 128;  // per block
  uint32_t per_item = 1;   // threads: 1, 32, `threads`, or `threads` * cluster
  uint32_t cluster = 1;
  uint32_t in_bytes, out_bytes;  // per thread
  Callable<void(Place&)> body;
  Callable<void(const uint8_t* in, uint8_t* out)> reference;  // of the item
  Callable<void(Rng&, size_t index, uint8_t* in)> fill = {};  // of the item; none: random bits
  uint32_t dynamic_shared_bytes = 0;
};

inline void random_bytes(Rng& rng, void* to, size_t bytes) {
  auto* p = static_cast<uint8_t*>(to);
  for (; bytes >= 8; bytes -= 8, p += 8) {
    const uint64_t v = rng();
    std::memcpy(p, &v, 8);
  }
  const uint64_t v = rng();
  std::memcpy(p, &v, bytes);
}

inline Case make_case(Threads t) {
  Case c;
  c.name = t.name;
  c.family = t.family;
  c.in_bytes = t.in_bytes * t.per_item;
  c.out_bytes = t.out_bytes * t.per_item;
  c.items_per_block = t.per_item >= t.threads ? 1 : t.threads / t.per_item;
  c.blocks_per_item = t.cluster;
  c.dynamic_shared_bytes = t.dynamic_shared_bytes;
  c.reference = t.reference;
  c.fill = t.fill ? t.fill : [bytes = c.in_bytes](Rng& rng, size_t, uint8_t* in) { random_bytes(rng, in, bytes); };
  c.build = [t = std::move(t)] {
    Builder<Args> k("item", Launch{.threads = t.threads, .cluster = t.cluster});
    U32 index = k.block_id() * t.threads + k.thread();
    Place place{k, k.arg(&Args::in) + mul_wide(index, t.in_bytes), k.arg(&Args::out) + mul_wide(index, t.out_bytes)};
    // a condition that is the same for all threads that must stay together
    if (t.per_item == 1)
      k.when(index < k.arg(&Args::items), [&] { t.body(place); });
    else if (t.per_item < t.threads)
      k.when(k.block_id() * (t.threads / 32) + k.warp() < k.arg(&Args::items), [&] { t.body(place); });
    else
      t.body(place);
    return k.finish();
  };
  return c;
}

// The same with words: the body gets the thread's words and gives back those to be written.
using Words = std::vector<U32>;
struct WordThreads {
  std::string name, family;
  uint32_t threads = 128, per_item = 32, cluster = 1;
  uint32_t in, out;  // words per thread
  Callable<Words(Builder<Args>&, const Words&)> body;
  Callable<void(const uint32_t* in, uint32_t* out)> reference;  // thread t has in[t * words in ...]
  Callable<void(Rng&, size_t index, uint32_t* in)> fill = {};
};
inline Case word_case(WordThreads w) {
  Threads t{.name = w.name,
            .family = w.family,
            .threads = w.threads,
            .per_item = w.per_item,
            .cluster = w.cluster,
            .in_bytes = 4 * w.in,
            .out_bytes = 4 * w.out,
            .body = {},
            .reference = {}};
  t.body = [in = w.in, body = w.body](Place& p) {
    Words words;
    for (uint32_t i = 0; i < in; ++i) words.push_back(load(p.in.as<uint32_t>().offset(i)));
    Words result = body(p.k, words);
    for (uint32_t i = 0; i < result.size(); ++i) store(p.out.as<uint32_t>().offset(i), result[i]);
  };
  t.reference = [w](const uint8_t* in, uint8_t* out) {
    std::vector<uint32_t> from(w.in * w.per_item), to(w.out * w.per_item);
    std::memcpy(from.data(), in, from.size() * 4);
    w.reference(from.data(), to.data());
    std::memcpy(out, to.data(), to.size() * 4);
  };
  if (w.fill)
    t.fill = [w](Rng& rng, size_t index, uint8_t* in) {
      std::vector<uint32_t> words(w.in * w.per_item);
      w.fill(rng, index, words.data());
      std::memcpy(in, words.data(), words.size() * 4);
    };
  return make_case(std::move(t));
}

inline Pred low_bit(U32 w) { return (w & 1u) != 0u; }
// 1 where p holds, else 0.
inline U32 as_word(Code& k, Pred p) { return select(p, k.constant(1u), 0u); }

}  // namespace heddle::ptx::cases
