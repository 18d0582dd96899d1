// RoPE: a block takes one token and as many (head, pair) as it has threads.
#include "kernels/attention/rope.h"

#include "kernels/spec/catalog.h"
#include "kernels/spec/chain.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

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

}  // namespace heddle::kernels
