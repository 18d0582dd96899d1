// Cases of attention without matrix units and of flash_decoding_reduce, and their timing.
#include <algorithm>
#include <limits>

#include "kernels/attention/attention.h"
#include "proof/attention/attention_problem.h"

namespace heddle::proof {

namespace {

using kernels::Attention;
using kernels::FlashDecodingReduce;

// Scores are sums of about 100 products around 1, rounded each, in units of 2^-24: 3e-6 at most for these inputs. What
// the soft-cap adds is 5e-7 of the cap (see tanh in functions.h), for a position and for the sum over all.
double simt_bound(const AttentionShape& shape) { return 5e-6 + 1e-6 * shape.softcap; }

// `chunks`: 0 for one pass, else split over so many blocks and reduced.
Case attention(std::string kernel, Attention spec, const AttentionShape& shape, uint32_t chunks = 0,
               uint32_t chunk = 128) {
  spec.head_dim = shape.head_dim;
  spec.window = shape.window > 0;
  spec.softcap = shape.softcap > 0;
  spec.split = chunks > 0;
  auto run = [=](Machine& m, Random& random, Check& check) {
    const AttentionProblem problem(m, random, shape, spec.kv, spec.layout);
    Attention::Args args{problem.args()};
    auto out = m.poisoned<float>(problem.outputs());
    args.out = out;
    if (chunks) {
      args.out = {};
      args.chunk = chunk;
      args.chunks = chunks;
      args.partial =
          m.poisoned<float>(size_t(args.sequences) * args.heads * chunks * Attention::partial_row(shape.head_dim));
    }
    m.launch(spec, args);
    if (chunks)
      m.launch(
          FlashDecodingReduce{.head_dim = shape.head_dim},
          {.out = out, .partial = args.partial, .sequences = args.sequences, .heads = args.heads, .chunks = chunks});
    problem.check(check, m.get(out, problem.outputs()), simt_bound(shape));
  };
  std::string text = field_text(spec) + " " + shape.text();
  if (chunks) text += fmt::format(" chunks={}x{}", chunks, chunk);
  return {std::move(kernel), text, "sm_75", run};
}

// Random parts, every third of them empty.
Case reduce(FlashDecodingReduce spec, uint32_t sequences, uint32_t heads, uint32_t chunks) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t dim = spec.head_dim, row = Attention::partial_row(dim);
    std::vector<float> partial = random.normals(size_t(sequences) * heads * chunks * row);
    std::vector<double> want, size;
    for (size_t r = 0; r < size_t(sequences) * heads; ++r) {
      std::vector<double> values(dim), sizes(dim);
      double sum = 0;
      for (uint32_t c = 0; c < chunks; ++c) {
        float* part = &partial[(r * chunks + c) * row];
        if (c % 3 == 1 || r == 1) {
          std::fill(part, part + dim + 2, 0.0f);
          part[dim] = std::numeric_limits<float>::lowest();
          continue;
        }
        part[dim] *= 4;
        part[dim + 1] = 1 + std::abs(part[dim + 1]);
        sum += std::exp2(double(part[dim])) * part[dim + 1];
        for (uint32_t i = 0; i < dim; ++i) {
          values[i] += std::exp2(double(part[dim])) * part[i];
          sizes[i] += std::abs(std::exp2(double(part[dim])) * part[i]);
        }
      }
      for (uint32_t i = 0; i < dim; ++i) {
        want.push_back(sum > 0 ? values[i] / sum : 0);
        size.push_back(sum > 0 ? sizes[i] / sum : 0);
      }
    }
    auto out = m.poisoned<float>(want.size());
    m.launch(spec, {.out = out, .partial = m.put(partial), .sequences = sequences, .heads = heads, .chunks = chunks});
    check.near("out", m.get(out, want.size()), want, size, 5e-6);
  };
  return {"flash_decoding_reduce",
          fmt::format("{} sequences={} heads={} chunks={}", field_text(spec), sequences, heads, chunks), "sm_75", run};
}

