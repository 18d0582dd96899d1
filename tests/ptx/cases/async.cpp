// Cases of asynchronous copies, mbarriers and clusters. An item is the work of a block or of a cluster.
#include <algorithm>

#include "tests/ptx/cases/threads.h"

namespace heddle::ptx::cases {

void add_tensor_copies(std::vector<Case>& all);  // tensor.cpp

namespace {

constexpr uint32_t threads = 128;

// An item of `in` and `out` bytes that one block, or a cluster of them, works on.
struct AsyncTile {
  Builder<Args>& k;
  Global<uint8_t> in, out;  // of the item
};
Case block_case(const std::string& name, uint32_t in_bytes, uint32_t out_bytes, std::function<void(AsyncTile&)> body,
                std::function<void(const uint8_t*, uint8_t*)> reference, uint32_t cluster = 1) {
  Case c;
  c.name = name, c.family = "async";
  c.in_bytes = in_bytes, c.out_bytes = out_bytes, c.items_per_block = 1, c.blocks_per_item = cluster;
  c.fill = [=](Rng& rng, size_t, uint8_t* in) { random_bytes(rng, in, in_bytes); };
  c.reference = std::move(reference);
  c.build = [=] {
    Builder<Args> k("item", Launch{.threads = threads, .cluster = cluster});
    U32 item = cluster == 1 ? k.block_id() : k.special(Special::clusterid_x);
    AsyncTile tile{k, k.arg(&Args::in) + mul_wide(item, in_bytes), k.arg(&Args::out) + mul_wide(item, out_bytes)};
    body(tile);
    return k.finish();
  };
  return c;
}
std::function<void(const uint8_t*, uint8_t*)> copied(uint32_t bytes) {
  return [=](const uint8_t* in, uint8_t* out) { std::memcpy(out, in, bytes); };
}

// All threads of the block, a word at a time.
template <Space From, Space To>
void copy_words(Code& k, Ptr<uint8_t, To> to, Ptr<uint8_t, From> from, uint32_t bytes) {
  k.loop(k.thread(), bytes / 4, threads,
         [&](U32 i) { store(to.template as<uint32_t>() + i, load(from.template as<uint32_t>() + i)); });
}
void one_thread(Code& k, auto body) { k.when(k.thread() == 0u, body); }
// An mbarrier that the block can use.
Mbarrier ready_barrier(Code& k, uint32_t arrivals) {
  Mbarrier b = mbarrier(k);
  one_thread(k, [&] {
    b.init(arrivals);
    fence_mbarrier_init(k);
  });
  k.barrier();
  return b;
}

// --- cp.async -----------------------------------------------------------------------------------------------------
// Every thread copies `Bytes`; another thread of the block reads them. Word 4 of a thread's input says how many are
// valid.
enum class Fill { none, zeros, nothing };
template <uint8_t Bytes>
void cp_async(std::vector<Case>& all, Fill fill) {
  const char* const names[] = {"", ".zfill", ".nothing"};
  all.push_back(make_case({.name = fmt::format("cp.async.{}{}", Bytes, names[size_t(fill)]),
                           .family = "async",
                           .threads = threads,
                           .per_item = threads,
                           .in_bytes = 32,
                           .out_bytes = Bytes,
                           .body =
                               [=](Place& p) {
                                 auto& k = p.k;
                                 auto tile = k.shared<uint8_t>(threads * Bytes);
                                 auto mine = tile + k.thread() * Bytes;
                                 U32 valid = load(p.in.as<uint32_t>().offset(4)) % (Bytes + 1u);
                                 if (fill == Fill::none) copy_async<Bytes>(mine, p.in);
                                 if (fill == Fill::zeros) copy_async<Bytes>(mine, p.in, valid);
                                 if (fill == Fill::nothing) {  // an address that is nowhere: no byte of it may be read
                                   U32 some = select(valid % 2u == 0u, k.constant(0u), uint32_t(Bytes));
                                   Global<uint8_t> from{
                                       select(some == 0u, p.in.address() + (1ull << 46), p.in.address())};
                                   copy_async<Bytes>(mine, from, some);
                                 }
                                 copy_commit(k);
                                 copy_wait(k, 0);
                                 k.barrier();
                                 auto other = tile + (threads - 1u - k.thread()) * Bytes;
                                 for (int i = 0; i < Bytes / 4; ++i)
                                   store(p.out.as<uint32_t>().offset(i), load(other.as<uint32_t>().offset(i)));
                               },
                           .reference =
                               [=](const uint8_t* in, uint8_t* out) {
                                 for (uint32_t t = 0; t < threads; ++t) {
                                   const uint8_t* from = in + (threads - 1 - t) * 32;
                                   uint32_t valid;
                                   std::memcpy(&valid, from + 16, 4);
                                   valid %= Bytes + 1u;
                                   if (fill == Fill::none) valid = Bytes;
                                   if (fill == Fill::nothing) valid = valid % 2 ? Bytes : 0;
                                   std::memset(out + t * Bytes, 0, Bytes);
                                   std::memcpy(out + t * Bytes, from, valid);
                                 }
                               }}));
}

// Six chunks through a ring of three, two under way while one is used; order matters in the result.
void cp_async_groups(std::vector<Case>& all) {
  constexpr uint32_t chunks = 6, slots = 3;
  all.push_back(make_case({.name = "cp.async.groups",
                           .family = "async",
                           .threads = threads,
                           .per_item = threads,
                           .in_bytes = 16 * chunks,
                           .out_bytes = 4,
                           .body =
                               [](Place& p) {
                                 auto& k = p.k;
                                 auto ring = k.shared<uint8_t>(threads * 16 * slots) + k.thread() * (16 * slots);
                                 auto begin = [&](uint32_t c) {
                                   if (c < chunks) copy_async<16>(ring.offset(16 * (c % slots)), p.in.offset(16 * c));
                                   copy_commit(k);  // an empty group at the end keeps the count
                                 };
                                 begin(0);
                                 begin(1);
                                 auto hash = k.var(1u);
                                 for (uint32_t c = 0; c < chunks; ++c) {
                                   begin(c + 2);
                                   copy_wait(k, 2);
                                   for (U32 v : load_vec<4>(ring.offset(16 * (c % slots)).as<uint32_t>()))
                                     hash = hash.get() * 31u + v;
                                 }
                                 store(p.out.as<uint32_t>(), hash.get());
                               },
                           .reference =
                               [](const uint8_t* in, uint8_t* out) {
                                 for (uint32_t t = 0; t < threads; ++t) {
                                   uint32_t hash = 1, w[4 * chunks];
                                   std::memcpy(w, in + t * sizeof w, sizeof w);
                                   for (uint32_t v : w) hash = hash * 31 + v;
                                   std::memcpy(out + 4 * t, &hash, 4);
                                 }
                               }}));
}

void cp_async_barriers(std::vector<Case>& all) {
  for (bool noinc : {true, false})
    all.push_back(make_case({.name = fmt::format("cp.async.mbarrier.arrive{}", noinc ? ".noinc" : ""),
                             .family = "async",
                             .threads = threads,
                             .per_item = threads,
                             .in_bytes = 16,
                             .out_bytes = 16,
                             .body =
                                 [=](Place& p) {
                                   auto& k = p.k;
                                   auto tile = k.shared<uint8_t>(threads * 16);
                                   Mbarrier full = ready_barrier(k, threads);
                                   copy_async<16>(tile + k.thread() * 16u, p.in);
                                   full.arrive_after_copies(noinc);
                                   if (!noinc) full.arrive();  // the first one raised the count it then lowers
                                   full.wait(k, 0u);
                                   store_vec(p.out.as<uint32_t>(),
                                             load_vec<4>((tile + (threads - 1u - k.thread()) * 16u).as<uint32_t>()));
                                 },
                             .reference =
                                 [](const uint8_t* in, uint8_t* out) {
                                   for (uint32_t t = 0; t < threads; ++t)
                                     std::memcpy(out + 16 * t, in + 16 * (threads - 1 - t), 16);
                                 }}));
}

// --- mbarriers among the threads of a block ------------------------------------------------------------------------
void mbarriers_alone(std::vector<Case>& all) {
  // A word per thread; the result is the word of the thread opposite, after a barrier that `meet` makes.
  auto add = [&](const std::string& name, uint32_t arrivals, std::function<void(Code&, Mbarrier&)> meet) {
    all.push_back(
        word_case({.name = name,
                   .family = "async",
                   .threads = threads,
                   .per_item = threads,
                   .in = 1,
                   .out = 1,
                   .body = [=](Builder<Args>& k, const Words& w) -> Words {
                     auto tile = k.shared<uint32_t>(threads);
                     Mbarrier b = ready_barrier(k, arrivals);
                     store(tile + k.thread(), w[0]);
                     meet(k, b);
                     return {load(tile + (threads - 1u - k.thread()))};
                   },
                   .reference = [](const uint32_t* in, uint32_t* out) { std::reverse_copy(in, in + threads, out); }}));
  };
  add("mbarrier.arrive", threads, [](Code& k, Mbarrier& b) {
    b.arrive();
    b.wait(k, 0u);
  });
  add("mbarrier.arrive.count", 3 * threads, [](Code& k, Mbarrier& b) {
    b.arrive(3u);
    b.wait(k, 0u);
  });
  add("mbarrier.arrive.warp_leaders", threads / 32, [](Code& k, Mbarrier& b) {
    k.warp_sync();
    k.when(k.lane() == 0u, [&] { b.arrive(); });
    b.wait(k, 0u);
  });
  add("mbarrier.test_wait", threads, [](Code& k, Mbarrier& b) {
    b.arrive();
    k.loop_while([&] { return !b.test(0u); }, [&] { k.nanosleep(20u); });
  });
  add("mbarrier.phases", threads, [](Code& k, Mbarrier& b) {
    for (uint32_t phase = 0; phase < 5; ++phase) {
      b.arrive();
      b.wait(k, phase % 2);
    }
  });
  add("mbarrier.parity.variable", threads, [](Code& k, Mbarrier& b) {
    auto parity = k.var(0u);
    k.loop(0u, 7u, 1u, [&](U32) {
      b.arrive();
      b.wait(k, parity.get());
      parity = parity.get() ^ 1u;
    });
  });
  add("mbarrier.inval", threads, [](Code& k, Mbarrier& b) {
    b.arrive();
    b.wait(k, 0u);
    k.barrier();
    one_thread(k, [&] {
      b.invalidate();
      b.init(1u);
      b.arrive();
    });
    k.barrier();
    b.wait(k, 0u);
  });

  // Warps 0 and 1 fill a ring of two slots, warps 2 and 3 empty it.
  constexpr uint32_t rounds = 6, slots = 2;
  all.push_back(word_case({.name = "mbarrier.ring",
                           .family = "async",
                           .threads = threads,
                           .per_item = threads,
                           .in = 1,
                           .out = 1,
                           .body = [](Builder<Args>& k, const Words& w) -> Words {
                             auto ring = k.shared<uint32_t>(64 * slots);
                             auto full = mbarriers(k, slots), empty = mbarriers(k, slots);
                             one_thread(k, [&] {
                               for (auto& b : full) b.init(64u);
                               for (auto& b : empty) b.init(64u);
                               fence_mbarrier_init(k);
                             });
                             k.barrier();
                             auto sum = k.var(w[0]);
                             k.when_else(
                                 k.warp() < 2u,
                                 [&] {
                                   for (uint32_t r = 0; r < rounds; ++r) {
                                     // the first round through the ring passes: parity 1 is the phase before
                                     empty[r % slots].wait(k, r / slots % 2 ^ 1);
                                     store(ring + (k.thread() + 64 * (r % slots)), w[0] + r * 0x01010101u);
                                     full[r % slots].arrive();
                                   }
                                 },
                                 [&] {
                                   for (uint32_t r = 0; r < rounds; ++r) {
                                     full[r % slots].wait(k, r / slots % 2);
                                     sum = sum.get() * 3u + load(ring + (k.thread() - 64u + 64 * (r % slots)));
                                     empty[r % slots].arrive();
                                   }
                                 });
                             return {sum.get()};
                           },
                           .reference =
                               [](const uint32_t* in, uint32_t* out) {
                                 for (uint32_t t = 0; t < threads; ++t) {
                                   out[t] = in[t];
                                   if (t >= 64)
                                     for (uint32_t r = 0; r < rounds; ++r)
                                       out[t] = out[t] * 3 + in[t - 64] + r * 0x01010101u;
                                 }
                               }}));
}

// --- bulk copies --------------------------------------------------------------------------------------------------
void bulk_loads(std::vector<Case>& all) {
  auto add = [&](const std::string& name, uint32_t bytes,
                 std::function<void(AsyncTile&, Shared<uint8_t>, Mbarrier&)> begin) {
    all.push_back(block_case(
        name, bytes, bytes,
        [=](AsyncTile& t) {
          auto tile = t.k.shared<uint8_t>(bytes);
          Mbarrier full = ready_barrier(t.k, 1);
          one_thread(t.k, [&] { begin(t, tile, full); });
          full.wait(t.k, 0u);
          copy_words(t.k, t.out, tile, bytes);
        },
        copied(bytes)));
  };
  for (uint32_t bytes : {16u, 48u, 1024u, 4096u, 16384u})
    add(fmt::format("cp.async.bulk.load.{}", bytes), bytes, [=](AsyncTile& t, Shared<uint8_t> tile, Mbarrier& full) {
      full.arrive_expect_bytes(bytes);
      bulk_load(tile, t.in, bytes, full);
    });
  for (L2 evict : {L2::evict_first, L2::evict_last, L2::evict_normal})
    add(fmt::format("cp.async.bulk.load.policy{}", int(evict)), 2048,
        [=](AsyncTile& t, Shared<uint8_t> tile, Mbarrier& full) {
          full.arrive_expect_bytes(2048u);
          bulk_load(tile, t.in, 2048u, full, t.k.cache_policy(evict));
        });
  add("cp.async.bulk.load.parts", 2048, [](AsyncTile& t, Shared<uint8_t> tile, Mbarrier& full) {
    full.arrive_expect_bytes(2048u);
    uint32_t at = 0;
    for (uint32_t part : {16u, 512u, 1008u, 512u}) {
      bulk_load(tile.offset(at), t.in.offset(at), part, full);
      at += part;
    }
  });
  // bytes told in several steps, one of them after its copy began
  add("cp.async.bulk.load.expect", 2048, [](AsyncTile& t, Shared<uint8_t> tile, Mbarrier& full) {
    full.expect_bytes(1024u);
    bulk_load(tile, t.in, 1024u, full);
    bulk_load(tile.offset(1024), t.in.offset(1024), 1024u, full);
    full.expect_bytes(1024u);
    full.arrive();
  });
  // sizes that only the device knows
  add("cp.async.bulk.load.size", 2048, [](AsyncTile& t, Shared<uint8_t> tile, Mbarrier& full) {
    U32 first = (load(t.in.as<uint32_t>()) % 127u + 1u) * 16u;
    full.arrive_expect_bytes(2048u);
    bulk_load(tile, t.in, first, full);
    bulk_load(tile + first, t.in + first, 2048u - first, full);
  });

  // A ring of two slots: thread 0 of warp 0 begins copies, all use them.
  constexpr uint32_t chunk = 512, rounds = 6, slots = 2;
  all.push_back(block_case(
      "cp.async.bulk.load.ring", chunk * rounds, chunk * rounds,
      [](AsyncTile& t) {
        auto& k = t.k;
        auto ring = k.shared<uint8_t>(chunk * slots);
        auto full = mbarriers(k, slots);
        one_thread(k, [&] {
          for (auto& b : full) b.init(1u);
          fence_mbarrier_init(k);
        });
        k.barrier();
        auto begin = [&](uint32_t r) {
          if (r < rounds)
            one_thread(k, [&] {
              full[r % slots].arrive_expect_bytes(chunk);
              bulk_load(ring.offset(chunk * (r % slots)), t.in.offset(chunk * r), chunk, full[r % slots]);
            });
        };
        begin(0);
        begin(1);
        for (uint32_t r = 0; r < rounds; ++r) {
          full[r % slots].wait(k, r / slots % 2);
          copy_words(k, t.out.offset(chunk * r), ring.offset(chunk * (r % slots)), chunk);
          k.barrier();  // all have read the slot
          begin(r + slots);
        }
      },
      copied(chunk * rounds)));
}

void bulk_stores(std::vector<Case>& all) {
  // Threads write the tile, one thread stores it.
  auto add = [&](const std::string& name, uint32_t bytes, std::function<void(AsyncTile&, Shared<uint8_t>)> finish) {
    all.push_back(block_case(
        name, bytes, bytes,
        [=](AsyncTile& t) {
          auto tile = t.k.shared<uint8_t>(bytes);
          copy_words(t.k, tile, t.in, bytes);
          fence_async_shared(t.k);
          t.k.barrier();
          finish(t, tile);
        },
        copied(bytes)));
  };
  for (uint32_t bytes : {16u, 48u, 1024u, 4096u, 16384u})
    add(fmt::format("cp.async.bulk.store.{}", bytes), bytes, [=](AsyncTile& t, Shared<uint8_t> tile) {
      one_thread(t.k, [&] {
        bulk_store(t.out, tile, bytes);
        bulk_commit(t.k);
        bulk_wait(t.k, 0);
      });
    });
  add("cp.async.bulk.store.fence_all", 1024, [](AsyncTile& t, Shared<uint8_t> tile) {
    fence_async(t.k);
    t.k.barrier();
    one_thread(t.k, [&] {
      bulk_store(t.out, tile, 1024u);
      bulk_commit(t.k);
      bulk_wait(t.k, 0);
    });
  });
  // the tile is used again as soon as it has been read
  add("cp.async.bulk.store.read", 2048, [](AsyncTile& t, Shared<uint8_t> tile) {
    one_thread(t.k, [&] {
      bulk_store(t.out, tile, 2048u);
      bulk_commit(t.k);
      bulk_wait(t.k, 0, true);
    });
    t.k.barrier();
    t.k.loop(t.k.thread(), 512u, threads, [&](U32 i) { store(tile.as<uint32_t>() + i, 0xdeadbeefu); });
    one_thread(t.k, [&] { bulk_wait(t.k, 0); });
  });
  // two groups; the source of the first may be used again while the second is under way
  add("cp.async.bulk.store.groups", 2048, [](AsyncTile& t, Shared<uint8_t> tile) {
    one_thread(t.k, [&] {
      bulk_store(t.out, tile, 1024u);
      bulk_commit(t.k);
      bulk_store(t.out.offset(1024), tile.offset(1024), 512u);
      bulk_store(t.out.offset(1536), tile.offset(1536), 512u);
      bulk_commit(t.k);
      bulk_wait(t.k, 1, true);
      store(tile.as<uint32_t>(), 0xdeadbeefu);
      bulk_wait(t.k, 0);
    });
  });
  // in by one engine, out by the other
  all.push_back(block_case(
      "cp.async.bulk.through", 4096, 4096,
      [](AsyncTile& t) {
        auto tile = t.k.shared<uint8_t>(4096);
        Mbarrier full = ready_barrier(t.k, 1);
        one_thread(t.k, [&] {
          full.arrive_expect_bytes(4096u);
          bulk_load(tile, t.in, 4096u, full);
        });
        full.wait(t.k, 0u);
        one_thread(t.k, [&] {
          bulk_store(t.out, tile, 4096u);
          bulk_commit(t.k);
          bulk_wait(t.k, 0);
        });
      },
      copied(4096)));
}

// --- clusters -----------------------------------------------------------------------------------------------------
constexpr uint32_t part = threads * 16;  // bytes of the item that belong to one block

// Block r of the item gives what block r + 1 holds.
std::function<void(const uint8_t*, uint8_t*)> rotated(uint32_t blocks, uint32_t bytes, uint32_t by) {
  return [=](const uint8_t* in, uint8_t* out) {
    for (uint32_t r = 0; r < blocks; ++r) std::memcpy(out + r * bytes, in + (r + by) % blocks * bytes, bytes);
  };
}
U32 neighbour(Code& k, uint32_t blocks, uint32_t by = 1) { return (k.cluster_rank() + by) % blocks; }
AsyncTile share(AsyncTile& t, uint32_t bytes) {
  return {t.k, t.in + t.k.cluster_rank() * bytes, t.out + t.k.cluster_rank() * bytes};
}

// Each thread moves 16 bytes between blocks, in accesses of N values of T.
template <class T, size_t N>
void distributed(std::vector<Case>& all, const std::string& type, uint32_t blocks, Access how = {},
                 const std::string& suffix = "") {
  constexpr uint32_t count = 16 / sizeof(T) / N;
  using L = Loaded<T>;
  auto read = [=](auto p) {
    if constexpr (N == 1)
      return Vec<L, 1>{load(p, how)};
    else
      return load_vec<N>(p, how);
  };
  auto write = [=](auto p, const Vec<L, N>& v, Access a) {
    if constexpr (N == 1)
      store(p, v[0], a);
    else
      store_vec(p, v, a);
  };
  auto plain = [=](auto p) {
    if constexpr (N == 1)
      return Vec<L, 1>{load(p)};
    else
      return load_vec<N>(p);
  };
  all.push_back(block_case(
      fmt::format("ld{}.shared_cluster.{}.blocks{}", suffix, type, blocks), blocks * part, blocks * part,
      [=](AsyncTile& item) {
        AsyncTile t = share(item, part);
        auto& k = t.k;
        auto tile = k.shared<uint8_t>(part);
        copy_words(k, tile, t.in, part);
        k.cluster_barrier();
        auto there = in_block(tile + k.thread() * 16u, neighbour(k, blocks)).template as<T>();
        auto to = (t.out + k.thread() * 16u).as<T>();
        for (uint32_t i = 0; i < count; ++i) write(to.offset(i * N), read(there.offset(i * N)), {});
        k.cluster_barrier();  // a block must not end while others read it
      },
      rotated(blocks, part, 1), blocks));
  Access storing = how;
  if (storing.order == Order::acquire) storing.order = Order::release;
  all.push_back(block_case(
      fmt::format("st{}.shared_cluster.{}.blocks{}", suffix == ".acquire" ? ".release" : suffix, type, blocks),
      blocks * part, blocks * part,
      [=](AsyncTile& item) {
        AsyncTile t = share(item, part);
        auto& k = t.k;
        auto tile = k.shared<uint8_t>(part);
        k.cluster_barrier();  // all blocks have begun
        auto there = in_block(tile + k.thread() * 16u, neighbour(k, blocks)).template as<T>();
        auto from = (t.in + k.thread() * 16u).as<T>();
        for (uint32_t i = 0; i < count; ++i) write(there.offset(i * N), plain(from.offset(i * N)), storing);
        k.cluster_barrier();
        copy_words(k, t.out, tile, part);
      },
      rotated(blocks, part, blocks - 1), blocks));
}

template <class T>
void distributed_atomics(std::vector<Case>& all, Atomic what, const std::string& name, uint32_t blocks,
                         std::function<T(T old, T v)> after) {
  // Each thread acts on its own cell in the next block: the old value, then what that block finds. The cells hold the
  // input of their own block; the operand is the input of the acting one.
  constexpr uint32_t bytes = threads * sizeof(T);
  all.push_back(block_case(
      fmt::format("atom.shared_cluster.{}.blocks{}", name, blocks), blocks * bytes, 2 * blocks * bytes,
      [=](AsyncTile& item) {
        auto& k = item.k;
        auto in = (item.in + k.cluster_rank() * bytes).as<T>() + k.thread();
        auto out = (item.out + k.cluster_rank() * (2 * bytes)).as<T>() + k.thread();
        auto cells = k.shared<T>(threads);
        Val<T> v = load(in);
        store(cells + k.thread(), v);
        k.cluster_barrier();
        auto there = in_block(cells + k.thread(), neighbour(k, blocks));
        Val<T> old = what == Atomic::cas ? compare_swap(there, v, v) : atomic(what, there, v);
        store(out, old);
        k.cluster_barrier();
        store(out.offset(threads), load(cells + k.thread()));
      },
      [=](const uint8_t* in, uint8_t* out) {
        for (uint32_t r = 0; r < blocks; ++r)
          for (uint32_t t = 0; t < threads; ++t) {
            auto at = [&](uint32_t block) {
              T v;
              std::memcpy(&v, in + (block % blocks) * bytes + t * sizeof v, sizeof v);
              return v;
            };
            const T old = at(r + 1), now = after(at(r), at(r + blocks - 1));
            std::memcpy(out + r * 2 * bytes + t * sizeof(T), &old, sizeof old);
            std::memcpy(out + r * 2 * bytes + bytes + t * sizeof(T), &now, sizeof now);
          }
      },
      blocks));
}

void cluster_cases(std::vector<Case>& all, uint32_t blocks) {
  distributed<uint8_t, 1>(all, "u8", blocks);
  distributed<int8_t, 4>(all, "v4.s8", blocks);
  distributed<uint16_t, 1>(all, "u16", blocks);
  distributed<heddle::f16, 2>(all, "v2.f16", blocks);
  distributed<uint32_t, 1>(all, "u32", blocks);
  distributed<int32_t, 2>(all, "v2.s32", blocks);
  distributed<float, 4>(all, "v4.f32", blocks);
  distributed<uint64_t, 1>(all, "u64", blocks);
  distributed<double, 2>(all, "v2.f64", blocks);
  distributed<uint32_t, 1>(all, "u32", blocks, {.order = Order::relaxed, .scope = Scope::cluster}, ".relaxed");
  distributed<uint32_t, 1>(all, "u32", blocks, {.order = Order::acquire, .scope = Scope::cluster}, ".acquire");

  using U = uint32_t;
  using UL = uint64_t;
  distributed_atomics<U>(all, Atomic::add, "add.u32", blocks, [](U a, U b) { return a + b; });
  distributed_atomics<int32_t>(all, Atomic::min, "min.s32", blocks,
                               [](int32_t a, int32_t b) { return std::min(a, b); });
  distributed_atomics<U>(all, Atomic::max, "max.u32", blocks, [](U a, U b) { return std::max(a, b); });
  distributed_atomics<U>(all, Atomic::bit_and, "and.b32", blocks, [](U a, U b) { return a & b; });
  distributed_atomics<U>(all, Atomic::bit_xor, "xor.b32", blocks, [](U a, U b) { return a ^ b; });
  distributed_atomics<U>(all, Atomic::exch, "exch.b32", blocks, [](U, U b) { return b; });
  distributed_atomics<U>(all, Atomic::cas, "cas.b32", blocks, [](U a, U) { return a; });
  distributed_atomics<U>(all, Atomic::inc, "inc.u32", blocks, [](U a, U b) { return a >= b ? 0 : a + 1; });
  distributed_atomics<UL>(all, Atomic::add, "add.u64", blocks, [](UL a, UL b) { return a + b; });
  distributed_atomics<UL>(all, Atomic::max, "max.u64", blocks, [](UL a, UL b) { return std::max(a, b); });

  // Every thread of every block adds to one cell of block 0.
  all.push_back(block_case(
      fmt::format("red.shared_cluster.add.u32.blocks{}", blocks), blocks * threads * 4, 4,
      [=](AsyncTile& t) {
        auto& k = t.k;
        auto cell = k.shared<uint32_t>(1);
        one_thread(k, [&] { store(cell, 0u); });
        k.cluster_barrier();
        U32 v = load(t.in.as<uint32_t>() + (k.cluster_rank() * threads + k.thread()));
        reduce(Atomic::add, in_block(cell, 0u), v);
        k.cluster_barrier();
        one_thread(k, [&] { k.when(k.cluster_rank() == 0u, [&] { store(t.out.as<uint32_t>(), load(cell)); }); });
      },
      [=](const uint8_t* in, uint8_t* out) {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < blocks * threads; ++i) {
          uint32_t v;
          std::memcpy(&v, in + 4 * i, 4);
          sum += v;
        }
        std::memcpy(out, &sum, 4);
      },
      blocks));

