// Attention without matrix units: `attention` for one new token per sequence, `any_attention` for any shape.
#include "kernels/attention/attention.h"

#include "kernels/attention/kv_cache.h"
#include "kernels/attention/online_softmax.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "ptx/memory.h"

namespace heddle::kernels {

using namespace ptx;

// Attention without matrix units. A few lanes share a position (`Lanes`), so that a warp takes several positions at a
// time; each such group has its own softmax, and groups, warps and blocks are merged at the end.

namespace {

// How the lanes of a warp divide positions and the values of a row.
struct Lanes {
  uint32_t bytes;   // of an element
  uint32_t lanes;   // per position: a power of two
  uint32_t values;  // per lane: a multiple of 4, at least 8
  uint32_t access;  // values per load: 16 bytes, or 8 where an f16 row does not divide further
  uint32_t unroll;  // positions per lane and step, so that all their loads are under way before the first is used

  Lanes(uint32_t head_dim, uint32_t kv) : bytes(kv_bytes(kv)), lanes(16) {
    while (head_dim % (lanes * 4) || head_dim / lanes < 8) lanes /= 2;
    values = head_dim / lanes;
    access = kv == kv_f16 && values % 8 == 0 ? 8 : 4;
    unroll = 4;
    while (unroll > 1 && unroll * values * bytes >= 128) unroll /= 2;  // under 64 registers for K and V
  }
  uint32_t groups() const { return 32 / lanes; }
  uint32_t step() const { return groups() * unroll; }  // positions of a warp
};

// A lane's values of a row of f32. Access i of the lanes of a group is one piece of the row, so that loads are
// coalesced.
std::vector<F32> load_row(Global<float> row, const Lanes& lanes, U32 member) {
  std::vector<F32> values;
  auto mine = row + member * lanes.access;
  for (uint32_t i = 0; i < lanes.values; i += 4)
    for (F32 v : load_vec<4>(mine.offset(i / lanes.access * lanes.access * lanes.lanes + i % lanes.access)))
      values.push_back(v);
  return values;
}

// The same for a row of the cache, in two steps: the loaded words, then the values decoded from them.
struct CacheRow {
  std::vector<U32> words;
  bool half;

