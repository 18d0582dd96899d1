// Cases across the threads of a warp: shuffles, votes, matches, reductions.
#include <algorithm>
#include <bit>

#include "tests/ptx/cases/threads.h"

namespace heddle::ptx::cases {

void add_block(std::vector<Case>& all);  // block.cpp

namespace {

const char* name_of_shuffle(ShuffleMode m) {
  const char* const names[] = {"bfly", "idx", "up", "down"};
  return names[size_t(m)];
}

// What lane `lane` gets: shfl.sync as the PTX manual defines it, for the clamp operand of whole segments.
struct From {
  uint32_t lane;
  bool in_range;
};
From shuffled_from(ShuffleMode mode, uint32_t lane, uint32_t b, uint32_t width) {
  b &= 31;
  const int first = int(lane / width * width), last = first + int(width) - 1;
  int j = 0;
  bool ok = false;
  switch (mode) {
    case ShuffleMode::up:
      j = int(lane) - int(b);
      ok = j >= first;
      break;
    case ShuffleMode::down:
      j = int(lane + b);
      ok = j <= last;
      break;
    case ShuffleMode::xor_:
      j = int(lane ^ b);
      ok = j <= last;
      break;
    case ShuffleMode::idx:
      j = first + int(b % width);
      ok = true;
      break;
  }
  return {uint32_t(ok ? j : int(lane)), ok};
}

template <class T>
Val<T> shuffle_any(ShuffleMode m, Val<T> v, Arg<uint32_t> b, uint32_t width) {
  switch (m) {
    case ShuffleMode::xor_:
      return shuffle_xor(v, b, width);
    case ShuffleMode::idx:
      return shuffle(v, b, width);
    case ShuffleMode::up:
      return shuffle_up(v, b, width);
    case ShuffleMode::down:
      return shuffle_down(v, b, width);
  }
  return v;
}

constexpr ShuffleMode shuffle_modes[] = {ShuffleMode::xor_, ShuffleMode::idx, ShuffleMode::up, ShuffleMode::down};

// Word 0 the value, word 1 the lane operand. Low items: the same operand in all lanes, 0 to 31; then any bits.
void fill_shuffle(Rng& rng, size_t index, uint32_t* in) {
  for (uint32_t lane = 0; lane < 32; ++lane) {
    in[2 * lane] = uint32_t(rng());
    in[2 * lane + 1] = index < 32 ? uint32_t(index) : index % 2 ? uint32_t(rng() % 32) : uint32_t(rng());
  }
}

template <class T>
void shuffles(std::vector<Case>& all, const char* type) {
  for (ShuffleMode mode : shuffle_modes)
    for (uint32_t width : {32u, 16u, 8u, 4u, 2u}) {
      const std::string base = fmt::format("shfl.{}.{}.width{}", name_of_shuffle(mode), type, width);
      all.push_back(word_case({.name = base,
                               .family = "warp",
                               .in = 2,
                               .out = 1,
                               .body = [=](Builder<Args>&, const Words& w) -> Words {
                                 Val<T> v = bitcast<T>(w[0]);
                                 return {bitcast<uint32_t>(shuffle_any(mode, v, w[1], width))};
                               },
                               .reference =
                                   [=](const uint32_t* in, uint32_t* out) {
                                     for (uint32_t l = 0; l < 32; ++l)
                                       out[l] = in[2 * shuffled_from(mode, l, in[2 * l + 1], width).lane];
                                   },
                               .fill = fill_shuffle}));
      all.push_back(word_case({.name = base + ".checked",
                               .family = "warp",
                               .in = 2,
                               .out = 2,
                               .body = [=](Builder<Args>& k, const Words& w) -> Words {
                                 auto s = shuffle_checked(mode, bitcast<T>(w[0]), w[1], width);
                                 return {bitcast<uint32_t>(s.value), as_word(k, s.in_range)};
                               },
                               .reference =
                                   [=](const uint32_t* in, uint32_t* out) {
                                     for (uint32_t l = 0; l < 32; ++l) {
                                       const From f = shuffled_from(mode, l, in[2 * l + 1], width);
                                       out[2 * l] = in[2 * f.lane];
                                       out[2 * l + 1] = f.in_range;
                                     }
                                   },
                               .fill = fill_shuffle}));
    }
}

// The operand as an immediate: one case does several.
void immediate_shuffles(std::vector<Case>& all) {
  constexpr uint32_t amounts[] = {0, 1, 2, 5, 16, 31};
  for (ShuffleMode mode : shuffle_modes)
    all.push_back(word_case({.name = fmt::format("shfl.{}.immediate", name_of_shuffle(mode)),
                             .family = "warp",
                             .in = 1,
                             .out = std::size(amounts),
                             .body = [=](Builder<Args>&, const Words& w) -> Words {
                               Words r;
                               for (uint32_t b : amounts) r.push_back(shuffle_any(mode, w[0], b, 32));
                               return r;
                             },
                             .reference =
                                 [=](const uint32_t* in, uint32_t* out) {
                                   for (uint32_t l = 0; l < 32; ++l)
                                     for (uint32_t b : amounts) *out++ = in[shuffled_from(mode, l, b, 32).lane];
                                 }}));
}

// Bit 0 of each lane's word is the predicate. Low items: none, all, each lane alone, each lane missing.
void fill_votes(Rng& rng, size_t index, uint32_t* in) {
  uint32_t bits = uint32_t(rng());
  if (index == 0) bits = 0;
  if (index == 1) bits = ~0u;
  if (index >= 2 && index < 34) bits = 1u << (index - 2);
  if (index >= 34 && index < 66) bits = ~(1u << (index - 34));
  for (uint32_t l = 0; l < 32; ++l) in[l] = (uint32_t(rng()) & ~1u) | (bits >> l & 1);
}
uint32_t votes(const uint32_t* in) {
  uint32_t bits = 0;
  for (uint32_t l = 0; l < 32; ++l) bits |= (in[l] & 1) << l;
  return bits;
}
void vote_case(std::vector<Case>& all, const char* what, U32 (*body)(Code&, Pred), uint32_t (*expect)(uint32_t)) {
  all.push_back(
      word_case({.name = fmt::format("vote.{}", what),
                 .family = "warp",
                 .in = 1,
                 .out = 1,
                 .body = [=](Builder<Args>& k, const Words& w) -> Words { return {body(k, low_bit(w[0]))}; },
                 .reference = [=](const uint32_t* in, uint32_t* out) { std::fill(out, out + 32, expect(votes(in))); },
                 .fill = fill_votes}));
}

void vote_cases(std::vector<Case>& all) {
  vote_case(
      all, "all", [](Code& k, Pred p) { return as_word(k, vote_all(p)); },
      [](uint32_t b) -> uint32_t { return b == ~0u; });
  vote_case(
      all, "any", [](Code& k, Pred p) { return as_word(k, vote_any(p)); },
      [](uint32_t b) -> uint32_t { return b != 0; });
  vote_case(
      all, "uni", [](Code& k, Pred p) { return as_word(k, vote_uniform(p)); },
      [](uint32_t b) -> uint32_t { return b == 0 || b == ~0u; });
  vote_case(
      all, "ballot", [](Code&, Pred p) { return ballot(p); }, [](uint32_t b) { return b; });
}

// Two words per lane: few different values, and often the same in all lanes.
void fill_matches(Rng& rng, size_t index, uint32_t* in) {
  const uint64_t kinds = index % 4 == 0 ? 1 : index % 4 == 1 ? 2 : index % 4 == 2 ? 7 : 32;
  const uint64_t base = rng();
  for (uint32_t l = 0; l < 32; ++l) {
    // the halves differ apart: in the low word, the high word or both
    const uint64_t v = base ^ (rng() % kinds) << (index % 3 == 0 ? 0 : index % 3 == 1 ? 32 : 28);
    in[2 * l] = uint32_t(v);
    in[2 * l + 1] = uint32_t(v >> 32);
  }
}
template <class T>
T matched(const uint32_t* in, uint32_t l) {
  return T(in[2 * l] | uint64_t(in[2 * l + 1]) << 32);
}
template <class T>
Val<T> match_value(const Words& w) {
  if constexpr (sizeof(T) == 8)
    return pack<uint64_t>(w[0], w[1]);
  else
    return w[0];
}
template <class T>
void match_cases(std::vector<Case>& all, const char* type) {
  all.push_back(
      word_case({.name = fmt::format("match.any.{}", type),
                 .family = "warp",
                 .in = 2,
                 .out = 1,
                 .body = [](Builder<Args>&, const Words& w) -> Words { return {match_any(match_value<T>(w))}; },
                 .reference =
                     [](const uint32_t* in, uint32_t* out) {
                       for (uint32_t l = 0; l < 32; ++l) {
                         out[l] = 0;
                         for (uint32_t o = 0; o < 32; ++o)
                           out[l] |= uint32_t(matched<T>(in, o) == matched<T>(in, l)) << o;
                       }
                     },
                 .fill = fill_matches}));
  all.push_back(word_case({.name = fmt::format("match.all.{}", type),
                           .family = "warp",
                           .in = 2,
                           .out = 2,
                           .body = [](Builder<Args>& k, const Words& w) -> Words {
                             MatchAll m = match_all(match_value<T>(w));
                             return {m.mask, as_word(k, m.all)};
                           },
                           .reference =
                               [](const uint32_t* in, uint32_t* out) {
                                 bool same = true;
                                 for (uint32_t l = 1; l < 32; ++l)
                                   same = same && matched<T>(in, l) == matched<T>(in, 0);
                                 for (uint32_t l = 0; l < 32; ++l) {
                                   out[2 * l] = same ? ~0u : 0;
                                   out[2 * l + 1] = same;
                                 }
                               },
                           .fill = fill_matches}));
}

// Low items: words of few bits, so that `and` leaves some and `or` does not set all.
void fill_reduce(Rng& rng, size_t index, uint32_t* in) {
  for (uint32_t l = 0; l < 32; ++l) {
    in[l] = uint32_t(rng());
    if (index % 3 == 1) in[l] &= uint32_t(rng()) & uint32_t(rng()) & uint32_t(rng());
    if (index % 3 == 2) in[l] |= uint32_t(rng()) | uint32_t(rng()) | uint32_t(rng());
    if (index == 0) in[l] = 0;
    if (index == 3) in[l] = ~0u;
    if (index == 6) in[l] = 0x80000000u;
  }
}
template <class T>
void redux_cases(std::vector<Case>& all, const char* type, std::initializer_list<std::pair<Atomic, const char*>> ops) {
  for (auto [op, what] : ops)
    all.push_back(word_case({.name = fmt::format("redux.{}.{}", what, type),
                             .family = "warp",
                             .in = 1,
                             .out = 1,
                             .body = [op = op](Builder<Args>&, const Words& w) -> Words {
                               return {bitcast<uint32_t>(warp_reduce(op, bitcast<T>(w[0])))};
                             },
                             .reference =
                                 [op = op](const uint32_t* in, uint32_t* out) {
                                   uint32_t r = in[0];
                                   for (uint32_t l = 1; l < 32; ++l) switch (op) {
                                       case Atomic::add:
                                         r += in[l];
                                         break;
                                       case Atomic::min:
                                         r = uint32_t(std::min(T(r), T(in[l])));
                                         break;
                                       case Atomic::max:
                                         r = uint32_t(std::max(T(r), T(in[l])));
                                         break;
                                       case Atomic::bit_and:
                                         r &= in[l];
                                         break;
                                       case Atomic::bit_or:
                                         r |= in[l];
                                         break;
                                       default:
                                         r ^= in[l];
                                     }
                                   std::fill(out, out + 32, r);
                                 },
                             .fill = fill_reduce}));
}

// Finite floats of mixed sizes whose sum stays finite; low items include zeros of both signs and subnormals.
void fill_lanes(Rng& rng, size_t index, uint32_t* in, uint32_t n) {
  for (uint32_t l = 0; l < n; ++l) {
    const uint32_t exponent = index % 4 == 0 ? 100 + uint32_t(rng() % 50) : 120 + uint32_t(rng() % 10);
    in[l] = (uint32_t(rng()) & 0x807fffffu) | exponent << 23;
    if (index % 5 == 1 && rng() % 4 == 0) in[l] &= 0x80000000u;
    if (index % 7 == 2 && rng() % 2 == 0) in[l] &= 0x807fffffu;
  }
}
template <class T>
T value(uint32_t bits) {
  return std::bit_cast<T>(bits);
}
template <class T>
T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) return T(uint32_t(a) + uint32_t(b));
  return a + b;
}
// -0 is below +0
template <class T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <class T>
void fill_values(Rng& rng, size_t index, uint32_t* in, uint32_t n) {
  if (std::is_floating_point_v<T>)
    fill_lanes(rng, index, in, n);
  else
    for (uint32_t l = 0; l < n; ++l) in[l] = uint32_t(rng());
}

