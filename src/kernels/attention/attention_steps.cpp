// Rotary embedding, KV scatter and causal softmax, each in its own launch.
#include "kernels/attention/attention_steps.h"

#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "kernels/spec/reduce.h"

namespace heddle::kernels {

using namespace ptx;

// RoPE: a block takes one token and as many (head, pair) as it has threads.

Kernel Rope::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  U32 token = k.block_id(), item = k.block_y() * threads + k.thread();
  U32 head_dim = k.arg(&Args::head_dim), rotary = k.arg(&Args::rotary_dim), q_heads = k.arg(&Args::q_heads);
  U32 per_head = head_dim >> 1, head = item / max(per_head, 1u), pair = item - head * per_head;
  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(token < k.arg(&Args::tokens) && head < q_heads + k.arg(&Args::k_heads), [&] {
    U32 half = rotary >> 1;
    Pred turned = pair < half;
    auto frequency = k.var(uint64_t(0));
    k.when(turned, [&] { frequency = load(k.arg(&Args::turns) + pair, {.nc = true}); });

    // q and k differ only in their buffers
    Pred is_q = head < q_heads;
    U64 out_row = mul_wide(token, select(is_q, k.arg(&Args::q_out_stride), k.arg(&Args::k_out_stride)));
    U64 in_row = mul_wide(token, select(is_q, k.arg(&Args::q_stride), k.arg(&Args::k_stride)));
    U32 at = select(is_q, head, head - q_heads) * head_dim;
    Global<float> out{select(is_q, k.arg(&Args::q_out).address(), k.arg(&Args::k_out).address())};
    Global<float> in{select(is_q, k.arg(&Args::q).address(), k.arg(&Args::k).address())};
    U32 first = pair * 2u, second = first + 1u;
    if (pairs == half_split) {  // values beyond rotary_dim are copied in neighbouring pairs
      first = select(turned, pair, first);
      second = select(turned, pair + half, second);
    }
    out = out + out_row + at;
    in = in + in_row + at;
    F32 a = load(in + first), b = load(in + second);
    k.when_else(
        turned,
        [&] {
          S32 position = load(k.arg(&Args::positions) + token);
          auto [sin, cos] = sin_cos_of_turns(bitcast<uint64_t>(to<int64_t>(position)) * frequency.get());
          F32 m = k.arg(&Args::magnitude), s = sin * m, c = cos * m;
          store(out + first, fma(a, c, -(b * s)));
          store(out + second, fma(a, s, b * c));
        },
        [&] {
          store(out + first, a);
          store(out + second, b);
        });
  });
  return k.finish();
}

Grid Rope::grid(const Args& args) const {
  if (args.head_dim == 0 || args.head_dim % 2 || args.rotary_dim % 2 || args.rotary_dim > args.head_dim)
    throw Error("rope: rotary_dim {} of head_dim {}; both must be even, rotary_dim <= head_dim and head_dim > 0",
                args.rotary_dim, args.head_dim);
  auto fits = [&](const char* which, uint32_t heads, uint32_t stride) {
    if (heads && args.tokens > 1 && stride < uint64_t(heads) * args.head_dim)
      throw Error("rope: a stride of {} for {}, but {} heads of {} take {}", stride, which, heads, args.head_dim,
                  uint64_t(heads) * args.head_dim);
  };
  fits("q", args.q_heads, args.q_stride);
  fits("q_out", args.q_heads, args.q_out_stride);
  fits("k", args.k_heads, args.k_stride);
  fits("k_out", args.k_heads, args.k_out_stride);
  const uint64_t items = (uint64_t(args.q_heads) + args.k_heads) * (args.head_dim / 2);
  const uint64_t blocks = (items + threads - 1) / threads;
  if (blocks > 65535) throw Error("rope: {} pairs per token, {} at most", items, uint64_t(65535) * threads);
  return {.x = args.tokens ? args.tokens : 1, .y = blocks ? uint32_t(blocks) : 1};
}

void add_rope_kernels(std::vector<Entry>& all) { all.push_back(entry<Rope>()); }

// KV scatter: a block takes one row and 128 times four values of it, K and V alike.

namespace {
constexpr uint32_t threads = 128;
}

Kernel KvScatter::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  chain_wait(k, chained);
  U32 row = k.block_id(), quad = k.block_y() * threads + k.thread();
  U32 head = quad / (head_dim / 4), value = quad * 4u;  // of the row
  k.when(row < k.arg(&Args::rows) && head < k.arg(&Args::kv_heads), [&] {
    S32 position = load(k.arg(&Args::positions) + row);
    k.when(position >= 0, [&] {
      U32 sequence = mapped ? bitcast<uint32_t>(load(k.arg(&Args::sequence_of) + row)) : row;
      KvCache<Args> cache(k, layout, head_dim * kv_bytes(kv), sequence, head);
      U64 to = cache.offset(bitcast<uint32_t>(position)) + widen((value - head * head_dim) * kv_bytes(kv));
      auto copy = [&](Global<float> from, U32 stride, Global<uint8_t> base) {
        auto v = load_vec<4>(from + mul_wide(row, stride) + value);
        if (kv == kv_f32)
          store_vec((base + to).as<float>(), v);
        else
          store_vec((base + to).as<f16>(), Vec<f16, 4>{to_f16(v[0]), to_f16(v[1]), to_f16(v[2]), to_f16(v[3])});
      };
      copy(k.arg(&Args::k_new), k.arg(&Args::k_stride), cache.k());
      copy(k.arg(&Args::v_new), k.arg(&Args::v_stride), cache.v());
    });
  });
  return k.finish();
}