  CacheRow(Global<uint8_t> row, const Lanes& lanes) : half(lanes.bytes == 2) {
    const uint32_t piece = lanes.access * lanes.bytes;
    for (uint32_t i = 0; i < lanes.values / lanes.access; ++i) {
      auto at = row.offset(i * piece * lanes.lanes).template as<uint32_t>();
      auto keep = [&](const auto& loaded) { words.insert(words.end(), loaded.begin(), loaded.end()); };
      piece == 16 ? keep(load_vec<4>(at)) : keep(load_vec<2>(at));
    }
  }
  std::vector<F32> values() const {
    std::vector<F32> v;
    for (U32 word : words) {
      if (!half) {
        v.push_back(bitcast<float>(word));
        continue;
      }
      for (F16 h : unpack<heddle::f16>(word)) v.push_back(to_f32(h));
    }
    return v;
  }
};

// Every warp stores its softmax in shared memory, then each thread merges them for one value of the row at a time.
void merge_warps(Code& k, const OnlineSoftmax& mine, const Lanes& lanes, uint32_t head_dim, auto&& result) {
  const uint32_t row = head_dim + 2;
  auto parts = k.shared<float>(k.warps() * row);
  auto part = parts + k.warp() * row;
  U32 member = k.lane();
  k.when(member < lanes.lanes, [&] {
    for (uint32_t i = 0; i < lanes.values; ++i)
      store(part + (member * lanes.access + (i / lanes.access * lanes.access * lanes.lanes + i % lanes.access)),
            mine.acc[i].get());
    k.when(member == 0u, [&] {
      store(part.offset(head_dim), mine.max.get());
      store(part.offset(head_dim + 1), mine.sum.get());
    });
  });
  k.barrier();
  k.loop(k.thread(), head_dim, k.threads(), [&](U32 i) {
    OnlineSoftmax all(k, 1);
    for (uint32_t w = 0; w < k.warps(); ++w) {
      auto from = parts.offset(w * row);
      all.merge(load(from.offset(head_dim)), load(from.offset(head_dim + 1)), {load(from + i)});
    }
    result(all, i);
  });
}

}  // namespace

Kernel Attention::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), {.threads = warps * 32, .max_registers = 128});
  chain_start(k, chained);
  const Lanes lanes(head_dim, kv);
  U32 head = k.block_id(), sequence = k.block_y(), heads = k.arg(&Args::heads);

  // without sequences too: the next kernel relies on all blocks having waited
  auto without = [&] { chain_wait(k, chained); };
  auto attend = [&] {
    // positions first ... end - 1 are this block's
    U32 end = k.arg(&Args::length);
    if (length == length_indirect)
      end = k.assume_uniform(bitcast<uint32_t>(load(k.arg(&Args::lengths) + sequence)), Uniform::block);
    U32 first = k.constant(0u);
    if (window) first = end - min(end, k.arg(&Args::window));
    if (split) {
      U32 blocks = k.arg(&Args::chunks), positions = end - first;
      U32 share = max(k.arg(&Args::chunk), (positions + (blocks - 1u)) / blocks);  // the blocks cover all positions
      U64 from = mul_wide(k.block_z(), share);
      U32 skipped = to<uint32_t>(min(from, widen(positions)));
      first = first + skipped;
      end = first + min(share, positions - skipped);
    }

    KvCache<Args> cache(k, layout, head_dim * lanes.bytes, sequence, head * k.arg(&Args::kv_heads) / heads);
    U32 member = k.lane() % lanes.lanes, group = k.lane() / lanes.lanes;
    U32 in_row = member * (lanes.access * lanes.bytes);
    auto cached_k = cache.k() + in_row, cached_v = cache.v() + in_row;

    chain_wait(k, chained);
    U64 row = mad_wide(sequence, heads, widen(head));
    const Score score = softcap ? Score(k.arg(&Args::scale), k.arg(&Args::softcap)) : Score(k.arg(&Args::scale));
    auto q = load_row(k.arg(&Args::q) + row * uint64_t(head_dim), lanes, member);
    for (F32& v : q) v = v * score.q_factor;

    OnlineSoftmax softmax(k, lanes.values);
    k.loop(first + k.warp() * lanes.step(), end, warps * lanes.step(), [&](U32 position) {
      std::vector<Pred> valid;
      std::vector<CacheRow> keys, values;
      for (uint32_t u = 0; u < lanes.unroll; ++u) {
        U32 mine = position + (u * lanes.groups() + group);
        valid.push_back(mine < end);
        U64 offset = cache.offset(min(mine, end - 1u));  // past the end: the last row, with weight 0
        keys.emplace_back(cached_k + offset, lanes);
        values.emplace_back(cached_v + offset, lanes);
      }
      std::vector<F32> scores;
      for (uint32_t u = 0; u < lanes.unroll; ++u) {
        auto key = keys[u].values();
        F32 product = q[0] * key[0];
        for (uint32_t i = 1; i < lanes.values; ++i) product = fma(q[i], key[i], product);
        F32 s = score.of(warp_sum(product, lanes.lanes));
        scores.push_back(select(valid[u], s, OnlineSoftmax::masked));
      }
      auto weights = softmax.weigh(scores);
      for (uint32_t u = 0; u < lanes.unroll; ++u) softmax.add(weights[u], values[u].values());
    });
    for (uint32_t distance = lanes.lanes; distance < 32; distance *= 2) softmax.merge_lane(distance);

    auto result = [&](const OnlineSoftmax& all, U32 i) {
      if (split) {
        auto part = k.arg(&Args::partial) +
                    mad(row, widen(k.arg(&Args::chunks)), widen(k.block_z())) * uint64_t(partial_row(head_dim));
        store(part + i, all.acc[0].get());
        k.when(i == 0u, [&] {
          store(part.offset(head_dim), all.max.get());
          store(part.offset(head_dim + 1), all.sum.get());
        });
      } else {
        store(k.arg(&Args::out) + row * uint64_t(head_dim) + i, all.acc[0].get() * all.inverse_sum());
      }
    };
    merge_warps(k, softmax, lanes, head_dim, result);
  };
  k.when_else(sequence < k.arg(&Args::sequences), attend, without);
  return k.finish();
}

