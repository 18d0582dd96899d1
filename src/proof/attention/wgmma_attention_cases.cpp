// Cases of wgmma_attention.
#include "kernels/attention/wgmma_attention.h"
#include "proof/attention/prompt_sights.h"

namespace heddle::proof {

namespace {

using kernels::WgmmaAttention;

Case wgmma_prompt(WgmmaAttention spec, const PromptShape& shape) {
  shape.sight().set(spec);
  spec.softcap = shape.softcap > 0;
  auto run = [=](Machine& m, Random& random, Check& check) {
    PromptProblem(m, random, shape, {spec.head_dim, spec.queries, spec.kv, false, spec.value_dim}).run(m, check, spec);
  };
  return {"wgmma_attention", field_text(spec) + " " + shape.text(), "sm_90a", run};
}

}  // namespace

void add_wgmma_attention_cases(Sweep sweep, std::vector<Case>& cases) {
  auto add = [&](const WgmmaAttention& spec, const PromptShape& shape) { cases.push_back(wgmma_prompt(spec, shape)); };
  const WgmmaAttention small{.head_dim = 64, .positions = 32};
  add(small, {.pieces = {{5, 140}, {0, 3}}, .whole = true});
  if (sweep == Sweep::quick) return;

  for (uint32_t dim : {64u, 80u, 96u, 112u, 128u, 160u, 192u, 256u}) {
    add(kernels::wgmma_choice(dim), {.heads = 3, .pieces = {{9, 150}}});
    add({.head_dim = dim, .positions = 32, .stages = 3, .chained = 1},
        {.heads = 2, .kv_heads = 2, .pieces = {{20, 19}}, .whole = true});
    if (dim % 32) continue;
    WgmmaAttention q8 = kernels::wgmma_choice(dim);
    q8.kv = kernels::kv_q8;
    add(q8, {.heads = 1, .pieces = {{9, 150}, {0, 1}}, .page_size = 16 + dim / 64 * 16});
  }
  // two blocks share the values
  for (uint32_t kv : {kernels::kv_f16, kernels::kv_q8}) {
    WgmmaAttention spec = kernels::wgmma_choice(512);
    spec.kv = kv;
    add(spec, {.heads = 3, .pieces = {{9, 150}, {0, 1}}, .page_size = 48});
    spec.chained = 1;
    add(spec, {.heads = 2, .kv_heads = 2, .pieces = {{20, 19}}, .whole = kv == kernels::kv_f16});
    add(spec, {.heads = 1, .pieces = {{70, 40}}, .window = 37, .softcap = 20, .size = 5});
  }
  // values of another size than keys
  for (const auto& [dim, values] : {std::pair{192u, 128u}, {192u, 16u}, {64u, 256u}, {80u, 48u}, {128u, 144u}})
    for (uint32_t kv_heads : {1u, 3u})
      add(kernels::wgmma_choice(dim, values), {.heads = 3, .kv_heads = kv_heads, .pieces = {{9, 150}, {0, 1}}});
  add({.head_dim = 192, .value_dim = 128, .positions = 32, .stages = 3, .chained = 1},
      {.heads = 2, .kv_heads = 2, .pieces = {{20, 140}}, .page_size = 176, .whole = true});
  // every place where tiles, steps, warps and pages may end
  for (uint32_t before : {0u, 1u, 31u, 32u, 33u, 100u})
    for (uint32_t rows : {1u, 16u, 17u, 63u, 64u, 65u, 128u, 129u}) {
      WgmmaAttention spec = small;
      spec.stages = 2 + (before + rows) % 3;
      spec.chained = rows % 2;
      spec.kv = rows % 16 ? kernels::kv_f16 : kernels::kv_q8;
      add(spec, {.heads = 1, .pieces = {{before, rows}}, .whole = spec.kv == kernels::kv_f16});
    }
  for (uint32_t window : prompt_windows) {
    add(small, windowed_prompts(145, window, small.kv));
    add({.head_dim = 80, .positions = 64, .chained = 1},
        {.heads = 1, .pieces = {{200, 100}}, .page_size = 48, .window = window, .whole = window % 2 == 0});
  }
  WgmmaAttention windowed = small;
  windowed.kv = kernels::kv_q8;
  add(windowed, {.heads = 1, .pieces = {{70, 145}, {0, 20}}, .window = 37});
  for (float cap : {1.0f, 20.0f, 50.0f})
    add({.head_dim = 128, .positions = 64}, {.pieces = {{20, 30}}, .softcap = cap, .size = 5});
  add(small, {.pieces = {{60, 140}}, .window = 30, .softcap = 30, .size = 5});
  // whole texts of all lengths, in both directions
  for (uint32_t rows : {1u, 16u, 31u, 33u, 64u, 65u, 127u, 129u, 200u}) {
    WgmmaAttention spec = small;
    spec.stages = 2 + rows % 3;
    spec.kv = rows % 16 == 1 ? kernels::kv_q8 : kernels::kv_f16;
    add(spec, whole_texts(rows, 1, spec.kv));
  }
  for (uint32_t window : prompt_windows_both_ways) {
    WgmmaAttention spec = small;
    spec.kv = window % 2 ? kernels::kv_f16 : kernels::kv_q8;
    add(spec, windowed_texts(210, window, spec.kv));
  }
  for (uint32_t chunk : prompt_chunks) {
    WgmmaAttention spec = small;
    spec.kv = chunk % 4 ? kernels::kv_f16 : kernels::kv_q8;
    add(spec, chunked_prompts(145, chunk, spec.kv));
  }
  add_sinks_and_slopes(small, 140, add);
  for (uint32_t group : {1u, 3u, 12u})
    add(small, {.heads = 2 * group, .kv_heads = 2, .pieces = {{3, 20}}, .page_size = 32, .whole = true});
  for (uint32_t page : {16u, 32u, 48u, 256u})
    add(small, {.heads = 1, .pieces = {{100, 170}, {0, 1}, {7, 0}, {300, 5}}, .page_size = page, .whole = true});
  add(small, {.pieces = {}});
  add(small, {.pieces = {{4, 0}}});
  if (sweep == Sweep::normal) return;

  for (uint32_t dim : {64u, 80u, 96u, 112u, 128u, 160u, 192u, 256u, 512u})
    for (uint32_t kv : {kernels::kv_f16, kernels::kv_q8}) {
      if (kv == kernels::kv_q8 && dim % 32) continue;
      WgmmaAttention spec = kernels::wgmma_choice(dim);
      spec.kv = kv;
      add(spec, {.heads = 8, .kv_heads = 2, .pieces = {{300, 700}, {0, 129}}, .page_size = 32});
      add(spec, {.heads = 3, .pieces = {{3000, 300}, {0, 512}}, .page_size = 64, .whole = kv == kernels::kv_f16});
    }
  add(kernels::wgmma_choice(128), {.heads = 8, .kv_heads = 2, .pieces = {{0, 2048}}, .page_size = 32});
  add(kernels::wgmma_choice(192, 128), {.heads = 4, .kv_heads = 4, .pieces = {{1500, 548}}, .page_size = 2048});
  add(kernels::wgmma_choice(128),
      {.heads = 4, .pieces = {{6000, 2048}}, .page_size = 64, .window = 1024, .whole = true});
  add_large_sights(kernels::wgmma_choice(64), add);
  add(kernels::wgmma_choice(256), {.heads = 4, .pieces = {{1000, 1000}}, .window = 600, .softcap = 50, .size = 5});
}

void add_wgmma_attention_benches(std::vector<Bench>& all) {
  auto add = [&](WgmmaAttention spec, uint32_t length, uint32_t rows) {
    all.push_back(prompt_bench(spec, length, rows, " " + field_text(spec)));
  };
  for (uint32_t length : {512u, 2048u, 8192u}) add(kernels::wgmma_choice(128), length, length);
  // the candidates
  for (auto [positions, stages] : {std::pair{128u, 3u}, std::pair{96u, 3u}, std::pair{160u, 2u}})
    add({.head_dim = 128, .positions = positions, .stages = stages}, 8192, 8192);
  WgmmaAttention q8 = kernels::wgmma_choice(128);
  q8.kv = kernels::kv_q8;
  add(q8, 8192, 8192);
  add(kernels::wgmma_choice(128), 8192, 512);
  for (uint32_t dim : {64u, 80u, 192u, 256u, 512u}) add(kernels::wgmma_choice(dim), 4096, 4096);
  add(kernels::wgmma_choice(192, 128), 4096, 4096);  // of DeepSeek's prompts
}

}  // namespace heddle::proof
