// Cases of prompt_attention.
#include <algorithm>

#include "kernels/attention/prompt_attention.h"
#include "proof/attention/prompt_sights.h"
#include "proof/bench.h"

namespace heddle::proof {

namespace {

using kernels::PromptAttention;

Case prompt(PromptAttention spec, const PromptShape& shape) {
  shape.sight().set(spec);
  spec.softcap = shape.softcap > 0;
  auto run = [=](Machine& m, Random& random, Check& check) {
    PromptProblem(m, random, shape, {spec.head_dim, spec.tile_rows(), spec.kv, spec.exact_q != 0}).run(m, check, spec);
  };
  const bool fits_all = !spec.chained && spec.shared_bytes() <= ptx::target("sm_75").max_shared_bytes;
  const std::string target = spec.splits > 1 ? "sm_90" : fits_all ? "sm_75" : target_of(spec);
  return {"prompt_attention", field_text(spec) + " " + shape.text(), target, run};
}

}  // namespace

void add_prompt_attention_cases(Sweep sweep, std::vector<Case>& cases) {
  auto add = [&](const PromptAttention& spec, const PromptShape& shape) { cases.push_back(prompt(spec, shape)); };
  const PromptAttention small{.head_dim = 64, .queries = 32, .positions = 32};
  add(small, {.pieces = {{5, 40}, {0, 3}}, .whole = true});
  if (sweep == Sweep::quick) return;

  for (uint32_t dim : {64u, 80u, 96u, 112u, 128u, 160u, 192u, 256u, 512u})
    for (uint32_t exact : {0u, 1u}) {
      add({.head_dim = dim, .queries = 32, .positions = 32, .exact_q = exact}, {.heads = 3, .pieces = {{9, 50}}});
      add({.head_dim = dim, .queries = 16, .positions = 16, .stages = 3, .exact_q = exact, .chained = exact},
          {.heads = 2, .kv_heads = 2, .pieces = {{20, 19}}, .whole = true});
    }
  // every place where tiles, steps, warps and pages may end
  for (uint32_t before : {0u, 1u, 15u, 16u, 17u, 31u, 64u, 100u})
    for (uint32_t rows : {1u, 15u, 16u, 17u, 33u, 64u}) {
      PromptAttention spec = small;
      spec.stages = 2 + (before + rows) % 3;
      spec.chained = rows % 2;
      add(spec, {.heads = 1 + rows % 2, .pieces = {{before, rows}}, .whole = true});
    }
  for (uint32_t window : prompt_windows) {
    add(small, windowed_prompts(45, window, small.kv));
    add({.head_dim = 80, .queries = 64, .positions = 64, .chained = 1},
        {.pieces = {{200, 100}}, .page_size = 48, .window = window, .whole = window % 2 == 0});
  }
  // the first position of a step is before the window of a warp's last row only
  add({.head_dim = 64, .queries = 16, .positions = 16},
      {.heads = 1, .pieces = {{70, 16}}, .window = 37, .whole = true});
  for (float cap : {1.0f, 20.0f, 50.0f})
    add({.head_dim = 128, .queries = 16, .positions = 32}, {.pieces = {{20, 30}}, .softcap = cap, .size = 5});
  add(small, {.pieces = {{60, 40}}, .window = 30, .softcap = 30, .size = 5});
  for (uint32_t group : {1u, 2u, 3u, 5u, 8u, 12u})
    add(small, {.heads = 2 * group, .kv_heads = 2, .pieces = {{3, 20}}, .page_size = 32, .whole = true});
  for (uint32_t page : {16u, 32u, 48u, 256u})
    add(small, {.pieces = {{100, 70}, {0, 1}, {7, 0}, {300, 5}}, .page_size = page, .whole = true});
  for (uint32_t queries : {16u, 32u, 64u, 128u})
    for (uint32_t positions : {16u, 32u, 64u, 128u})
      if (positions >= queries / 4)
        add({.head_dim = 64, .queries = queries, .positions = positions},
            {.heads = 1, .pieces = {{150, 140}}, .whole = queries != positions});
  for (uint32_t dim : {64u, 96u, 128u, 160u, 192u, 256u, 512u})
    for (uint32_t exact : {0u, 1u})
      add({.head_dim = dim, .queries = 32, .positions = 32, .exact_q = exact, .kv = kernels::kv_q8, .chained = exact},
          {.heads = 3, .pieces = {{9, 50}, {0, 1}}, .page_size = 16 + dim / 64 * 16});
  PromptAttention q8 = small;
  q8.kv = kernels::kv_q8;
  for (uint32_t before : {0u, 1u, 15u, 17u, 64u})
    for (uint32_t rows : {1u, 15u, 17u, 64u}) {
      q8.stages = 2 + (before + rows) % 3;
      add(q8, {.heads = 1 + rows % 2, .pieces = {{before, rows}}});
    }
  for (uint32_t window : {1u, 16u, 17u, 40u, 0xffffffffu}) add(q8, windowed_prompts(45, window, q8.kv));
  add({.head_dim = 64, .queries = 128, .positions = 128, .kv = kernels::kv_q8}, {.heads = 1, .pieces = {{150, 140}}});
  // whole texts of all lengths, in both directions
  for (uint32_t rows : {1u, 15u, 16u, 17u, 31u, 33u, 64u, 100u}) {
    PromptAttention spec = small;
    spec.stages = 2 + rows % 3;
    spec.kv = rows % 16 == 1 ? kernels::kv_q8 : kernels::kv_f16;
    spec.splits = rows == 100 ? 4 : 1;
    add(spec, whole_texts(rows, 1 + rows % 2, spec.kv));
  }
  for (uint32_t window : prompt_windows_both_ways)
    for (uint32_t kv : {kernels::kv_f16, kernels::kv_q8}) {
      PromptAttention spec = small;
      spec.kv = kv;
      spec.parts = 1 + window % 2;
      add(spec, windowed_texts(110, window, kv));
    }
  for (uint32_t chunk : prompt_chunks)
    for (uint32_t kv : {kernels::kv_f16, kernels::kv_q8}) {
      PromptAttention spec = small;
      spec.kv = kv;
      add(spec, chunked_prompts(45, chunk, kv));
    }
  for (uint32_t splits : {1u, 4u}) {
    PromptAttention spec = small;
    spec.splits = splits;
    add_sinks_and_slopes(spec, 40, add);
  }
  // clusters, with blocks that have nothing to do among them
  for (uint32_t splits : {2u, 4u, 8u})
    for (uint32_t before : {0u, 40u, 200u})
      for (uint32_t kv : {kernels::kv_f16, kernels::kv_q8}) {
        PromptAttention spec = small;
        spec.splits = splits;
        spec.kv = kv;
        spec.chained = splits > 2;
        add(spec, {.heads = 2, .pieces = {{before, 17}, {3, 40}, {9, 0}}, .window = before == 40 ? 50u : 0u});
      }
  for (uint32_t dim : {64u, 128u, 256u, 512u}) {
    PromptAttention spec = kernels::prompt_choice(dim, 64, 0);
    spec.splits = 4;
    spec.kv = dim == 256 ? kernels::kv_q8 : kernels::kv_f16;
    add(spec, {.heads = 1, .pieces = {{500, 64}}, .page_size = 32});
  }
  for (uint32_t parts : {2u, 3u, 8u}) {
    PromptAttention spec = small;
    spec.parts = parts;
    spec.splits = parts == 3 ? 2 : 1;
    spec.kv = parts == 8 ? kernels::kv_q8 : kernels::kv_f16;
    add(spec, {.heads = 1, .pieces = {{20, 33}, {5, 100}, {9, 0}, {0, 1}}});
  }
  PromptAttention empty = small;
  empty.splits = 2;
  add(empty, {.pieces = {}});
  add(small, {.pieces = {}});
  add(small, {.pieces = {{4, 0}}});
  for (uint32_t dim : {64u, 128u, 256u, 512u})
    for (uint32_t rows : {1u, 20u, 100u})
      add(kernels::prompt_choice(dim, rows, 0), {.heads = 1, .pieces = {{77, rows}}, .page_size = 64, .whole = true});
  if (sweep == Sweep::normal) return;

  for (uint32_t dim : {64u, 80u, 96u, 112u, 128u, 160u, 192u, 256u, 512u}) {
    add(kernels::prompt_choice(dim, 700, 0),
        {.heads = 8, .kv_heads = 2, .pieces = {{300, 700}, {0, 129}}, .page_size = 64});
    add(kernels::prompt_choice(dim, 700, 0),
        {.heads = 3, .pieces = {{3000, 300}, {0, 512}}, .page_size = 64, .whole = true});
  }
  for (uint32_t kv : {kernels::kv_f16, kernels::kv_q8}) {
    PromptAttention spec = kernels::prompt_choice(128, 2048, 0);
    spec.kv = kv;
    add(spec, {.heads = 8, .kv_heads = 2, .pieces = {{0, 2048}}, .page_size = 64});
  }
  for (uint32_t splits : {2u, 8u}) {
    PromptAttention spec = kernels::prompt_choice(128, 64, 0);
    spec.splits = splits;
    spec.chained = 1;
    add(spec, {.heads = 8, .kv_heads = 2, .pieces = {{12'000, 90}, {30, 5}}, .page_size = 32});
  }
  add(kernels::prompt_choice(128, 2048, 0),
      {.heads = 4, .pieces = {{6000, 2048}}, .page_size = 64, .window = 1024, .whole = true});
  add_large_sights(kernels::prompt_choice(64, 512, 0), add);
  add(kernels::prompt_choice(256, 1000, 1),
      {.heads = 4, .pieces = {{1000, 1000}}, .window = 600, .softcap = 50, .size = 5});
}

void add_prompt_attention_benches(std::vector<Bench>& all) {
  auto add = [&](uint32_t head_dim, uint32_t length, uint32_t rows, uint32_t exact_q) {
    all.push_back(
        prompt_bench(kernels::prompt_choice(head_dim, rows, exact_q), length, rows, exact_q ? ", exact q" : ""));
  };
  for (uint32_t exact_q : {0u, 1u}) {
    for (uint32_t length : {512u, 2048u, 8192u}) add(128, length, length, exact_q);
    add(128, 8192, 512, exact_q);
  }
  for (uint32_t dim : {64u, 80u, 256u, 512u}) add(dim, 4096, 4096, 0);
}

}  // namespace heddle::proof
