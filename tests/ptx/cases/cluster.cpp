// Cases of clusters: shared memory of other blocks, atomics on it, the cluster barrier, copies and arrivals between
// blocks.
#include "tests/ptx/cases/blocks.h"

namespace heddle::ptx::cases {

namespace {

constexpr uint32_t part = block_threads * 16;  // bytes of the item that belong to one block

// --- clusters -----------------------------------------------------------------------------------------------------
// Block r of the item gives what block r + 1 holds.
Callable<void(const uint8_t*, uint8_t*)> rotated(uint32_t blocks, uint32_t bytes, uint32_t by) {
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
                         Callable<T(T old, T v)> after) {
  // Each thread acts on its own cell in the next block: the old value, then what that block finds. The cells hold the
  // input of their own block; the operand is the input of the acting one.
  constexpr uint32_t bytes = block_threads * sizeof(T);
  all.push_back(block_case(
      fmt::format("atom.shared_cluster.{}.blocks{}", name, blocks), blocks * bytes, 2 * blocks * bytes,
      [=](AsyncTile& item) {
        auto& k = item.k;
        auto in = (item.in + k.cluster_rank() * bytes).as<T>() + k.thread();
        auto out = (item.out + k.cluster_rank() * (2 * bytes)).as<T>() + k.thread();
        auto cells = k.shared<T>(block_threads);
        Val<T> v = load(in);
        store(cells + k.thread(), v);
        k.cluster_barrier();
        auto there = in_block(cells + k.thread(), neighbour(k, blocks));
        Val<T> old = what == Atomic::cas ? compare_swap(there, v, v) : atomic(what, there, v);
        store(out, old);
        k.cluster_barrier();
        store(out.offset(block_threads), load(cells + k.thread()));
      },
      [=](const uint8_t* in, uint8_t* out) {
        for (uint32_t r = 0; r < blocks; ++r)
          for (uint32_t t = 0; t < block_threads; ++t) {
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
      fmt::format("red.shared_cluster.add.u32.blocks{}", blocks), blocks * block_threads * 4, 4,
      [=](AsyncTile& t) {
        auto& k = t.k;
        auto cell = k.shared<uint32_t>(1);
        one_thread(k, [&] { store(cell, 0u); });
        k.cluster_barrier();
        U32 v = load(t.in.as<uint32_t>() + (k.cluster_rank() * block_threads + k.thread()));
        reduce(Atomic::add, in_block(cell, 0u), v);
        k.cluster_barrier();
        one_thread(k, [&] { k.when(k.cluster_rank() == 0u, [&] { store(t.out.as<uint32_t>(), load(cell)); }); });
      },
      [=](const uint8_t* in, uint8_t* out) {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < blocks * block_threads; ++i) {
          uint32_t v;
          std::memcpy(&v, in + 4 * i, 4);
          sum += v;
        }
        std::memcpy(out, &sum, 4);
      },
      blocks));

  // The cluster barrier in two halves, with other work in between; and the ranks of blocks.
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
      fmt::format("mbarrier.arrive.remote.blocks{}", blocks), blocks * block_threads * 4, blocks * block_threads * 4,
      [=](AsyncTile& t) {
        auto& k = t.k;
        auto cells = k.shared<uint32_t>(blocks * block_threads);
        Mbarrier full = ready_barrier(k, blocks * block_threads);
        k.cluster_barrier();
        U32 me = k.cluster_rank() * block_threads + k.thread();
        store(in_block(cells + me, 0u), load(t.in.as<uint32_t>() + me));
        full.in_block(0u).arrive();
        k.when(k.cluster_rank() == 0u, [&] {
          full.wait(k, 0u);
          for (uint32_t r = 0; r < blocks; ++r)
            store(t.out.as<uint32_t>() + (k.thread() + r * block_threads),
                  load(cells + (block_threads - 1u - k.thread()) + r * block_threads));
        });
        k.cluster_barrier();
      },
      [=](const uint8_t* in, uint8_t* out) {
        for (uint32_t r = 0; r < blocks; ++r)
          for (uint32_t i = 0; i < block_threads; ++i)
            std::memcpy(out + (r * block_threads + i) * 4, in + (r * block_threads + block_threads - 1 - i) * 4, 4);
      },
      blocks));
}

}  // namespace

void add_clusters(std::vector<Case>& all) {
  cluster_cases(all, 2);
  cluster_cases(all, 4);
}

}  // namespace heddle::ptx::cases
