// Cases of cluster_attention.
#include <algorithm>
#include <array>

#include "kernels/attention/cluster_attention.h"
#include "proof/attention/attention_problem.h"

namespace heddle::proof {

namespace {

using kernels::ClusterAttention;

// A product of 16 rounds to 17 * 2^-23 of the sum of magnitudes, which is 0.64 * q_size * sqrt(head_dim) for a score of
// these inputs; a weight and the sum of weights have that error each. The second product adds 17 * 2^-23.
double cluster_bound(const AttentionShape& shape) {
  // a slope times a distance that still has weight (below 20) rounds to 2e-6, in a weight and in the sum of weights
  return 17 * 0x1p-23 * (1 + 2 * 0.64 * shape.q_size * std::sqrt(shape.head_dim)) + 1e-6 * shape.softcap +
         (shape.slopes ? 4e-6 : 0);
}

// With out_apart: every value is in its place, and nothing is written between them. `bound`: without the rounding.
void check_halves(const ClusterAttention& spec, ClusterAttention::Args args, const AttentionProblem& problem,
                  Machine& m, Check& check, double bound) {
  const uint32_t rows = args.sequences, ld = args.heads * spec.head_dim, group = 8;
  const f16 untouched{0x5a5a};
  std::vector<f16> all(size_t(rows + group - 1) / group * group * ld, untouched);
  const auto out = m.put(all);
  args.out = {out.address};
  args.out_group = group;
  m.launch(spec, args);
  all = m.get(out, all.size());
  std::vector<float> values;
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t c = 0; c < ld; ++c) {
      f16& value = all[kernels::operand_place(r, c, spec.out_apart, group, ld)];
      values.push_back(to_f32(value));
      value = untouched;
    }
  problem.check(check, values, bound + 0x1p-11 * 1.001);
  check.equal("between", all, std::vector<f16>(all.size(), untouched));
}

// `clusters`: 0 for one without merging. With it everything runs twice on the same scratch memory.
Case cluster(ClusterAttention spec, const AttentionShape& shape, uint32_t clusters = 0) {
  spec.head_dim = shape.head_dim;
  shape.sight().set(spec);
  spec.softcap = shape.softcap > 0;
  spec.merge = clusters > 0;
  spec.mapped = !shape.sequence_of.empty();
  spec.grouped = kernels::cluster_groups(shape.heads, shape.kv_heads) > 1;
  auto run = [=](Machine& m, Random& random, Check& check) {
    const AttentionProblem problem(m, random, shape, spec.kv, spec.layout);
    ClusterAttention::Args args{problem.args()};
    args.groups = kernels::cluster_groups(shape.heads, shape.kv_heads);
    args.clusters = clusters;
    if (spec.mapped) {
      args.sequence_of = m.put(shape.sequence_of);
      args.q_stride = shape.heads * shape.head_dim + 6;
      args.q = problem.spread_q(m, args.q_stride);
    }
    const uint32_t units = args.groups * args.kv_heads;
    const size_t counters = clusters ? spec.arrived_count(args.sequences, units) : 0;
    if (clusters) {
      args.partial = m.poisoned<float>(spec.partial_count(args.sequences, units, clusters));
      args.arrived = m.put(std::vector<uint32_t>(counters, 0));
    }
    for (uint32_t times = clusters ? 2 : 1; times; --times) {
      if (spec.out_apart) {
        check_halves(spec, args, problem, m, check, cluster_bound(shape));
        continue;
      }
      args.out = m.poisoned<float>(problem.outputs());
      m.launch(spec, args);
      problem.check(check, m.get(args.out, problem.outputs()), cluster_bound(shape));
    }
    if (clusters) check.equal("arrived", m.get(args.arrived, counters), std::vector<uint32_t>(counters, 0));
  };
  std::string text = field_text(spec) + " " + shape.text();
  if (clusters) text += fmt::format(" clusters={}", clusters);
  return {spec.copies == kernels::copies_async ? "async_attention" : "cluster_attention", text, target_of(spec), run};
}

// Every row alone gives the bits that it has among others.
Case steady(uint32_t kv, const AttentionShape& shape) {
  ClusterAttention spec = kernels::steady_cluster_choice(shape.head_dim).spec;
  if (kv == kernels::kv_q8) spec = kernels::as_q8(spec);
  spec.layout = kernels::kv_paged;
  spec.mapped = 1;
  spec.chained = 1;
  spec.grouped = kernels::cluster_groups(shape.heads, shape.kv_heads) > 1;
  auto run = [=](Machine& m, Random& random, Check& check) {
    const AttentionProblem problem(m, random, shape, kv, spec.layout);
    ClusterAttention::Args args{problem.args()};
    args.groups = kernels::cluster_groups(shape.heads, shape.kv_heads);
    args.sequence_of = m.put(shape.sequence_of);
    args.out = m.poisoned<float>(problem.outputs());
    ClusterAttention fresh = spec;
    fresh.fresh = 1;
    m.launch(fresh, args);
    const std::vector<float> together = m.get(args.out, problem.outputs());
    problem.check(check, together, cluster_bound(shape));
    args.out = m.poisoned<float>(problem.outputs());
    const uint64_t row_bytes = uint64_t(shape.heads) * shape.head_dim * sizeof(float);
    for (size_t r = 0; r < shape.lengths.size(); ++r) {
      auto one = args;
      one.q.address += r * row_bytes;
      one.out.address += r * row_bytes;
      one.lengths.address += r * 4;
      one.sequence_of.address += r * 4;
      one.sequences = 1;
      m.launch(spec, one);
    }
    check.equal("alone", m.get(args.out, problem.outputs()), together);
  };
  return {"cluster_attention", "steady " + field_text(spec) + " " + shape.text(), "sm_90", run};
}

void add_cluster_q8(std::vector<Case>& cases) {
  using namespace kernels;
  auto add = [&](ClusterAttention spec, const AttentionShape& shape, uint32_t clusters = 0) {
    spec.kv = kv_q8;
    spec.layout = kv_paged;
    cases.push_back(cluster(spec, shape, clusters));
  };
  for (uint32_t dim : {64u, 96u, 128u, 160u, 192u, 256u})
    for (uint32_t chained : {0u, 1u})
      add({.splits = 2, .rows = 8, .stages = 2, .warps = 2, .chained = chained},
          {.head_dim = dim, .heads = 3, .lengths = {17, 0, 1, 200}});
  // every place where shares, stages and pieces may end
  for (uint32_t length : attention_edge_lengths)
    for (uint32_t splits : {1u, 4u})
      for (uint32_t rows : {4u, 16u})
        add({.splits = splits, .rows = rows, .stages = 3, .warps = rows / 2, .chained = splits / 4},
            {.head_dim = 64, .lengths = {length}});
  // the newest position may be the only one of its stage, of its piece, or in a stage that is not fetched early
  for (uint32_t length : {1u, 2u, 3u, 16u, 17u, 32u, 33u, 49u, 65u, 129u})
    for (uint32_t window : {0u, 1u, 20u})
      add({.splits = 2, .rows = 2, .stages = 2, .warps = 1, .chained = 1},
          {.head_dim = 128, .lengths = {length}, .window = window});
  for (uint32_t clusters : {1u, 3u})
    add({.splits = 2, .rows = 4, .stages = 2, .warps = 2, .chained = 1},
        {.heads = 8, .kv_heads = 2, .lengths = {300, 0, 60}, .page_size = 48}, clusters);
  add({.splits = 8, .rows = 8, .stages = 2, .warps = 4},
      {.head_dim = 64, .heads = 7, .lengths = {1000}, .page_size = 32});
  add({.splits = 2}, {.lengths = {150, 0, 7}, .window = 50, .softcap = 20, .q_size = 8});
}

// Heads of 512: two warps compute one half of the values each.
void add_long_heads(Sweep sweep, std::vector<Case>& cases) {
  using namespace kernels;
  auto add = [&](const ClusterAttention& spec, AttentionShape shape, uint32_t clusters = 0) {
    shape.head_dim = 512;
    cases.push_back(cluster(spec, shape, clusters));
  };
  for (uint32_t kv : {kv_f16, kv_q8}) {
    ClusterAttention spec{
        .head_dim = 512, .kv = kv, .layout = kv_paged, .splits = 2, .rows = 4, .stages = 2, .warps = 4, .chained = 1};
    for (uint32_t clusters : {0u, 2u}) {
      add(spec, {.heads = 16, .kv_heads = 2, .lengths = {100, 0, 17, 1}}, clusters);
      add(spec, {.heads = 5, .lengths = {150, 33}, .window = 40, .softcap = 20, .sinks = true}, clusters);
    }
    spec.out_apart = 64;
    add(spec, {.heads = 8, .lengths = {60, 0, 3}});
    spec.out_apart = 0;
    for (uint32_t splits : {1u, 4u, 16u})
      for (uint32_t length : {1u, 16u, 33u, 129u}) {
        spec.splits = splits;
        spec.rows = splits == 4 ? 4 : 2;
        spec.warps = spec.rows == 4 ? 4 : 2;
        spec.chained = length % 2;
        add(spec, {.heads = 3, .lengths = {length}});
      }
    ClusterAttention async{.head_dim = 512, .kv = kv, .layout = kv_paged, .splits = 1, .rows = 2, .stages = 2};
    async.warps = 2;
    async.copies = copies_async;
    for (uint32_t clusters : {0u, 2u}) add(async, {.heads = 6, .lengths = {100, 0, 1}, .window = 50}, clusters);
    async.mapped = 1;
    add(async, {.heads = 4, .kv_heads = 2, .lengths = {5, 6, 40}, .page_size = 32, .sequence_of = {1, 1, 0}});
    if (sweep != Sweep::full) continue;
    for (uint32_t sequences : {1u, 5u, 64u})
      for (uint32_t length : {100u, 5000u}) {
        auto [choice, clusters] = cluster_choice(512, 2, sequences, length, 132);
        if (kv == kv_q8) choice = as_q8(choice);
        choice.layout = kv_paged;
        choice.chained = 1;
        add(choice, {.heads = 16, .kv_heads = 2, .lengths = std::vector(sequences, length), .page_size = 32},
            choice.merge ? clusters : 0);
      }
  }
}

// Without bulk copies and clusters.
void add_async_attention_cases(Sweep sweep, std::vector<Case>& cases) {
  using namespace kernels;
  auto add = [&](ClusterAttention spec, const AttentionShape& shape, uint32_t clusters = 0) {
    spec.splits = 1;
    spec.copies = copies_async;
    add_once(cases, cluster(spec, shape, clusters));
  };
  add({.layout = kv_paged, .rows = 4, .stages = 2, .warps = 2}, {.heads = 8, .kv_heads = 2, .lengths = {100, 0}}, 2);
  if (sweep == Sweep::quick) return;
  for (uint32_t dim : attention_head_dims)
    for (uint32_t layout : {kv_single, kv_paged})
      add({.layout = layout, .rows = 4, .stages = 2, .warps = 2}, {.head_dim = dim, .heads = 3, .lengths = {77}});
  // every place where shares, stages and pieces may end
  for (uint32_t length : attention_edge_lengths)
    for (uint32_t rows : {2u, 16u})
      add({.rows = rows, .stages = 3, .warps = rows / 2}, {.head_dim = 64, .lengths = {length}}, rows == 2 ? 3 : 0);
  for (uint32_t warps : {1u, 2u, 4u, 8u})
    add({.layout = kv_paged, .rows = 16, .stages = 2, .warps = warps},
        {.head_dim = 64, .heads = 4, .lengths = {1000, 300}, .page_size = 48});
  for (uint32_t window : {1u, 16u, 30u, 100u, 1000u})
    for (uint32_t kv : {kv_f16, kv_q8})
      add({.kv = kv, .layout = kv_paged, .rows = 4, .stages = 3, .warps = 2},
          {.head_dim = 64, .lengths = {150, 0, 7, 161, 15}, .window = window}, window == 30 ? 2 : 0);
  for (uint32_t dim : {64u, 96u, 128u, 256u})
    add({.kv = kv_q8, .layout = kv_paged, .rows = 8, .stages = 2, .warps = dim == 96 ? 1u : 4u},
        {.head_dim = dim, .heads = 4, .lengths = {260, 0, 1, 33}, .softcap = 20, .q_size = 8}, 2);
  for (uint32_t clusters : {0u, 2u})
    for (uint32_t kv : {kv_f16, kv_q8})
      add({.kv = kv, .layout = kv_paged, .rows = 4, .stages = 2, .warps = 2},
          {.head_dim = 64,
           .heads = 4,
           .lengths = {150, 0, 1, 33},
           .window = kv == kv_q8 ? 40u : 0u,
           .chunk = kv == kv_f16 ? 70u : 0u,
           .sinks = true,
           .slopes = kv == kv_f16},
          clusters);
  for (uint32_t kv : {kv_f16, kv_q8})
    add({.kv = kv, .layout = kv_paged, .rows = 4, .stages = 2, .warps = 2, .mapped = 1},
        {.head_dim = 64,
         .heads = 4,
         .kv_heads = 2,
         .lengths = {5, 6, 7, 90, 0, 33, 34},
         .page_size = 32,
         .sequence_of = {1, 1, 1, 0, 3, 2, 2}});
  for (uint32_t kv : {kv_f16, kv_q8})
    add({.kv = kv, .layout = kv_paged, .rows = 4, .stages = 2, .warps = 2},
        {.head_dim = 64, .heads = 26, .kv_heads = 2, .lengths = {150, 0, 33}, .sinks = true}, kv == kv_q8 ? 2 : 0);
  if (sweep == Sweep::normal) return;
  for (uint32_t kilobytes : {64u, 99u, 163u})
    for (uint32_t length : {512u, 4096u, 32768u})
      for (uint32_t dim : {64u, 128u, 256u}) {
        const GpuLimits gpu{kilobytes << 10, (kilobytes + 1) << 10, 1024, false};
        auto [spec, clusters] = cluster_choice(dim, 8, 1, length, 132, gpu);
        spec.layout = kv_paged;
        for (const ClusterAttention& s : {spec, as_q8(spec)})
          add(s, {.head_dim = dim, .heads = 32, .kv_heads = 8, .lengths = {length}, .page_size = 32}, clusters);
      }
}

}  // namespace

