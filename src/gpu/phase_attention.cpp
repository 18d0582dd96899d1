// Attention: q, k and v, the cache, and what is made of them. Which kernel attends depends on the shape of the heads
// and on whether rows are the newest of their sequences.
#include <algorithm>

#include "gpu/phases.h"
#include "kernels/any_attention.h"
#include "kernels/attention_cluster.h"
#include "kernels/attention_prompt.h"
#include "kernels/heads.h"

namespace heddle::gpu {

using kernels::Product;

namespace {

bool head_suits(const model::Attention& a) {
  for (uint32_t size : {64u, 80u, 96u, 112u, 128u, 160u, 192u, 256u})
    if (a.head == size && a.value_head == size) return true;
  return false;
}

}  // namespace

void Phases::qkv(uint32_t index) {
  name("qkv", int(index));
  const model::Attention& a = model_.layers[index].attention;
  DeviceLayer& layer = weights_.layers[index];
  const In in{.address = work_.h.address(), .stride = sizes_.width, .norm = &layer.attention_norm};
  if (few() && layer.joined_qkv) {
    const Weights* second = layer.qkv.size() > 1 ? &layer.qkv[1] : nullptr;
    return product(layer.qkv[0], second, in,
                   {.kind = Product::qkv, .y = work_.q.address(), .stride = uint32_t(a.q.rows)}, rows_.count, &a);
  }
  const uint64_t y = work_.qkv.address(), q = few() ? work_.q.address() : y;
  if (few()) {
    product(layer.qkv[0], nullptr, in, {.y = q, .stride = uint32_t(a.q.rows)}, rows_.count);
    for (size_t i : {1u, 2u})
      product(layer.qkv[i], nullptr, in, {.y = y + layer.qkv[i].first_place * 4ull, .stride = sizes_.qkv}, rows_.count);
  } else {
    halve(in, model_.width, rows_.count);
    for (const Weights& w : layer.qkv) large_product(w, y, sizes_.qkv, false, rows_.count);
  }
  const bool over_all = (layer.q_norm && layer.q_norm.size != a.head) || (layer.k_norm && layer.k_norm.size != a.head);
  const kernels::Heads spec{.q_norm = norm_kind(layer.q_norm.kind),
                            .k_norm = norm_kind(layer.k_norm.kind),
                            .over = over_all ? kernels::Heads::all_heads : kernels::Heads::each_head,
                            .bias = !layer.q_norm.bias.empty() || !layer.k_norm.bias.empty(),
                            .rotation = layer.rotary == 0                           ? kernels::Heads::none
                                        : a.rope.style == model::Rope::Style::pairs ? kernels::Heads::pairs
                                                                                    : kernels::Heads::halves,
                            .chained = chained};
  launch(spec, {.q = {q},
                .k = {y + a.q.rows * 4},
                .v = {y + (a.q.rows + a.k.rows) * 4},
                .q_weight = {layer.q_norm.device_weight.address()},
                .q_bias = {layer.q_norm.device_bias.address()},
                .k_weight = {layer.k_norm.device_weight.address()},
                .k_bias = {layer.k_norm.device_bias.address()},
                .turns = {layer.turns.address()},
                .positions = {work_.positions.address()},
                .sequences = {work_.sequences.address()},
                .table = {work_.table.address()},
                .k_cache = {keys_[index].address()},
                .v_cache = {values_[index].address()},
                .rows = rows_.count,
                .heads = a.heads,
                .kv_heads = a.kv_heads,
                .head = a.head,
                .value_head = a.value_head,
                .q_stride = few() ? uint32_t(a.q.rows) : sizes_.qkv,
                .k_stride = sizes_.qkv,
                .v_stride = sizes_.qkv,
                .dimensions = layer.rotary,
                .page_size = limits_.block_tokens,
                .table_stride = sizes_.table_stride,
                .q_epsilon = layer.q_norm.epsilon,
                .k_epsilon = layer.k_norm.epsilon,
                .magnitude = float(a.rope.magnitude)});
}

void Phases::attend(uint32_t index) {
  name("attend", int(index));
  const model::Attention& a = model_.layers[index].attention;
  const uint64_t q = few() ? work_.q.address() : work_.qkv.address();
  const uint32_t q_stride = few() ? uint32_t(a.q.rows) : sizes_.qkv, out_stride = stride_of(a.heads * a.value_head);
  const uint64_t bytes = uint64_t(rows_.count) * rows_.longest * a.kv_heads * (a.head + a.value_head) * 2;
  if (head_suits(a) && rows_.each_own && rows_.row_tables && few() && a.heads / a.kv_heads <= 8) {
    kernels::ClusterChoice choice =
        tuning_.attention(a.head, a.kv_heads, rows_.count, attention_class(rows_.longest), sms_);
    choice.spec.layout = kernels::kv_paged, choice.spec.length = kernels::length_indirect;
    choice.spec.window = a.window != 0, choice.spec.softcap = a.softcap != 0, choice.spec.chained = chained;
    launch(choice.spec,
           {.out = {work_.attended.address()},
            .q = {q},
            .k = {keys_[index].address()},
            .v = {values_[index].address()},
            .table = {work_.table.address()},
            .lengths = {work_.lengths.address()},
            .partial = {work_.partial.address()},
            .arrived = {work_.arrived.address()},
            .sequences = rows_.count,
            .heads = a.heads,
            .kv_heads = a.kv_heads,
            .clusters = choice.clusters,
            .page_size = limits_.block_tokens,
            .table_stride = sizes_.table_stride,
            .window = a.window,
            .scale = a.scale,
            .softcap = a.softcap},
           bytes);
    return;
  }
  if (head_suits(a) && rows_.tiles) {
    kernels::PromptAttention spec = kernels::prompt_choice(a.head, prompt_tile, exact_);
    spec.window = a.window != 0, spec.softcap = a.softcap != 0, spec.chained = chained;
    launch(spec, {.out = {work_.attended.address()},
                  .q = {q},
                  .k = {keys_[index].address()},
                  .v = {values_[index].address()},
                  .table = {work_.table.address()},
                  .tiles = {work_.tiles.address()},
                  .tile_count = rows_.tiles,
                  .heads = a.heads,
                  .kv_heads = a.kv_heads,
                  .q_stride = q_stride,
                  .out_stride = out_stride,
                  .page_size = limits_.block_tokens,
                  .table_stride = sizes_.table_stride,
                  .window = a.window,
                  .scale = a.scale,
                  .softcap = a.softcap});
    return;
  }
  const uint32_t widest = std::max(a.head, a.value_head);
  const kernels::AnyAttention spec{.largest = widest <= 128   ? 128u
                                              : widest <= 256 ? 256u
                                                              : 512u,
                                   .vec = a.head % 4 == 0 && a.value_head % 4 == 0 ? 4u : 1u,
                                   .softcap = a.softcap != 0,
                                   .chained = chained};
  launch(spec,
         {.out = {work_.attended.address()},
          .q = {q},
          .k_cache = {keys_[index].address()},
          .v_cache = {values_[index].address()},
          .positions = {work_.positions.address()},
          .sequences = {work_.sequences.address()},
          .table = {work_.table.address()},
          .rows = rows_.count,
          .heads = a.heads,
          .kv_heads = a.kv_heads,
          .head = a.head,
          .value_head = a.value_head,
          .out_stride = out_stride,
          .q_stride = q_stride,
          .page_size = limits_.block_tokens,
          .table_stride = sizes_.table_stride,
          .window = a.window,
          .scale = a.scale,
          .softcap = a.softcap},
         bytes);
}

}  // namespace heddle::gpu
