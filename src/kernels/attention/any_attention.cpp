// Attention of any shape, without matrix units.
#include "kernels/attention/any_attention.h"

#include "kernels/attention/kv_cache.h"
#include "kernels/attention/online_softmax.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "ptx/memory.h"

namespace heddle::kernels {

using namespace ptx;

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
  // The same for row `row` of the cache, in two steps: first the loaded words, then the values decoded from them. q8:
  // four bytes, then their scale; or a byte with its scale above it.
  std::vector<U32> load_words(Global<f16> cache, Global<f16> scales, U64 row, U32 size) const {
    std::vector<U32> words;
    const U64 before = row * widen(size);
    const auto bytes = cache.as<uint8_t>() + before;
    const auto halves = cache + before, scale = scales + row * widen(q8_groups(size));
    for (uint32_t p = 0; p < pieces; ++p) {
      auto first = k.var(0u), second = k.var(0u);
      k.when(index(p) < size, [&] {
        if (kv == kv_q8) {
          const U32 own = to<uint32_t>(load((scale + (index(p) >> 5u)).as<uint16_t>()));
          if (vec == 1) {
            first = load(bytes + index(p)) | own << 16u;
          } else {
            first = load((bytes + index(p)).as<uint32_t>());
            second = own;
          }
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
    for (size_t i = 0; kv == kv_q8 && vec == 4 && i < words.size(); i += 2)
      for (F32 x : floats_of_bytes(words[i], to_f32(unpack<heddle::f16>(words[i + 1])[0]))) v.push_back(x);
    for (size_t i = 0; kv == kv_q8 && vec == 1 && i < words.size(); ++i)
      v.push_back(to_f32(bit_field(bitcast<int32_t>(words[i]), 0u, 8u)) * to_f32(unpack<heddle::f16>(words[i])[1]));
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
  if (kv == kv_q8 && vec == 2)
    throw Error("{}: a q8 cache with vec = {}, but it is read 1 or 4 values at a time", name, vec);
  const uint32_t per_lane = largest / 32, words = per_lane / (vec == 1 ? 1 : 2);
  const uint32_t unroll = words > 8 ? 1 : words > 4 ? 2 : 4;  // up to 32 registers each for K and V
  Builder<Args> k(std::string(name), {.threads = warps * 32, .max_registers = 128});
  chain_start(k, chained);
  const U32 row = k.block_id(), head = k.block_y(), heads = k.arg(&Args::heads);
  const U32 size = k.arg(&Args::head), value_size = k.arg(&Args::value_head);
  const LaneShare share{.k = k, .pieces = per_lane / vec, .vec = vec, .kv = kv, .lane = k.lane()};
  const U32 kv_head = head / (heads / k.arg(&Args::kv_heads));
  const F32 sink = sinks ? load(k.arg(&Args::sinks) + head) : F32();
  const F32 slope = slopes ? slope_of(load(k.arg(&Args::slopes) + head)) : F32();

  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows), [&] {
    const U32 position = k.assume_uniform(load(k.arg(&Args::positions) + row));
    const U32 window = k.arg(&Args::window);
    U32 first, end;
    if (bidirectional) {
      const U32 half = select(window == 0u, k.constant(no_position - 1), window >> 1u);
      const U32 text = k.assume_uniform(load(k.arg(&Args::lengths) + row));
      end = select(position < no_position, min(text, position + half + 1u), 0u);
      first = position - min(position, half);
    } else {
      end = select(position < no_position, position + 1u, 0u);
      first = select(window != 0u && window <= end, end - window, 0u);
    }
    if (chunk) first = max(first, position / k.arg(&Args::chunk) * k.arg(&Args::chunk));
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
        F32 scored = score.of(warp_sum(product));
        if (slopes) scored = sloped(scored, slope, to_f32(bitcast<int32_t>(position - (from + u))));
        scores.push_back(select(from + u < end, scored, OnlineSoftmax::masked));
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
      if (sinks) all.begin_with(sink, k.constant(1.0f));
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
  if (args.k.address % (2 * vec) || args.v.address % (2 * vec))
    throw Error("{}: with vec = {} the cache must be {}-byte aligned", name, vec, 2 * vec);
  check_stride(name, "q", args.rows, args.q_stride, uint64_t(args.heads) * args.head);
  check_stride(name, "out", args.rows, args.out_stride, uint64_t(args.heads) * args.value_head);
  if (bidirectional && args.rows && args.lengths.address == 0)
    throw Error("{}: no lengths, but that of each row's text is read", name);
  check_scores(name, args, softcap, chunk, sinks, slopes);
  if (args.heads > 65535) throw Error("{}: {} heads, 65535 at most", name, args.heads);
  return {.x = args.rows ? args.rows : 1, .y = args.heads};
}

void add_any_attention_kernels(std::vector<Entry>& all) { all.push_back(entry<AnyAttention>()); }

}  // namespace heddle::kernels
