// The list of all kernels. Each file with kernels appends its own entries, in a function at its end that is named after
// it.
#include "kernels/spec/catalog.h"

namespace heddle::kernels {

using AddKernels = void(std::vector<Entry>& all);
AddKernels add_tile_pack_kernels, add_half_rows_kernels, add_mma_product_kernels, add_mma_tiles_kernels,
    add_wgmma_product_kernels, add_product_kernels, add_stream_read_kernels;
AddKernels add_cluster_attention_kernels, add_prompt_attention_kernels, add_wgmma_attention_kernels,
    add_any_attention_kernels, add_heads_kernels, add_latent_attention_kernels, add_latent_expand_kernels;
AddKernels add_embedding_kernels, add_norm_kernels, add_elementwise_kernels, add_cut_gate_kernels, add_altup_kernels,
    add_all_reduce_kernels, add_norm_across_kernels, add_move_parts_kernels;
AddKernels add_mixture_kernels, add_router_kernels, add_group_rows_kernels, add_own_experts_kernels;
AddKernels add_recurrence_kernels, add_chunked_recurrence_kernels, add_convolution_kernels;
AddKernels add_sample_kernels, add_step_advance_kernels, add_top_tokens_kernels;

const std::vector<Entry>& catalog() {
  static const std::vector<Entry> all = [] {
    std::vector<Entry> list;
    for (AddKernels* add : {add_tile_pack_kernels,
                            add_half_rows_kernels,
                            add_mma_product_kernels,
                            add_mma_tiles_kernels,
                            add_wgmma_product_kernels,
                            add_product_kernels,
                            add_stream_read_kernels,
                            add_cluster_attention_kernels,
                            add_prompt_attention_kernels,
                            add_wgmma_attention_kernels,
                            add_any_attention_kernels,
                            add_heads_kernels,
                            add_embedding_kernels,
                            add_norm_kernels,
                            add_elementwise_kernels,
                            add_mixture_kernels,
                            add_router_kernels,
                            add_group_rows_kernels,
                            add_sample_kernels,
                            add_step_advance_kernels,
                            add_top_tokens_kernels,
                            add_latent_attention_kernels,
                            add_latent_expand_kernels,
                            add_recurrence_kernels,
                            add_chunked_recurrence_kernels,
                            add_convolution_kernels,
                            add_cut_gate_kernels,
                            add_altup_kernels,
                            add_all_reduce_kernels,
                            add_norm_across_kernels,
                            add_move_parts_kernels,
                            add_own_experts_kernels})
      add(list);
    return list;
  }();
  return all;
}

bool runs_on(const std::string& lowest_target, const ptx::Target& here) {
  const ptx::Target& lowest = ptx::target(lowest_target);
  return lowest.specific ? here.name == lowest.name : here.sm >= lowest.sm;
}

}  // namespace heddle::kernels