  // The cluster barrier in two halves, with work of one's own in between; and who is who.
  for (Order order : {Order::release, Order::relaxed})
    all.push_back(block_case(
        fmt::format("barrier.cluster.{}.blocks{}", order == Order::release ? "release" : "relaxed", blocks),
        blocks * part, blocks * part,
        [=](AsyncTile& item) {
          AsyncTile t = share(item, part);
          auto& k = t.k;
          auto tile = k.shared<uint8_t>(part);
          copy_words(k, tile, t.in, part);
          if (order == Order::relaxed) k.fence(Order::acq_rel, Scope::cluster);
          k.cluster_arrive(order);
          k.when((k.cluster_rank() != k.block_id() % blocks) || (k.special(Special::cluster_blocks) != blocks),
                 [&] { k.trap(); });
          k.cluster_wait();
          auto there = in_block(tile + k.thread() * 16u, neighbour(k, blocks)).as<uint32_t>();
          store_vec((t.out + k.thread() * 16u).as<uint32_t>(), load_vec<4>(there));
          k.cluster_barrier();
        },
        rotated(blocks, part, 1), blocks));

  // A bulk copy into the next block's shared memory, reported to that block's barrier.
  for (bool remote_expect : {false, true})
    all.push_back(block_case(
        fmt::format("cp.async.bulk.shared_cluster{}.blocks{}", remote_expect ? ".remote_expect" : "", blocks),
        blocks * part, blocks * part,
        [=](AsyncTile& item) {
          AsyncTile t = share(item, part);
          auto& k = t.k;
          auto from = k.shared<uint8_t>(part), to = k.shared<uint8_t>(part);
          Mbarrier full = ready_barrier(k, 1);
          if (!remote_expect) one_thread(k, [&] { full.arrive_expect_bytes(part); });
          copy_words(k, from, t.in, part);
          fence_async_shared(k);
          k.cluster_barrier();  // all barriers are ready, and this block has written its source
          one_thread(k, [&] {
            U32 next = neighbour(k, blocks);
            Mbarrier::Remote there = full.in_block(next);
            if (remote_expect) there.arrive_expect_bytes(part);
            bulk_copy(in_block(to, next), from, part, there);
          });
          full.wait(k, 0u);
          copy_words(k, t.out, to, part);
          k.cluster_barrier();
        },
        rotated(blocks, part, blocks - 1), blocks));