Bench simt(std::string kernel, const Attention& spec, uint32_t length) {
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const auto args = AttentionBench::inputs(m, random, length);
    return [=](Machine& now, uint32_t r) { now.launch(spec, {args(r)}); };
  };
  return AttentionBench::bench(std::move(kernel), length, fmt::format(", warps={}", spec.warps), "sm_75", prepare);
}

// Both launches are one round.
Bench split(uint32_t length, uint32_t chunk) {
  const Attention spec{.length = kernels::length_indirect, .warps = 4, .split = 1};
  const uint32_t chunks = length / chunk;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const auto args = AttentionBench::inputs(m, random, length);
    const auto partial =
        m.poisoned<float>(size_t(AttentionBench::heads) * chunks * Attention::partial_row(AttentionBench::head_dim));
    return [=](Machine& now, uint32_t r) {
      Attention::Args a{args(r)};
      a.partial = partial;
      a.chunk = chunk;
      a.chunks = chunks;
      now.launch(spec, a);
      now.launch(FlashDecodingReduce{},
                 {.out = a.out, .partial = partial, .sequences = 1, .heads = a.heads, .chunks = chunks});
    };
  };
  return AttentionBench::bench("flash_decoding_chunk", length, fmt::format(", chunks of {}, reduced", chunk), "sm_75",
                               prepare);
}

}  // namespace