Grid Attention::grid(const Args& args) const {
  check_token_attention(name, args, layout, head_dim);
  if (args.q.address % 16) throw Error("{}: q must be 16-byte aligned", name);
  if (args.q_stride && args.q_stride != args.heads * head_dim)
    throw Error("{}: q_stride is {}, but rows of {} values follow each other", name, args.q_stride,
                args.heads * head_dim);
  if (window && args.window == 0) throw Error("{}: a window of 0 positions, but it must have one or more", name);
  if (softcap && !(args.softcap > 0)) throw Error("{}: softcap = {}, but it must be positive", name, args.softcap);
  if (split && (args.chunk == 0 || args.chunks == 0 || args.chunks > 65535))
    throw Error("{}: {} chunks of {} positions, but there must be 1 to 65535 of at least 1", name, args.chunks,
                args.chunk);
  return {.x = args.heads, .y = args.sequences ? args.sequences : 1, .z = split ? args.chunks : 1};
}

Kernel FlashDecodingReduce::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), (head_dim + 31) / 32 * 32);
  chain_start(k, chained);
  chain_wait(k, chained);
  U32 sequence = k.block_y(), i = k.thread(), chunks = k.arg(&Args::chunks);
  k.when(sequence < k.arg(&Args::sequences) && i < head_dim, [&] {
    U64 row = mad_wide(sequence, k.arg(&Args::heads), widen(k.block_id()));
    const uint32_t stride = Attention::partial_row(head_dim);
    auto parts = k.arg(&Args::partial) + row * widen(chunks) * uint64_t(stride);
    OnlineSoftmax all(k, 1);
    k.loop(0u, chunks, 1u, [&](U32 c) {
      auto part = parts + mul_wide(c, stride);
      auto state = load_vec<2>(part.offset(head_dim));
      all.merge(state[0], state[1], {load(part + i)});
    });
    store(k.arg(&Args::out) + row * uint64_t(head_dim) + i, all.acc[0].get() * all.inverse_sum());
  });
  return k.finish();
}

Grid FlashDecodingReduce::grid(const Args& args) const {
  if (args.heads == 0 || args.sequences > 65535)
    throw Error("{}: {} heads and {} sequences, but there must be 1 or more and at most 65535", name, args.heads,
                args.sequences);
  return {.x = args.heads, .y = args.sequences ? args.sequences : 1};
}

void add_attention_kernels(std::vector<Entry>& all) {
  auto add = [&](std::string_view name, std::string_view summary, const Attention& spec) {
    all.push_back(preset(name, summary, spec));
  };
  add("incremental_attention", "attention of one token, one warp per head", {});
  add("incremental_attention_indirect", "the same, the length in device memory", {.length = length_indirect});
  add("multi_warp_attention", "attention of one token, several warps per head", {.warps = 8});
  add("multi_warp_attention_indirect", "the same, the length in device memory",
      {.length = length_indirect, .warps = 8});
  add("batched_incremental_attention", "attention of one token for each of several sequences",
      {.layout = kv_batched, .length = length_indirect, .warps = 4});
  add("paged_attention", "the same over a cache in pages", {.layout = kv_paged, .length = length_indirect, .warps = 4});
  add("flash_decoding_chunk", "attention with the positions split over blocks, for flash_decoding_reduce",
      {.length = length_indirect, .warps = 4, .split = 1});
  all.push_back(entry<FlashDecodingReduce>());
}

// One block per row and head: its warps take positions in turn, a few at a time so that their loads are under way
// together, and are merged at the end. A lane has every 32nd piece of a head.