void add_cluster_attention_cases(Sweep sweep, std::vector<Case>& cases) {
  add_async_attention_cases(sweep, cases);
  using namespace kernels;
  auto add = [&](const ClusterAttention& spec, const AttentionShape& shape, uint32_t clusters = 0) {
    cases.push_back(cluster(spec, shape, clusters));
  };
  add({.layout = kv_paged, .splits = 2, .rows = 4, .stages = 2, .warps = 2},
      {.heads = 8, .kv_heads = 2, .lengths = {100, 0}});
  add({.layout = kv_paged, .splits = 2, .rows = 4, .stages = 2, .warps = 2, .chained = 1},
      {.heads = 8, .kv_heads = 2, .lengths = {100, 0}}, 2);
  if (sweep == Sweep::quick) return;

  for (uint32_t apart : {16u, 32u, 64u, 128u})
    for (uint32_t clusters : {0u, 2u}) {
      const ClusterAttention spec{
          .layout = kv_paged, .splits = 2, .rows = 4, .stages = 2, .warps = 2, .out_apart = apart, .chained = 1};
      add(spec, {.heads = 8, .kv_heads = 2, .lengths = {100, 0, 3, 17, 1, 50, 60, 70, 80}}, clusters);
      ClusterAttention q8 = spec;
      q8.kv = kv_q8;
      add(q8, {.head_dim = 64, .heads = 4, .lengths = {0, 33, 9}}, clusters);
    }
  for (uint32_t dim : attention_head_dims) {
    for (uint32_t layout : {kv_single, kv_paged})
      add({.layout = layout, .splits = 2, .rows = 4, .stages = 2, .warps = 2},
          {.head_dim = dim, .heads = 3, .lengths = {77}});
    add({.layout = kv_batched, .splits = 4, .rows = 8, .stages = 2, .warps = 4, .chained = 1},
        {.head_dim = dim, .heads = 4, .lengths = {17, 0, 1, 260}});
  }
  // every place where shares, stages and pieces may end
  for (uint32_t length : attention_edge_lengths) {
    add({.length = length_direct}, {.head_dim = 64, .lengths = {length}});
    for (uint32_t splits : {1u, 4u})
      for (uint32_t rows : {2u, 16u})
        add({.splits = splits, .rows = rows, .stages = 3, .warps = rows / 2, .chained = splits / 4},
            {.head_dim = 64, .lengths = {length}});
  }
  for (uint32_t splits : {1u, 2u, 4u, 8u, 16u})
    for (uint32_t warps : {1u, 2u, 4u, 8u})
      add({.layout = kv_paged, .splits = splits, .rows = 16, .stages = 2, .warps = warps, .chained = warps / 4 % 2},
          {.head_dim = 64, .heads = 4, .lengths = {1000, 300}, .page_size = 48});
  for (uint32_t stages : {1u, 2u, 5u})
    add({.splits = 1, .rows = 4, .stages = stages, .warps = 2, .chained = stages / 5},
        {.head_dim = 64, .lengths = {400}});
  for (uint32_t group : {1u, 2u, 3u, 4u, 7u, 8u})
    add({.layout = kv_paged, .splits = 2},
        {.head_dim = 64, .heads = 2 * group, .kv_heads = 2, .lengths = {130, 20}, .page_size = 32});
  // groups of one size, with a last one that is smaller, and of one head
  for (uint32_t of_one : {9u, 12u, 16u, 17u, 71u})
    for (uint32_t kv : {kv_f16, kv_q8}) {
      const ClusterAttention spec{
          .kv = kv, .layout = kv_paged, .splits = 2, .rows = 4, .stages = 2, .warps = 2, .chained = of_one % 2};
      const uint32_t kv_heads = of_one == 71 ? 1 : 2;
      AttentionShape shape{.head_dim = 64,
                           .heads = of_one * kv_heads,
                           .kv_heads = kv_heads,
                           .lengths = {130, 0, 20},
                           .page_size = 32,
                           .sinks = of_one % 3 == 0,
                           .slopes = of_one == 17};
      add(spec, shape);
      add(spec, shape, 2);
      ClusterAttention halves = spec;
      halves.out_apart = 64;
      if (of_one % 4 == 0) add(halves, shape, of_one == 16 ? 2 : 0);
      shape.sequence_of = {1, 2, 1};
      if (of_one < 17) add(spec, shape);
    }
  for (uint32_t layout : {kv_single, kv_batched})
    add({.layout = layout, .splits = 2, .rows = 4, .stages = 2, .warps = 2},
        {.head_dim = 80, .heads = 22, .kv_heads = 2, .lengths = {77}, .window = 30});
  for (uint32_t window : {1u, 16u, 30u, 100u, 1000u})
    for (uint32_t layout : {kv_batched, kv_paged})
      add({.layout = layout, .splits = 2, .rows = 4, .stages = 2, .warps = 2, .chained = layout == kv_paged},
          {.head_dim = 64, .lengths = {150, 0, 7, 161, 15}, .window = window});
  // sinks once, whichever blocks have positions; chunks that begin, and that are whole
  for (uint32_t clusters : {0u, 1u, 3u})
    for (uint32_t splits : {1u, 4u}) {
      const ClusterAttention spec{
          .layout = kv_paged, .splits = splits, .rows = 4, .stages = 2, .warps = 2, .chained = splits / 4};
      AttentionShape shape{.head_dim = 64, .heads = 6, .kv_heads = 2, .lengths = {150, 0, 1, 161, 17}, .sinks = true};
      add(spec, shape, clusters);
      ClusterAttention q8 = spec;
      q8.kv = kv_q8;
      shape.window = 40;
      add(q8, shape, clusters);
      shape.slopes = true;
      shape.softcap = 20;
      add(spec, shape, clusters);
      shape.window = 0;
      shape.sinks = false;
      shape.chunk = 16 + 33 * clusters;
      add(q8, shape, clusters);
      add(spec, shape, clusters);
    }
  for (uint32_t chunk : {1u, 2u, 16u, 30u, 75u, 150u, 1000u})
    add({.layout = kv_paged, .splits = 2, .rows = 4, .stages = 2, .warps = 2, .chained = chunk % 2},
        {.head_dim = 64, .lengths = {150, 0, 7, 161, 15, 151}, .chunk = chunk});
  for (uint32_t apart : {16u, 64u})
    add({.layout = kv_paged, .splits = 2, .rows = 4, .stages = 2, .warps = 2, .out_apart = apart, .chained = 1},
        {.head_dim = 64, .heads = 16, .kv_heads = 2, .lengths = {300, 5}, .window = 128, .sinks = true});
  for (float cap : {1.0f, 20.0f, 50.0f})
    add({.layout = kv_paged, .splits = 2}, {.lengths = {150, 0, 7}, .window = 50, .softcap = cap, .q_size = 8});
  add({}, {.heads = 8, .kv_heads = 2, .lengths = {512}});
  add({.chained = 1}, {.heads = 4, .lengths = {2055}});
  // the newest position may be the only one of its stage, or in one that is not fetched early
  for (uint32_t length : {1u, 16u, 17u, 32u, 33u, 49u, 65u, 129u})
    for (uint32_t window : {0u, 1u, 20u})
      add({.layout = kv_paged, .splits = 2, .rows = 2, .stages = 2, .warps = 1, .chained = 1},
          {.head_dim = 64, .lengths = {length}, .window = window});
  for (uint32_t clusters : {1u, 2u, 3u, 4u}) {
    for (uint32_t splits : {1u, 2u, 4u, 8u})
      for (uint32_t length : attention_edge_lengths)
        if (length != 2 && length != 128)
          add({.length = length_direct,
               .splits = splits,
               .rows = 4,
               .stages = 2,
               .warps = 2,
               .chained = splits / 2 % 2},
              {.head_dim = 64, .lengths = {length}}, clusters);
    add({.layout = kv_batched, .splits = 4, .chained = 1},
        {.head_dim = 64, .heads = 6, .kv_heads = 2, .lengths = {1000, 3, 0, 129, 257}}, clusters);
    add({.layout = kv_paged, .splits = 8, .rows = 4, .stages = 3, .warps = 2},
        {.heads = 4, .lengths = {1003, 0, 60}, .window = clusters * 100}, clusters);
    add({.splits = 16, .rows = 4, .warps = 2}, {.head_dim = 80, .heads = 5, .lengths = {1500}}, clusters);
  }
  for (uint32_t dim : attention_head_dims)
    add({.splits = 4, .rows = 4, .warps = 2}, {.head_dim = dim, .heads = 3, .lengths = {200}}, 2);
  add_cluster_q8(cases);
  add_long_heads(sweep, cases);
  // prompts and single tokens in one launch, as where a result must not depend on what else runs
  for (uint32_t kv : {kv_f16, kv_q8})
    for (uint32_t fresh : {0u, 1u})
      add({.kv = kv, .layout = kv_paged, .splits = 2, .rows = 4, .stages = 2, .warps = 2, .chained = 1, .fresh = fresh},
          {.head_dim = 64,
           .heads = 4,
           .kv_heads = 2,
           .lengths = {5, 6, 7, 90, 0, 33, 34},
           .page_size = 32,
           .window = fresh * 20,
           .sequence_of = {1, 1, 1, 0, 3, 2, 2}});
  for (uint32_t kv : {kv_f16, kv_q8})
    cases.push_back(steady(kv, {.head_dim = 64,
                                .heads = 4,
                                .kv_heads = 2,
                                .lengths = {5, 6, 7, 190, 0, 33, 34},
                                .page_size = 32,
                                .sequence_of = {1, 1, 1, 0, 3, 2, 2}}));
  cases.push_back(
      steady(kv_f16, {.head_dim = 64, .heads = 22, .kv_heads = 2, .lengths = {5, 6, 190}, .sequence_of = {1, 1, 0}}));
  for (uint32_t ahead : {1u, 2u, 16u})
    add({.layout = kv_paged, .splits = 2, .rows = 2, .stages = 1, .warps = 1, .chained = 1, .ahead = ahead},
        {.head_dim = 80, .lengths = {200, 0, 17, 1}, .window = ahead == 2 ? 70u : 0});
  for (uint32_t length : {100u, 1500u}) {
    const auto [spec, clusters] = cluster_choice(128, 1, 1, length, 16);
    add(spec, {.heads = 4, .lengths = {length}}, spec.merge ? clusters : 0);
  }
  if (sweep == Sweep::normal) return;

  for (uint32_t length : {512u, 4096u, 32768u, 40000u})
    for (uint32_t sequences : {1u, 3u, 20u}) {
      if (sequences * length > 200'000) continue;  // the f64 reference would take minutes
      auto [spec, clusters] = cluster_choice(128, 8, sequences, length, 132);
      spec.layout = kv_batched;
      spec.chained = 1;
      add(spec, {.heads = 32, .kv_heads = 8, .lengths = std::vector(sequences, length)}, spec.merge ? clusters : 0);
    }
  // shapes that a search tries for thousands of positions
  for (uint32_t kv : {kv_f16, kv_q8})
    for (uint32_t splits : {1u, 2u, 4u, 8u})
      for (uint32_t ahead : {0u, 2u})
        add({.kv = kv,
             .layout = kv_paged,
             .splits = splits,
             .rows = 16,
             .stages = 2,
             .warps = 8,
             .chained = 1,
             .ahead = ahead},
            {.heads = 32, .kv_heads = 8, .lengths = {4096, 9, 5000}, .page_size = 32}, splits == 8 ? 0 : 16 / splits);
  add({.kv = kv_q8, .layout = kv_paged, .splits = 2, .stages = 3, .chained = 1},
      {.heads = 32, .kv_heads = 8, .lengths = {32768}, .page_size = 32}, 8);
  for (uint32_t kv : {kv_f16, kv_q8})
    add({.kv = kv, .layout = kv_paged, .splits = 8, .rows = 8, .stages = 3, .warps = 4, .chained = 1, .fresh = 1},
        {.heads = 32,
         .kv_heads = 8,
         .lengths = {700, 701, 702, 703, 9, 2000, 1, 2},
         .page_size = 32,
         .sequence_of = {0, 0, 0, 0, 1, 2, 3, 3}});
  for (uint32_t kv : {kv_f16, kv_q8})
    cases.push_back(steady(kv, {.heads = 32,
                                .kv_heads = 8,
                                .lengths = {700, 701, 702, 703, 9, 5000, 1, 2},
                                .page_size = 32,
                                .sequence_of = {0, 0, 0, 0, 1, 2, 3, 3}}));
  for (uint32_t window : {0u, 128u}) {  // of gpt-oss
    auto [spec, clusters] = cluster_choice(64, 8, 1, window ? window : 16000, 132);
    spec.layout = kv_paged;
    spec.chained = 1;
    add(spec,
        {.head_dim = 64,
         .heads = 64,
         .kv_heads = 8,
         .lengths = {16000},
         .page_size = 32,
         .window = window,
         .sinks = true},
        spec.merge ? clusters : 0);
  }
  // of GLM-4.5 and Falcon-7B
  for (const auto& [dim, heads, kv_heads] : {std::array{128u, 96u, 8u}, std::array{64u, 71u, 1u}})
    for (uint32_t length : {100u, 6000u})
      for (uint32_t kv : {kv_f16, kv_q8}) {
        auto [spec, clusters] = cluster_choice(dim, kv_heads * cluster_groups(heads, kv_heads), 1, length, 132);
        spec.layout = kv_paged;
        spec.chained = 1;
        if (kv == kv_q8) spec = as_q8(spec);
        add(spec, {.head_dim = dim, .heads = heads, .kv_heads = kv_heads, .lengths = {length}, .page_size = 32},
            spec.merge ? clusters : 0);
      }
  for (uint32_t splits : {2u, 4u, 8u, 16u})
    for (uint32_t clusters : {2u, 7u, 16u})
      add({.layout = kv_paged, .splits = splits, .chained = 1},
          {.heads = 32, .kv_heads = 8, .lengths = {4096, 1, 8191, 700, 0, 2048, 33, 5000}, .page_size = 64}, clusters);
  for (uint32_t length : {512u, 4096u, 32768u})
    for (uint32_t chained : {0u, 1u})
      add({.stages = 5, .chained = chained}, {.heads = 32, .kv_heads = 8, .lengths = {length}});
  add({.layout = kv_paged, .splits = 4},
      {.heads = 32, .kv_heads = 8, .lengths = {4096, 1, 8191, 700, 0, 2048, 33, 5000}, .page_size = 64});
  for (uint32_t dim : attention_head_dims) add({}, {.head_dim = dim, .heads = 16, .kv_heads = 2, .lengths = {5001}});
}

}  // namespace heddle::proof