// The butterfly of warp.h, step by step: every lane adds the lane `mask` away.
template <class T, class F>
void butterfly(T* v, uint32_t width, F join) {
  for (uint32_t mask = width / 2; mask; mask /= 2) {
    T old[32];
    std::copy(v, v + 32, old);
    for (uint32_t l = 0; l < 32; ++l) v[l] = join(old[l], old[l ^ mask]);
  }
}
template <class T>
void reduction_cases(std::vector<Case>& all, const char* type) {
  for (bool maximum : {false, true})
    for (uint32_t width : {32u, 16u, 8u, 2u})
      all.push_back(word_case({.name = fmt::format("warp_{}.{}.width{}", maximum ? "max" : "sum", type, width),
                               .family = "warp",
                               .in = 1,
                               .out = 1,
                               .body = [=](Builder<Args>&, const Words& w) -> Words {
                                 Val<T> v = bitcast<T>(w[0]);
                                 return {bitcast<uint32_t>(maximum ? warp_max(v, width) : warp_sum(v, width))};
                               },
                               .reference =
                                   [=](const uint32_t* in, uint32_t* out) {
                                     T v[32];
                                     for (uint32_t l = 0; l < 32; ++l) v[l] = value<T>(in[l]);
                                     maximum ? butterfly(v, width, larger<T>) : butterfly(v, width, sum<T>);
                                     for (uint32_t l = 0; l < 32; ++l) out[l] = std::bit_cast<uint32_t>(v[l]);
                                   },
                               .fill = [](Rng& rng, size_t i, uint32_t* in) { fill_values<T>(rng, i, in, 32); }}));
  for (bool maximum : {false, true})
    for (uint32_t threads : {32u, 64u, 160u, 256u, 1024u})
      all.push_back(
          word_case({.name = fmt::format("block_{}.{}.threads{}", maximum ? "max" : "sum", type, threads),
                     .family = "warp",
                     .threads = threads,
                     .per_item = threads,
                     .in = 1,
                     .out = 1,
                     .body = [=](Builder<Args>& k, const Words& w) -> Words {
                       Val<T> v = bitcast<T>(w[0]);
                       return {bitcast<uint32_t>(maximum ? block_max(k, v) : block_sum(k, v))};
                     },
                     .reference =
                         [=](const uint32_t* in, uint32_t* out) {
                           T total{};
                           for (uint32_t warp = 0; warp < threads / 32; ++warp) {
                             T v[32];
                             for (uint32_t l = 0; l < 32; ++l) v[l] = value<T>(in[32 * warp + l]);
                             maximum ? butterfly(v, 32, larger<T>) : butterfly(v, 32, sum<T>);
                             total = warp == 0 ? v[0] : maximum ? larger(total, v[0]) : sum(total, v[0]);
                           }
                           std::fill(out, out + threads, std::bit_cast<uint32_t>(total));
                         },
                     .fill = [=](Rng& rng, size_t i, uint32_t* in) { fill_values<T>(rng, i, in, threads); }}));
}

}  // namespace

void add_warp(std::vector<Case>& all) {
  shuffles<uint32_t>(all, "u32");
  shuffles<float>(all, "f32");
  shuffles<f16x2>(all, "f16x2");
  immediate_shuffles(all);
  vote_cases(all);
  match_cases<uint32_t>(all, "b32");
  match_cases<uint64_t>(all, "b64");
  redux_cases<uint32_t>(all, "u32",
                        {{Atomic::add, "add"},
                         {Atomic::min, "min"},
                         {Atomic::max, "max"},
                         {Atomic::bit_and, "and"},
                         {Atomic::bit_or, "or"},
                         {Atomic::bit_xor, "xor"}});
  redux_cases<int32_t>(all, "s32", {{Atomic::add, "add"}, {Atomic::min, "min"}, {Atomic::max, "max"}});
  reduction_cases<uint32_t>(all, "u32");
  reduction_cases<int32_t>(all, "s32");
  reduction_cases<float>(all, "f32");
  add_block(all);
}

}  // namespace heddle::ptx::cases
