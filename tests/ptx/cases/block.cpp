// Cases across the threads of a block: barriers that reduce, exchanges through shared memory, masks, special registers.
#include <algorithm>
#include <bit>

#include "tests/ptx/cases/threads.h"

namespace heddle::ptx::cases {

namespace {

// Block barriers that join a predicate: none, all, one thread, one warp, random.
void fill_block_votes(Rng& rng, size_t index, uint32_t* in, uint32_t threads) {
  for (uint32_t t = 0; t < threads; ++t) {
    bool p = rng() & 1;
    if (index % 5 == 0) p = false;
    if (index % 5 == 1) p = true;
    if (index % 5 == 2) p = t == index / 5 % threads;
    if (index % 5 == 3) p = t != index / 5 % threads;
    in[t] = (uint32_t(rng()) & ~1u) | uint32_t(p);
  }
}
void barrier_reductions(std::vector<Case>& all) {
  for (uint32_t threads : {32u, 96u, 128u, 512u}) {
    auto add = [&](const char* what, U32 (*body)(Code&, Pred), uint32_t (*expect)(uint32_t count, uint32_t threads)) {
      all.push_back(
          word_case({.name = fmt::format("barrier_{}.threads{}", what, threads),
                     .family = "warp",
                     .threads = threads,
                     .per_item = threads,
                     .in = 1,
                     .out = 1,
                     .body = [=](Builder<Args>& k, const Words& w) -> Words { return {body(k, low_bit(w[0]))}; },
                     .reference =
                         [=](const uint32_t* in, uint32_t* out) {
                           uint32_t count = 0;
                           for (uint32_t t = 0; t < threads; ++t) count += in[t] & 1;
                           std::fill(out, out + threads, expect(count, threads));
                         },
                     .fill = [=](Rng& rng, size_t i, uint32_t* in) { fill_block_votes(rng, i, in, threads); }}));
    };
    add(
        "count", [](Code& k, Pred p) { return k.barrier_count(p); }, [](uint32_t n, uint32_t) { return n; });
    add(
        "all", [](Code& k, Pred p) { return as_word(k, k.barrier_all(p)); },
        [](uint32_t n, uint32_t t) -> uint32_t { return n == t; });
    add(
        "any", [](Code& k, Pred p) { return as_word(k, k.barrier_any(p)); },
        [](uint32_t n, uint32_t) -> uint32_t { return n != 0; });
  }
}

// Exchanges through shared memory, each ordered by another kind of barrier. 128 threads, a word each.
void exchanges(std::vector<Case>& all) {
  auto add = [&](const char* what, Callable<U32(Code&, Shared<uint32_t>, U32)> body,
                 Callable<uint32_t(const uint32_t* in, uint32_t t)> expect) {
    all.push_back(word_case(
        {.name = what,
         .family = "warp",
         .threads = 128,
         .per_item = 128,
         .in = 1,
         .out = 1,
         .body = [=](Builder<Args>& k, const Words& w) -> Words { return {body(k, k.shared<uint32_t>(128), w[0])}; },
         .reference =
             [=](const uint32_t* in, uint32_t* out) {
               for (uint32_t t = 0; t < 128; ++t) out[t] = expect(in, t);
             }}));
  };
  add(
      "bar.sync",
      [](Code& k, Shared<uint32_t> s, U32 v) {
        store(s + k.thread(), v);
        k.barrier();
        return load(s + (k.thread() ^ 127u));
      },
      [](const uint32_t* in, uint32_t t) { return in[t ^ 127]; });
  add(
      "bar.warp.sync",
      [](Code& k, Shared<uint32_t> s, U32 v) {
        store(s + k.thread(), v);
        k.warp_sync();
        return load(s + (k.thread() ^ 31u));
      },
      [](const uint32_t* in, uint32_t t) { return in[t ^ 31]; });
  // each half of the block has a barrier of its own
  add(
      "bar.sync.named",
      [](Code& k, Shared<uint32_t> s, U32 v) {
        store(s + k.thread(), v);
        k.when_else(
            k.warp() < 2u, [&] { k.barrier(1, 64); }, [&] { k.barrier(2, 64); });
        return load(s + (k.thread() ^ 63u));
      },
      [](const uint32_t* in, uint32_t t) { return in[t ^ 63]; });
  // the lower half produces and goes on, the upper half waits
  add(
      "bar.arrive",
      [](Code& k, Shared<uint32_t> s, U32 v) {
        auto result = k.var(v);
        k.when_else(
            k.warp() < 2u,
            [&] {
              store(s + k.thread(), v);
              k.barrier_arrive(3, 128);
            },
            [&] {
              k.barrier(3, 128);
              result = v + load(s + (k.thread() - 64u));
            });
        return result.get();
      },
      [](const uint32_t* in, uint32_t t) { return t < 64 ? in[t] : in[t] + in[t - 64]; });
  // a ring of two slots: full barriers 1 and 2, empty barriers 3 and 4
  add(
      "bar.ring",
      [](Code& k, Shared<uint32_t> s, U32 v) {
        auto sum = k.var(v);
        constexpr uint32_t rounds = 6;
        k.when_else(
            k.warp() < 2u,
            [&] {
              for (uint32_t r = 0; r < rounds; ++r) {
                if (r >= 2) k.barrier(3 + r % 2, 128);
                store(s + (k.thread() + 64 * (r % 2)), v + r * 0x01010101u);
                k.barrier_arrive(1 + r % 2, 128);
              }
            },
            [&] {
              for (uint32_t r = 0; r < rounds; ++r) {
                k.barrier(1 + r % 2, 128);
                sum = sum.get() * 3u + load(s + (k.thread() - 64u + 64 * (r % 2)));
                if (r + 2 < rounds) k.barrier_arrive(3 + r % 2, 128);
              }
            });
        return sum.get();
      },
      [](const uint32_t* in, uint32_t t) {
        uint32_t sum = in[t];
        if (t >= 64)
          for (uint32_t r = 0; r < 6; ++r) sum = sum * 3 + in[t - 64] + r * 0x01010101u;
        return sum;
      });
}

void masks(std::vector<Case>& all) {
  all.push_back(word_case({.name = "activemask",
                           .family = "warp",
                           .in = 1,
                           .out = 1,
                           .body = [](Builder<Args>& k, const Words& w) -> Words { return {w[0] ^ k.active_mask()}; },
                           .reference =
                               [](const uint32_t* in, uint32_t* out) {
                                 for (uint32_t l = 0; l < 32; ++l) out[l] = ~in[l];
                               }}));
  // which lane is chosen is unspecified; exactly one is
  all.push_back(word_case(
      {.name = "elect.sync",
       .family = "warp",
       .in = 1,
       .out = 1,
       .body = [](Builder<Args>& k, const Words& w) -> Words { return {w[0] + popcount(ballot(k.elect_one()))}; },
       .reference =
           [](const uint32_t* in, uint32_t* out) {
             for (uint32_t l = 0; l < 32; ++l) out[l] = in[l] + 1;
           }}));
  all.push_back(word_case({.name = "assume_uniform",
                           .family = "warp",
                           .in = 1,
                           .out = 1,
                           .body = [](Builder<Args>& k, const Words& w) -> Words {
                             // the first lane's word decides for all, which is declared to the verifier
                             U32 first = k.assume_uniform(shuffle(w[0], 0u), Uniform::warp);
                             auto r = k.var(w[0]);
                             k.when((first & 1u) == 0u, [&] { r = shuffle_xor(w[0], 1u); });
                             return {r.get()};
                           },
                           .reference =
                               [](const uint32_t* in, uint32_t* out) {
                                 for (uint32_t l = 0; l < 32; ++l) out[l] = in[0] & 1 ? in[l] : in[l ^ 1];
                               }}));
}

// Special registers. The first word of an item is its index, which is the block's.
void specials(std::vector<Case>& all) {
  constexpr uint32_t threads = 256;
  all.push_back(word_case({.name = "special",
                           .family = "warp",
                           .threads = threads,
                           .per_item = threads,
                           .in = 1,
                           .out = 8,
                           .body = [](Builder<Args>& k, const Words& w) -> Words {
                             return {w[0],
                                     k.thread(),
                                     k.block_id(),
                                     k.lane(),
                                     k.warp(),
                                     k.group(),
                                     k.special(Special::ntid_x) * 3u + k.special(Special::tid_y) + k.block_y() +
                                         k.block_z(),
                                     as_word(k, k.block_id() < k.grid_x())};
                           },
                           .reference =
                               [](const uint32_t* in, uint32_t* out) {
                                 for (uint32_t t = 0; t < threads; ++t, out += 8) {
                                   const uint32_t want[] = {in[t], t, in[0], t % 32, t / 32, t / 128, threads * 3, 1};
                                   std::copy(want, want + 8, out);
                                 }
                               },
                           .fill =
                               [](Rng& rng, size_t index, uint32_t* in) {
                                 for (uint32_t t = 0; t < threads; ++t) in[t] = t ? uint32_t(rng()) : uint32_t(index);
                               }}));
  // clocks only go forward
  all.push_back(word_case({.name = "clock",
                           .family = "warp",
                           .in = 1,
                           .out = 1,
                           .body = [](Builder<Args>& k, const Words& w) -> Words {
                             U64 before = k.clock(), timer = k.globaltimer();
                             k.warp_sync();
                             return {w[0] + as_word(k, k.clock() >= before) + as_word(k, k.globaltimer() >= timer)};
                           },
                           .reference =
                               [](const uint32_t* in, uint32_t* out) {
                                 for (uint32_t l = 0; l < 32; ++l) out[l] = in[l] + 2;
                               }}));
}

}  // namespace

void add_block(std::vector<Case>& all) {
  barrier_reductions(all);
  exchanges(all);
  masks(all);
  specials(all);
}

}  // namespace heddle::ptx::cases
