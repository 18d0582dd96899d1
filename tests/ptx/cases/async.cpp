// Cases of asynchronous copies and mbarriers inside a block.
#include "tests/ptx/cases/blocks.h"

namespace heddle::ptx::cases {

void add_tensor_copies(std::vector<Case>& all);  // tensor.cpp
void add_clusters(std::vector<Case>& all);       // cluster.cpp

namespace {

constexpr uint32_t threads = block_threads, item_bytes = threads * 16;

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
                                 if (fill == Fill::nothing) {  // an invalid address: no byte of it may be read
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
  auto add = [&](const std::string& name, uint32_t arrivals, Callable<void(Code&, Mbarrier&)> meet) {
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
                 Callable<void(AsyncTile&, Shared<uint8_t>, Mbarrier&)> begin) {
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
  // expected bytes announced in several steps, one of them after its copy began
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
  auto add = [&](const std::string& name, uint32_t bytes, Callable<void(AsyncTile&, Shared<uint8_t>)> finish) {
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

// --- what changes no value ----------------------------------------------------------------------------------------
void no_ops(std::vector<Case>& all) {
  auto add = [&](const char* name, Callable<void(AsyncTile&)> around) {
    all.push_back(block_case(
        name, item_bytes, item_bytes,
        [=](AsyncTile& t) {
          around(t);
          copy_words(t.k, t.out, t.in, item_bytes);
          around(t);
        },
        copied(item_bytes)));
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
  add_clusters(all);
  no_ops(all);
  add_tensor_copies(all);
}

}  // namespace heddle::ptx::cases