void add_attention_cases(Sweep sweep, std::vector<Case>& cases) {
  using namespace kernels;
  auto add = [&](auto&&... args) { cases.push_back(attention(args...)); };
  const Attention batched{.layout = kv_batched, .length = length_indirect, .warps = 4};
  const Attention paged{.layout = kv_paged, .length = length_indirect, .warps = 4};

  add("incremental_attention", Attention{}, AttentionShape{.heads = 4, .kv_heads = 2, .lengths = {33}});
  add("incremental_attention_indirect", Attention{.length = length_indirect}, AttentionShape{.lengths = {18}});
  add("multi_warp_attention", Attention{.warps = 8}, AttentionShape{.heads = 4, .kv_heads = 2, .lengths = {129}});
  add("multi_warp_attention_indirect", Attention{.length = length_indirect, .warps = 8},
      AttentionShape{.lengths = {65}});
  add("batched_incremental_attention", batched, AttentionShape{.heads = 4, .kv_heads = 2, .lengths = {5, 0, 40}});
  add("paged_attention", paged, AttentionShape{.heads = 4, .kv_heads = 2, .lengths = {5, 0, 40}});
  add("flash_decoding_chunk", Attention{.length = length_indirect, .warps = 4}, AttentionShape{.lengths = {300}}, 4u);
  cases.push_back(reduce({}, 2, 3, 7));
  if (sweep == Sweep::quick) return;

  for (uint32_t dim : attention_head_dims)
    for (uint32_t kv : {kv_f16, kv_f32}) {
      add("incremental_attention", Attention{.kv = kv}, AttentionShape{.head_dim = dim, .lengths = {45}});
      add("multi_warp_attention", Attention{.kv = kv, .warps = 3}, AttentionShape{.head_dim = dim, .lengths = {129}});
      Attention many = batched;
      many.kv = kv;
      add("batched_incremental_attention", many, AttentionShape{.head_dim = dim, .lengths = {17, 0, 1, 60}});
      many.layout = kv_paged;
      add("paged_attention", many, AttentionShape{.head_dim = dim, .lengths = {17, 0, 1, 60}});
      add("flash_decoding_chunk", Attention{.kv = kv, .length = length_indirect, .warps = 2},
          AttentionShape{.head_dim = dim, .lengths = {150}}, 3u, 64u);
    }
  for (uint32_t length : attention_edge_lengths) {
    const AttentionShape shape{.head_dim = 64, .heads = 1, .lengths = {length}};
    add("incremental_attention", Attention{}, shape);
    add("incremental_attention_indirect", Attention{.length = length_indirect}, shape);
    add("multi_warp_attention", Attention{.warps = 4}, shape);
    add("multi_warp_attention_indirect", Attention{.length = length_indirect, .warps = 4}, shape);
    add("flash_decoding_chunk", Attention{.warps = 2}, shape, 3u, 16u);
  }
  add("incremental_attention", Attention{}, AttentionShape{.heads = 1, .lengths = {1999}});
  add("multi_warp_attention", Attention{.warps = 16}, AttentionShape{.heads = 1, .lengths = {3001}});
  add("batched_incremental_attention", batched,
      AttentionShape{.head_dim = 64, .heads = 4, .kv_heads = 2, .lengths = {1000, 3, 0, 129, 257}});
  for (uint32_t page_size : {32u, 48u, 64u, 256u})
    add("paged_attention", paged,
        AttentionShape{
            .head_dim = 64, .heads = 4, .kv_heads = 2, .lengths = {500, 3, 0, 129, 257}, .page_size = page_size});
  for (uint32_t group : {1u, 2u, 3u, 4u, 7u, 8u}) {
    const AttentionShape shape{.head_dim = 64, .heads = 2 * group, .kv_heads = 2, .lengths = {33, 20}};
    add("batched_incremental_attention", batched, shape);
    add("paged_attention", paged, shape);
  }
  for (uint32_t window : {1u, 16u, 100u, 1000u}) {
    add("multi_warp_attention", Attention{.warps = 4},
        AttentionShape{.head_dim = 64, .lengths = {150}, .window = window});
    add("paged_attention", paged, AttentionShape{.head_dim = 64, .lengths = {150, 0, 7}, .window = window});
    add("flash_decoding_chunk", Attention{.layout = kv_batched, .length = length_indirect, .warps = 2},
        AttentionShape{.head_dim = 64, .lengths = {150, 0, 7}, .window = window}, 2u, 32u);
  }
  for (float cap : {1.0f, 20.0f, 50.0f}) {
    add("multi_warp_attention", Attention{.warps = 4}, AttentionShape{.lengths = {150}, .softcap = cap, .q_size = 8});
    add("paged_attention", paged, AttentionShape{.lengths = {150, 0, 7}, .window = 50, .softcap = cap, .q_size = 8});
  }
  // fewer blocks than chunks, exactly as many, and more
  for (uint32_t chunks : {1u, 4u, 5u, 9u})
    add("flash_decoding_chunk", Attention{.layout = kv_paged, .length = length_indirect, .warps = 2},
        AttentionShape{.head_dim = 64, .heads = 4, .kv_heads = 2, .lengths = {512, 0, 385, 64, 1}}, chunks);
  for (uint32_t dim : attention_head_dims) cases.push_back(reduce({.head_dim = dim}, 3, 2, 5));
  cases.push_back(reduce({.head_dim = 64}, 1, 2, 500));
  if (sweep == Sweep::normal) return;

  const AttentionShape large{.heads = 32, .kv_heads = 8, .lengths = {32768}};
  add("multi_warp_attention", Attention{.warps = 16}, large);
  add("flash_decoding_chunk", Attention{.length = length_indirect, .warps = 4}, large, 256u);
  const AttentionShape many{
      .heads = 32, .kv_heads = 8, .lengths = {4096, 1, 8191, 700, 0, 2048, 33, 5000}, .page_size = 64};
  add("batched_incremental_attention", batched, many);
  add("paged_attention", paged, many);
}

void add_attention_benches(std::vector<Bench>& all) {
  for (uint32_t length : {512u, 4096u, 32768u}) {
    all.push_back(simt("incremental_attention", {}, length));
    all.push_back(simt("multi_warp_attention", {.warps = 16}, length));
    all.push_back(simt("batched_incremental_attention",
                       {.layout = kernels::kv_batched, .length = kernels::length_indirect, .warps = 4}, length));
    all.push_back(simt("incremental_attention_indirect", {.length = kernels::length_indirect}, length));
    all.push_back(simt("multi_warp_attention_indirect", {.length = kernels::length_indirect, .warps = 16}, length));
    all.push_back(
        simt("paged_attention", {.layout = kernels::kv_paged, .length = kernels::length_indirect, .warps = 4}, length));
    all.push_back(split(length, length > 4096 ? 512 : 128));
  }
}

}  // namespace heddle::proof
