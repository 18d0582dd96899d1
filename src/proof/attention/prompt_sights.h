// What queries of prompts see: windows, chunks, both directions, sinks and slopes. The kernels that attend to prompts
// share these cases; their tiles differ in size, so that each says how many rows the longest prompt has.
#pragma once
#include <vector>

#include "proof/attention/prompt_problem.h"

namespace heddle::proof {

inline const std::vector<uint32_t> prompt_windows{1, 2, 16, 17, 40, 1000, 0xffffffff};
inline const std::vector<uint32_t> prompt_windows_both_ways{1, 2, 3, 16, 33, 40, 1000, 0xffffffff};
inline const std::vector<uint32_t> prompt_chunks{1, 2, 16, 30, 75, 1000};

// Values that are whole numbers are not those of a q8 cache.
inline PromptShape windowed_prompts(uint32_t rows, uint32_t window, uint32_t kv) {
  return {.heads = 1, .pieces = {{70, rows}, {0, 20}, {33, 1}}, .window = window, .whole = kv == kernels::kv_f16};
}
inline PromptShape chunked_prompts(uint32_t rows, uint32_t chunk, uint32_t kv) {
  return {.heads = 1, .pieces = {{70, rows}, {0, 20}, {33, 1}}, .whole = kv == kernels::kv_f16, .chunk = chunk};
}
inline PromptShape windowed_texts(uint32_t rows, uint32_t window, uint32_t kv) {
  return {.heads = 1,
          .pieces = {{0, rows}, {0, 20}, {33, 9}, {0, 1}},
          .window = window,
          .whole = kv == kernels::kv_f16,
          .bidirectional = true};
}
inline PromptShape whole_texts(uint32_t rows, uint32_t heads, uint32_t kv) {
  return {.heads = heads,
          .pieces = {{0, rows}, {0, 3}, {5, 0}, {0, 40}},
          .page_size = 32,
          .whole = kv == kernels::kv_f16,
          .bidirectional = true};
}

// Alone, and with all that may come with them. add(spec, shape).
template <class Spec, class Add>
void add_sinks_and_slopes(Spec spec, uint32_t rows, const Add& add) {
  for (bool both : {false, true}) {
    spec.chained = both;
    spec.kv = kernels::kv_f16;
    add(spec, {.heads = 4, .pieces = {{90, rows}, {0, 3}}, .bidirectional = both, .sinks = true});
    add(spec, {.heads = 3, .pieces = {{90, 40}, {0, 3}}, .softcap = 20, .bidirectional = both, .slopes = true});
    spec.kv = kernels::kv_q8;
    add(spec, {.heads = 4,
               .pieces = {{90, 40}, {0, 3}},
               .window = 50,
               .chunk = both ? 0u : 60u,
               .bidirectional = both,
               .sinks = true,
               .slopes = true});
  }
}

// Of encoders and of gpt-oss, in their sizes. `spec`: for heads of 64.
template <class Spec, class Add>
void add_large_sights(const Spec& spec, const Add& add) {
  add(spec, {.heads = 4,
             .kv_heads = 4,
             .pieces = {{0, 512}, {0, 77}, {0, 300}, {0, 1}, {0, 129}},
             .page_size = 32,
             .bidirectional = true});
  add(spec, {.heads = 4,
             .kv_heads = 4,
             .pieces = {{0, 2000}, {0, 77}, {0, 300}},
             .page_size = 32,
             .window = 128,
             .bidirectional = true});
  for (uint32_t window : {0u, 128u})
    add(spec, {.heads = 16, .kv_heads = 2, .pieces = {{3000, 512}}, .page_size = 32, .window = window, .sinks = true});
}

}  // namespace heddle::proof