namespace {

// A lane's share of a row of up to `largest` values; values past the end of the row are 0.
struct LaneShare {
  Code& k;
  uint32_t pieces, vec, kv;
  U32 lane;

  U32 index(uint32_t piece) const { return (lane + piece * 32u) * vec; }

  std::vector<F32> load_row(Global<float> row, U32 size) const {
    std::vector<F32> values;
    for (uint32_t p = 0; p < pieces; ++p) {
      std::vector<Var<float>> piece;
      for (uint32_t j = 0; j < vec; ++j) piece.push_back(k.var(0.0f));
      k.when(index(p) < size, [&] {
        for (uint32_t j = 0; j < vec; ++j) piece[j] = load((row + index(p)).offset(j));
      });
      for (auto& v : piece) values.push_back(v.get());
    }
    return values;
  }
  // The same for row `row` of the cache, in two steps: first the loaded words (q8: four bytes, then their scale), then
  // the values decoded from them.
  std::vector<U32> load_words(Global<f16> cache, Global<f16> scales, U64 row, U32 size) const {
    std::vector<U32> words;
    const U64 before = row * widen(size);
    const auto bytes = cache.as<uint8_t>() + before;
    const auto halves = cache + before, scale = scales + (before >> 5u);
    for (uint32_t p = 0; p < pieces; ++p) {
      auto first = k.var(0u), second = k.var(0u);
      k.when(index(p) < size, [&] {
        if (kv == kv_q8) {
          first = load((bytes + index(p)).as<uint32_t>());
          second = to<uint32_t>(load((scale + (index(p) >> 5u)).as<uint16_t>()));
          return;
        }
        const auto at = halves + index(p);
        if (vec == 1) first = to<uint32_t>(load(at.as<uint16_t>()));
        if (vec == 2) first = load(at.as<uint32_t>());
        if (vec < 4) return;
        const auto two = load_vec<2>(at.as<uint32_t>());
        first = two[0];
        second = two[1];
      });
      words.push_back(first.get());
      if (vec == 4) words.push_back(second.get());
    }
    return words;
  }
  std::vector<F32> values(const std::vector<U32>& words) const {
    std::vector<F32> v;
    for (size_t i = 0; kv == kv_q8 && i < words.size(); i += 2)
      for (F32 x : floats_of_bytes(words[i], to_f32(unpack<heddle::f16>(words[i + 1])[0]))) v.push_back(x);
    if (kv == kv_q8) return v;
    for (U32 word : words) {
      const auto [low, high] = unpack<heddle::f16>(word);
      v.push_back(to_f32(low));
      if (vec > 1) v.push_back(to_f32(high));
    }
    return v;
  }
};

}  // namespace