  // All threads of the cluster write to block 0 and arrive on its barrier; block 0 waits and reads.
  all.push_back(block_case(
      fmt::format("mbarrier.arrive.remote.blocks{}", blocks), blocks * threads * 4, blocks * threads * 4,
      [=](AsyncTile& t) {
        auto& k = t.k;
        auto cells = k.shared<uint32_t>(blocks * threads);
        Mbarrier full = ready_barrier(k, blocks * threads);
        k.cluster_barrier();
        U32 me = k.cluster_rank() * threads + k.thread();
        store(in_block(cells + me, 0u), load(t.in.as<uint32_t>() + me));
        full.in_block(0u).arrive();
        k.when(k.cluster_rank() == 0u, [&] {
          full.wait(k, 0u);
          for (uint32_t r = 0; r < blocks; ++r)
            store(t.out.as<uint32_t>() + (k.thread() + r * threads),
                  load(cells + (threads - 1u - k.thread()) + r * threads));
        });
        k.cluster_barrier();
      },
      [=](const uint8_t* in, uint8_t* out) {
        for (uint32_t r = 0; r < blocks; ++r)
          for (uint32_t i = 0; i < threads; ++i)
            std::memcpy(out + (r * threads + i) * 4, in + (r * threads + threads - 1 - i) * 4, 4);
      },
      blocks));
}

// --- what changes no value ----------------------------------------------------------------------------------------
void no_ops(std::vector<Case>& all) {
  auto add = [&](const char* name, std::function<void(AsyncTile&)> around) {
    all.push_back(block_case(
        name, part, part,
        [=](AsyncTile& t) {
          around(t);
          copy_words(t.k, t.out, t.in, part);
          around(t);
        },
        copied(part)));
  };
  add("griddepcontrol.wait", [](AsyncTile& t) { t.k.grid_wait(); });
  add("griddepcontrol.launch_dependents", [](AsyncTile& t) { t.k.grid_launch_dependents(); });
  add("nanosleep", [](AsyncTile& t) { t.k.nanosleep(50u); });
  add("nanosleep.register", [](AsyncTile& t) { t.k.nanosleep(t.k.thread()); });
  add("fence.proxy.async", [](AsyncTile& t) { fence_async(t.k); });
  add("fence.proxy.async.shared", [](AsyncTile& t) { fence_async_shared(t.k); });
  add("fence.proxy.async.global", [](AsyncTile& t) { fence_async_global(t.k); });
  add("fence.mbarrier_init", [](AsyncTile& t) { fence_mbarrier_init(t.k); });
}

}  // namespace

void add_async(std::vector<Case>& all) {
  for (Fill fill : {Fill::none, Fill::zeros, Fill::nothing}) {
    cp_async<4>(all, fill);
    cp_async<8>(all, fill);
    cp_async<16>(all, fill);
  }
  cp_async_groups(all);
  cp_async_barriers(all);
  mbarriers_alone(all);
  bulk_loads(all);
  bulk_stores(all);
  cluster_cases(all, 2);
  cluster_cases(all, 4);
  no_ops(all);
  add_tensor_copies(all);
}

}  // namespace heddle::ptx::cases
