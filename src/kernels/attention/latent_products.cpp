// LatentQueries and LatentValues: the products with the heads' matrices are small tiles on the matrix units. A block
// has a part of one matrix in shared memory, which it fetches before it waits for its predecessor, and takes the rows
// that it multiplies 16 at a time.
#include <numbers>

#include "kernels/attention/kv_cache.h"
#include "kernels/attention/latent_attention.h"
#include "kernels/attention/latent_tiles.h"
#include "kernels/attention/online_softmax.h"
#include "kernels/layer/norm.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

constexpr uint32_t latent_product_threads = 128;

uint32_t to_16(uint32_t n) { return (n + 15) / 16 * 16; }

// y (16 * tiles, columns) = x w^T by the four warps of a block. x: (16 * tiles, inner) and w: (columns, inner) halves
// in shared memory, inner a multiple of 16, rows padded by 16 bytes. put(row, column, two neighbouring sums).
template <class Put>
void multiply_heads(Code& k, Shared<uint8_t> x, Shared<uint8_t> w, uint32_t inner, uint32_t tiles, uint32_t columns,
                    Put&& put) {
  const uint32_t row_bytes = inner * 2 + 16, own = columns / 4;  // columns of a warp
  const U32 lane = k.lane(), first = k.warp() * own;
  std::vector<Acc<float, 16, 8>> sums;
  for (uint32_t i = 0; i < tiles * own / 8; ++i) sums.emplace_back(k);
  for (uint32_t d = 0; d < inner; d += 16) {
    std::vector<LatentB> right;
    for (uint32_t i = 0; i < own; i += 8) {
      const auto two = load_matrices<2>(w + ((first + lane % 8u + i) * row_bytes + lane / 8u % 2u * 16u + d * 2));
      right.push_back({{two[0], two[1]}});
    }
    for (uint32_t t = 0; t < tiles; ++t) {
      const LatentA left = left_operand(k, x.offset(t * 16 * row_bytes + d * 2), row_bytes);
      for (uint32_t i = 0; i < own / 8; ++i) mma(sums[t * (own / 8) + i], left, right[i]);
    }
  }
  for (uint32_t t = 0; t < tiles; ++t)
    for (uint32_t i = 0; i < own / 8; ++i)
      for (uint32_t half = 0; half < 2; ++half) {
        const auto& sum = sums[t * (own / 8) + i];
        put(lane / 4u + (t * 16 + half * 8), first + lane % 4u * 2u + i * 8, sum.get(half * 2), sum.get(half * 2 + 1));
      }
}

// Copies `rows` rows of `inner` halves, 16 bytes at a time, to rows padded to `to_inner` halves and 16 bytes. Rows from
// `end` on and the padding become zeros.
void copy_matrix(Code& k, Shared<uint8_t> to, Global<heddle::f16> from, U32 end, uint32_t rows, uint32_t inner,
                 uint32_t to_inner) {
  const uint32_t pieces = to_inner / 8, row_bytes = to_inner * 2 + 16;
  k.loop(k.thread(), k.constant(rows * pieces), latent_product_threads, [&](U32 item) {
    const U32 row = item / pieces, piece = item - row * pieces;
    const Pred real = row < end && piece < inner / 8;
    const U32 valid = select(real, k.constant(16u), 0u);
    copy_async<16>(to + (row * row_bytes + piece * 16u), from + select(real, row * inner + piece * 8u, k.constant(0u)),
                   valid);
  });
  copy_commit(k);
}

}  // namespace