Kernel AnyAttention::build() const {
  check_fields(*this);
  if (kv == kv_q8 && vec != 4)
    throw Error("{}: a q8 cache with vec = {}, but it is read 4 values at a time", name, vec);
  const uint32_t per_lane = largest / 32, words = per_lane / (vec == 1 ? 1 : 2);
  const uint32_t unroll = words > 8 ? 1 : words > 4 ? 2 : 4;  // up to 32 registers each for K and V
  Builder<Args> k(std::string(name), {.threads = warps * 32, .max_registers = 128});
  chain_start(k, chained);
  const U32 row = k.block_id(), head = k.block_y(), heads = k.arg(&Args::heads);
  const U32 size = k.arg(&Args::head), value_size = k.arg(&Args::value_head);
  const LaneShare share{.k = k, .pieces = per_lane / vec, .vec = vec, .kv = kv, .lane = k.lane()};
  const U32 kv_head = head / (heads / k.arg(&Args::kv_heads));

  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows), [&] {
    const U32 position = k.assume_uniform(load(k.arg(&Args::positions) + row));
    const U32 end = select(position < no_position, position + 1u, 0u), window = k.arg(&Args::window);
    const U32 first = select(window != 0u && window <= end, end - window, 0u);
    const PagedRows<Args> pages(k, load(k.arg(&Args::sequences) + row));
    const Score score = softcap ? Score(k.arg(&Args::scale), k.arg(&Args::softcap)) : Score(k.arg(&Args::scale));
    auto q = share.load_row(k.arg(&Args::q) + mul_wide(row, k.arg(&Args::q_stride)) + head * size, size);
    for (F32& v : q) v = v * score.q_factor;

    OnlineSoftmax softmax(k, per_lane);
    k.loop(first + k.warp() * unroll, end, warps * unroll, [&](U32 from) {
      std::vector<std::vector<U32>> keys, values;
      for (uint32_t u = 0; u < unroll; ++u) {
        const U64 at = pages.row(min(from + u, end - 1u), kv_head);  // past the end: the last row, with weight 0
        keys.push_back(share.load_words(k.arg(&Args::k).as<heddle::f16>(), k.arg(&Args::k_scale), at, size));
        values.push_back(share.load_words(k.arg(&Args::v).as<heddle::f16>(), k.arg(&Args::v_scale), at, value_size));
      }
      std::vector<F32> scores;
      for (uint32_t u = 0; u < unroll; ++u) {
        const auto key = share.values(keys[u]);
        F32 product = q[0] * key[0];
        for (uint32_t i = 1; i < per_lane; ++i) product = fma(q[i], key[i], product);
        scores.push_back(select(from + u < end, score.of(warp_sum(product)), OnlineSoftmax::masked));
      }
      const auto weights = softmax.weigh(scores);
      for (uint32_t u = 0; u < unroll; ++u) softmax.add(weights[u], share.values(values[u]));
    });

    // every warp stores its softmax, and each thread merges them for one value at a time
    const uint32_t part_size = largest + 2;
    const auto parts = k.shared<float>(warps * part_size), mine = parts + k.warp() * part_size;
    for (uint32_t i = 0; i < per_lane; ++i) store(mine + (share.index(i / vec) + i % vec), softmax.acc[i].get());
    k.when(k.lane() == 0u, [&] {
      store(mine.offset(largest), softmax.max.get());
      store(mine.offset(largest + 1), softmax.sum.get());
    });
    k.barrier();
    const auto out = k.arg(&Args::out) + mul_wide(row, k.arg(&Args::out_stride)) + head * value_size;
    k.loop(k.thread(), value_size, k.threads(), [&](U32 i) {
      OnlineSoftmax all(k, 1);
      for (uint32_t w = 0; w < warps; ++w) {
        const auto part = parts.offset(w * part_size);
        all.merge(load(part.offset(largest)), load(part.offset(largest + 1)), {load(part + i)});
      }
      store(out + i, all.acc[0].get() * all.inverse_sum());
    });
  });
  return k.finish();
}

Grid AnyAttention::grid(const Args& args) const {
  check_paged_heads(name, args, largest);
  if (args.head % vec || args.value_head % vec)
    throw Error("{}: heads of {} and {} values are not multiples of vec = {}", name, args.head, args.value_head, vec);
  if (kv == kv_q8) check_q8_heads(name, {args.head, args.value_head});
  if (args.k.address % (2 * vec) || args.v.address % (2 * vec))
    throw Error("{}: with vec = {} the cache must be {}-byte aligned", name, vec, 2 * vec);
  check_stride(name, "q", args.rows, args.q_stride, uint64_t(args.heads) * args.head);
  check_stride(name, "out", args.rows, args.out_stride, uint64_t(args.heads) * args.value_head);
  if (softcap && !(args.softcap > 0)) throw Error("{}: softcap = {}, but it must be positive", name, args.softcap);
  if (args.heads > 65535) throw Error("{}: {} heads, 65535 at most", name, args.heads);
  return {.x = args.rows ? args.rows : 1, .y = args.heads};
}

void add_any_attention_kernels(std::vector<Entry>& all) { all.push_back(entry<AnyAttention>()); }

}  // namespace heddle::kernels
