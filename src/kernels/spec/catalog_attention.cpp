// The catalog's lines for attention.
#include "kernels/attention/any_attention.h"
#include "kernels/attention/cluster_attention.h"
#include "kernels/attention/prompt_attention.h"
#include "kernels/spec/entry.h"

namespace heddle::kernels {

void add_attention(std::vector<Entry>& all) {
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
  all.push_back(entry<ClusterAttention>());
  all.push_back(entry<PromptAttention>());
  all.push_back(entry<AnyAttention>());
}

}  // namespace heddle::kernels