// --- queries --------------------------------------------------------------------------------------------------------
Kernel LatentQueries::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), latent_product_threads);
  chain_start(k, chained);
  const uint32_t inner = to_16(plain), row_bytes = inner * 2 + 16, rows_of_block = tiles * 16;
  const auto w = k.shared<uint8_t>(absorbed ? columns * row_bytes : 16, 128);
  const auto x = k.shared<uint8_t>(absorbed ? rows_of_block * row_bytes : 16, 128);
  const U32 rows = k.arg(&Args::rows), heads = k.arg(&Args::heads);
  const U32 of_matrices = absorbed ? (rows + (rows_of_block - 1)) / rows_of_block * heads * chunks() : k.constant(0u);
  // What the queries of a row are multiplied by.
  auto factor_of = [&](U32 row) {
    auto factor = k.var(1.0f);
    if (temperature) {
      const U32 position = load(k.arg(&Args::positions) + row);
      const U32 steps = (position + k.arg(&Args::temperature_offset)) / Arg<uint32_t>(k.arg(&Args::temperature_length));
      const F32 log = lg2_approx(to_f32(steps + 1u)) * float(std::numbers::ln2);
      factor = fma(log, k.arg(&Args::temperature), k.constant(1.0f));
    }
    return factor.get();
  };
  auto multiply = [&] {
    const U32 chunk = k.block_id() % chunks(), rest = k.block_id() / chunks(), head_index = rest % heads;
    const U32 first_row = rest / heads * rows_of_block, first = chunk * columns;
    const auto matrix = k.arg(&Args::up) + mul_wide(head_index * rank + first, plain);
    copy_matrix(k, w, matrix, rank - first, columns, plain, inner);
    chain_wait(k, chained);
    k.loop(k.thread(), k.constant(rows_of_block * inner / 2), latent_product_threads, [&](U32 item) {
      const U32 row = item / (inner / 2), i = (item - row * (inner / 2)) * 2u, in_batch = first_row + row;
      auto pair = k.var(0u);
      k.when(in_batch < rows && i < plain, [&] {
        const auto q =
            k.arg(&Args::q) + mul_wide(in_batch, k.arg(&Args::q_stride)) + (head_index * (plain + rotated) + i);
        const F32 factor = factor_of(in_batch);
        pair = bitcast<uint32_t>(to_f16x2(within_f16(load(q) * factor), within_f16(load(q.offset(1)) * factor)));
      });
      store((x + (row * row_bytes + i * 2u)).as<uint32_t>(), pair.get());
    });
    copy_wait(k, 0);
    k.barrier();
    multiply_heads(k, x, w, inner, tiles, columns, [&](U32 row, U32 column, F32 left, F32 right) {
      const U32 in_batch = first_row + row, at = first + column;
      k.when(in_batch < rows && at < rank, [&] {
        const auto to = k.arg(&Args::out) + (mul_wide(mad(in_batch, heads, head_index), head()) + widen(at));
        store(to.as<uint32_t>(), bitcast<uint32_t>(to_f16x2(within_f16(left), within_f16(right))));
      });
    });
  };
  auto finish = [&](U32 row) {
    chain_wait(k, chained);
    const U32 position = k.assume_uniform(load(k.arg(&Args::positions) + row), Uniform::block);
    k.when(position < no_position, [&] {
      // put(i, value) of the rotated values of x.
      auto rotate = [&](Global<float> from, U32 pair, F32 factor, auto&& put) {
        const U32 i = halves ? pair : pair * 2u, j = halves ? pair + rotated / 2 : i + 1u;
        const auto [sin, cos] = sin_cos_of_turns(widen(position) * load(k.arg(&Args::turns) + pair, {.nc = true}));
        const F32 m = k.arg(&Args::magnitude) * factor, s = sin * m, c = cos * m;
        const F32 a = load(from + i), b = load(from + j);
        put(i, fma(a, c, -(b * s)));
        put(j, fma(a, s, b * c));
      };
      const F32 factor = factor_of(row);
      k.loop(k.thread(), heads * (rotated / 2), latent_product_threads, [&](U32 item) {
        const U32 head_index = item / (rotated / 2), pair = item - head_index * (rotated / 2);
        const auto from =
            k.arg(&Args::q) + mul_wide(row, k.arg(&Args::q_stride)) + (head_index * (plain + rotated) + plain);
        if (!absorbed) return rotate(from, pair, factor, [&](U32 i, F32 v) { store(from + i, v); });
        const auto to = k.arg(&Args::out) + mul_wide(mad(row, heads, head_index), head());
        rotate(from, pair, factor, [&](U32 i, F32 v) { store(to + (i + rank), to_f16(within_f16(v))); });
      });
      if (!absorbed && temperature)
        k.loop(k.thread(), heads * plain, latent_product_threads, [&](U32 item) {
          const U32 head_index = item / plain, i = item - head_index * plain;
          const auto q = k.arg(&Args::q) + mul_wide(row, k.arg(&Args::q_stride)) + (head_index * (plain + rotated) + i);
          store(q, load(q) * factor);
        });
      const auto from = k.arg(&Args::kv) + mul_wide(row, k.arg(&Args::kv_stride));
      const LatentPages<Args> pages(k, load(k.arg(&Args::sequences) + row));
      const U64 cache_row = pages.row(position);
      const auto to = k.arg(&Args::cache) + cache_row * uint64_t(head());
      auto square = k.var(0.0f);
      k.loop(k.thread(), k.constant(rank), latent_product_threads, [&](U32 i) {
        const F32 v = load(from + i);
        square.add_product(v, v);
      });
      const F32 mean = block_sum(k, square.get()) / float(rank);
      const F32 scale = rsqrt_approx(mean + k.arg(&Args::epsilon));
      auto normed = [&](U32 i) { return load(from + i) * scale * load(k.arg(&Args::norm) + i, {.nc = true}); };
      if (cache == kv_q8) {  // a warp takes a group at a time
        const uint32_t groups = (head() + 31) / 32;
        const auto bytes = k.arg(&Args::cache).template as<uint8_t>() + cache_row * uint64_t(head());
        const auto scales = k.arg(&Args::scales) + cache_row * uint64_t(groups);
        k.loop(k.warp(), k.constant(groups), latent_product_threads / 32, [&](U32 group) {
          const U32 i = group * 32u + k.lane(), in_rotated = i - rank;
          auto v = k.var(0.0f);
          k.when(i < rank, [&] { v = normed(i); });
          k.when(i >= rank && i < head(), [&] {
            const U32 pair = halves ? in_rotated % (rotated / 2) : in_rotated / 2u;
            rotate(from.offset(rank), pair, k.constant(1.0f),
                   [&](U32 j, F32 one) { v = select(j == in_rotated, one, v.get()); });
          });
          const KvQ8 kept(v.get());
          k.when(i < head(), [&] { store(bytes + i, bitcast<uint32_t>(kept.q)); });
          k.when(k.lane() == 0u, [&] { store(scales + group, kept.scale); });
        });
        return;
      }
      k.loop(k.thread(), k.constant(rank), latent_product_threads,
             [&](U32 i) { store(to + i, to_f16(within_f16(normed(i)))); });
      k.loop(k.thread(), k.constant(rotated / 2), latent_product_threads, [&](U32 pair) {
        rotate(from.offset(rank), pair, k.constant(1.0f),
               [&](U32 i, F32 v) { store(to + (i + rank), to_f16(within_f16(v))); });
      });
    });
  };
  auto finish_row = [&] {
    const U32 row = k.block_id() - of_matrices;
    k.when_else(
        row < rows, [&] { finish(row); }, [&] { chain_wait(k, chained); });
  };
  absorbed ? k.when_else(k.block_id() < of_matrices, multiply, finish_row) : finish_row();
  return k.finish();
}