Grid KvScatter::grid(const Args& args) const {
  const uint64_t values = uint64_t(args.kv_heads) * head_dim;
  auto suits = [&](const char* which, uint64_t address, uint32_t stride) {
    if (address % 16 || stride % 4 || (args.rows > 1 && stride < values))
      throw Error(
          "kv_scatter: {} at {:#x} with a stride of {}; 16-byte alignment and a multiple of 4, at least {}, "
          "expected",
          which, address, stride, values);
  };
  suits("k_new", args.k_new.address, args.k_stride);
  suits("v_new", args.v_new.address, args.v_stride);
  if (layout == kv_paged && (args.page_size == 0 || args.page_size % 16))
    throw Error("kv_scatter: pages of {} positions, but they must be a positive multiple of 16", args.page_size);
  if (layout != kv_batched && (args.k.address % 16 || args.v.address % 16))
    throw Error("kv_scatter: k and v must be 16-byte aligned, found {:#x} and {:#x}", args.k.address, args.v.address);
  const uint64_t blocks = (values / 4 + threads - 1) / threads;
  if (blocks > 65535) throw Error("kv_scatter: {} values per row, {} at most", values, 65535u * threads * 4);
  return {.x = args.rows ? args.rows : 1, .y = blocks ? uint32_t(blocks) : 1};
}

void add_kv_scatter_kernels(std::vector<Entry>& all) { all.push_back(entry<KvScatter>()); }

// Causal softmax: one pass finds maximum and sum, a second writes.

Kernel CausalSoftmax::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), warps * 32);
  chain_start(k, chained);
  U32 row = row_per == block ? k.block_id() : k.block_id() * warps + k.warp();
  U32 mine = row_per == block ? k.thread() : k.lane();
  const uint32_t step = row_per == block ? warps * 32 : 32;
  U32 queries = k.arg(&Args::queries), keys = k.arg(&Args::keys);
  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows), [&] {
    S64 position = to<int64_t>(k.arg(&Args::offset)) + to<int64_t>(row % queries);
    U32 seen = to<uint32_t>(min(max(position + int64_t(1), int64_t(0)), to<int64_t>(keys)));
    U32 window = k.arg(&Args::window);
    // counted from the position, which may lie past the last key
    S64 start = select(window == 0u, k.constant(int64_t(0)), position + int64_t(1) - to<int64_t>(window));
    U32 first = to<uint32_t>(min(max(start, int64_t(0)), to<int64_t>(seen)));

    U64 begin = mul_wide(row, keys);
    auto x = k.arg(&Args::x) + begin, y = k.arg(&Args::y) + begin;
    F32 scale = k.arg(&Args::scale);
    F32 cap = k.arg(&Args::cap);
    auto score = [&](U32 i) {
      F32 s = load(x + i) * scale;
      return capped ? tanh(s / cap) * cap : s;
    };
    MaxAndSum all(k);
    k.loop(first + mine, seen, step, [&](U32 i) { all.add(score(i)); });
    const MaxAndSum::Result result = row_per == block ? all.over_block(k) : all.over_warp();
    F32 part = select(result.sum > 0.0f, rcp(result.sum), 0.0f);  // a row that sees no keys becomes zeros
    k.loop(mine, first, step, [&](U32 i) { store(y + i, 0.0f); });
    k.loop(first + mine, seen, step, [&](U32 i) { store(y + i, exp(score(i) - result.max) * part); });
    k.loop(seen + mine, keys, step, [&](U32 i) { store(y + i, 0.0f); });
  });
  return k.finish();
}

Grid CausalSoftmax::grid(const Args& args) const {
  if (args.rows && (args.queries == 0 || args.rows % args.queries))
    throw Error("causal_softmax: {} rows are not a multiple of {} queries", args.rows, args.queries);
  if (capped && !(args.cap > 0)) throw Error("causal_softmax: a cap of {}; it must be above 0", args.cap);
  const uint32_t per_block = row_per == block ? 1 : warps;
  const uint32_t blocks = args.rows / per_block + (args.rows % per_block != 0);
  return {.x = blocks ? blocks : 1};
}

void add_causal_softmax_kernels(std::vector<Entry>& all) { all.push_back(entry<CausalSoftmax>()); }

}  // namespace heddle::kernels