Grid LatentQueries::grid(const Args& args) const {
  if (args.page_size == 0) throw Error("{}: pages of 0 positions", name);
  const uint64_t blocks = (absorbed ? uint64_t(groups(args.rows)) * args.heads * chunks() : 0) + args.rows;
  if (blocks > 0x7fffffff) throw Error("{}: {} blocks, but a grid has at most 2147483647", name, blocks);
  return {.x = std::max(uint32_t(blocks), 1u)};
}

// --- values ---------------------------------------------------------------------------------------------------------
Kernel LatentValues::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), latent_product_threads);
  chain_start(k, chained);
  const uint32_t row_bytes = rank * 2 + 16, rows_of_block = tiles * 16;
  const auto w = k.shared<uint8_t>(columns * row_bytes, 128);
  const auto x = k.shared<uint8_t>(rows_of_block * row_bytes, 128);
  const auto factors = k.shared<float>(rows_of_block * max_splits);
  const U32 rows = k.arg(&Args::rows), heads = k.arg(&Args::heads), splits = k.arg(&Args::splits);
  const U32 chunk = k.block_id() % chunks(), rest = k.block_id() / chunks(), head_index = rest % heads;
  const U32 first_row = rest / heads * rows_of_block, first = chunk * columns;
  copy_matrix(k, w, k.arg(&Args::up) + mul_wide(head_index * value + first, rank), value - first, columns, rank, rank);
  chain_wait(k, chained);
  auto range_of = [&](U32 row) { return mad(first_row + row, heads, head_index) * splits; };  // the first of a row
  // The factor of each range: its weight relative to the largest score of all, divided by the sum of all weights.
  k.when(k.thread() < rows_of_block && first_row + k.thread() < rows, [&] {
    const auto sums = k.arg(&Args::sums) + mul_wide(range_of(k.thread()), 2u);
    auto top = k.var(OnlineSoftmax::none), sum = k.var(0.0f);
    k.loop(0u, splits, 1u, [&](U32 i) { top = max(top.get(), load(sums + i * 2u)); });
    k.loop(0u, splits, 1u, [&](U32 i) {
      const auto of = load_vec<2>(sums + i * 2u);
      sum.add_product(ex2_approx_ftz(of[0] - top.get()), of[1]);
    });
    const F32 all = sum.get(), inverse = select(all == 0.0f, all, rcp(all));
    k.loop(0u, splits, 1u, [&](U32 i) {
      store(factors + (k.thread() * max_splits + i), ex2_approx_ftz(load(sums + i * 2u) - top.get()) * inverse);
    });
  });
  k.barrier();
  k.loop(k.thread(), k.constant(rows_of_block * (rank / 4)), latent_product_threads, [&](U32 item) {
    const U32 row = item / (rank / 4), i = (item - row * (rank / 4)) * 4u;
    std::vector<Var<float>> sum;
    for (uint32_t j = 0; j < 4; ++j) sum.push_back(k.var(0.0f));
    k.when(first_row + row < rows, [&] {
      const auto from = k.arg(&Args::x) + mul_wide(range_of(row), rank) + i;
      k.loop(0u, splits, 1u, [&](U32 split) {
        const F32 factor = load(factors + (row * max_splits + split));
        const auto v = load_vec<4>(from + mul_wide(split, rank));
        for (uint32_t j = 0; j < 4; ++j) sum[j].add_product(v[j], factor);
      });
    });
    store_vec((x + (row * row_bytes + i * 2u)).as<uint32_t>(),
              Vec<uint32_t, 2>{bitcast<uint32_t>(to_f16x2(sum[0].get(), sum[1].get())),
                               bitcast<uint32_t>(to_f16x2(sum[2].get(), sum[3].get()))});
  });
  copy_wait(k, 0);
  k.barrier();
  multiply_heads(k, x, w, rank, tiles, columns, [&](U32 row, U32 column, F32 left, F32 right) {
    const U32 at = first + column;
    k.when(first_row + row < rows && at < value, [&] {
      const auto to =
          k.arg(&Args::out) + mul_wide(first_row + row, k.arg(&Args::out_stride)) + (head_index * value + at);
      store_vec(to, Vec<float, 2>{left, right});
    });
  });
  return k.finish();
}

Grid LatentValues::grid(const Args& args) const {
  if (args.splits == 0 || args.splits > max_splits)
    throw Error("{}: {} ranges, 1 to {} expected", name, args.splits, max_splits);
  if (args.out_stride % 2) throw Error("{}: out has a stride of {}, an even number expected", name, args.out_stride);
  check_stride(name, "out", args.rows, args.out_stride, uint64_t(args.heads) * value);
  const uint64_t blocks = uint64_t(groups(args.rows)) * args.heads * chunks();
  if (blocks > 0x7fffffff) throw Error("{}: {} blocks, but a grid has at most 2147483647", name, blocks);
  return {.x = std::max(uint32_t(blocks), 1u)};
}

LatentValues latent_values_choice(uint32_t rank, uint32_t value, uint32_t rows, const GpuLimits& gpu) {
  LatentValues spec{.rank = rank, .value = value, .tiles = std::clamp((rows + 15) / 16, 1u, 4u)};
  while (spec.shared_bytes() > gpu.shared_per_block && spec.tiles > 1) --spec.tiles;
  return spec;
}

}  // namespace heddle::kernels
