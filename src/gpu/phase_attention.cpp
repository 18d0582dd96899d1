// Attention: q, k and v, the cache, and what is made of them. Which kernel attends depends on the shape of the heads
// and on whether rows are the newest of their sequences.
#include <algorithm>

#include "gpu/phases.h"
#include "kernels/attention/any_attention.h"
#include "kernels/attention/cluster_attention.h"
#include "kernels/attention/heads.h"
#include "kernels/attention/prompt_attention.h"

namespace heddle::gpu {

using kernels::Product;

namespace {

bool head_suits(const model::Attention& a) {
  for (uint32_t size : {64u, 80u, 96u, 112u, 128u, 160u, 192u, 256u})
    if (a.head == size && a.value_head == size) return true;
  return false;
}

}  // namespace

Phases::Queries Phases::queries(const DeviceAttention& attention) const {
  const auto q_rows = uint32_t(attention.model->q.rows);
  // few rows have q apart, unless `product` leaves k and v behind it
  if (few() && !(q8() && attention.joined_qkv)) return {work_.q.address(), q_rows};
  return {work_.qkv.address(), sizes_.qkv};
}

uint64_t Phases::scales(const cuda::Buffer& cache) const {
  return q8() ? cache.address() + cache.bytes() / 34 * 32 : 0;  // behind the values: 2 bytes for each 32
}

void Phases::compute(const DeviceAttention& attention) {
  qkv(attention);
  attend(attention);
}

void Phases::add(const DeviceAttention& attention, float scale) {
  name("output");
  const model::Attention& a = *attention.model;
  add_to_residual(attention.output, {.address = work_.attended.address(), .stride = stride_of(a.heads * a.value_head)},
                  attention.output_norm, scale);
}

void Phases::qkv(const DeviceAttention& attention) {
  name("qkv");
  const In in{.address = work_.h.address(), .stride = sizes_.width, .norm = &attention.norm};
  const auto [q, q_stride] = queries(attention);
  const std::vector<Weights>& all = attention.qkv;
  if (few() && attention.joined_qkv) {
    const Weights* second = all.size() > 1 ? &all[1] : nullptr;
    product(all[0], second, in, {.kind = Product::qkv, .y = q, .stride = q_stride}, rows_.count, &attention);
    if (q8()) write_heads(attention, true);
    return;
  }
  const uint64_t y = work_.qkv.address();
  if (few()) {
    product(all[0], nullptr, in, {.y = q, .stride = q_stride}, rows_.count);
    for (size_t i : {1u, 2u})
      product(all[i], nullptr, in, {.y = y + all[i].first_place * 4ull, .stride = sizes_.qkv}, rows_.count);
  } else {
    halve(in, model_.width, rows_.count);
    for (const Weights& w : all) large_product(w, y, sizes_.qkv, false, rows_.count);
  }
  write_heads(attention, false);
}

void Phases::write_heads(const DeviceAttention& attention, bool finished) {
  const model::Attention& a = *attention.model;
  const DeviceNorm &q_norm = attention.q_norm, &k_norm = attention.k_norm;
  const cuda::Buffer &keys = keys_[attention.index], &values = values_[attention.index];
  const auto [q, q_stride] = queries(attention);
  const uint64_t y = work_.qkv.address();
  const bool over_all = (q_norm && q_norm.size != a.head) || (k_norm && k_norm.size != a.head);
  const kernels::Heads spec{.q_norm = finished ? 0 : norm_kind(q_norm.kind),
                            .k_norm = finished ? 0 : norm_kind(k_norm.kind),
                            .over = over_all ? kernels::Heads::all_heads : kernels::Heads::each_head,
                            .bias = !q_norm.bias.empty() || !k_norm.bias.empty(),
                            .rotation = finished || attention.rotary == 0           ? kernels::Heads::none
                                        : a.rope.style == model::Rope::Style::pairs ? kernels::Heads::pairs
                                                                                    : kernels::Heads::halves,
                            .kv = q8() ? kernels::kv_q8 : kernels::kv_f16,
                            .chained = chained};
  launch(spec, {.q = {q},
                .k = {y + a.q.rows * 4},
                .v = {y + (a.q.rows + a.k.rows) * 4},
                .q_weight = {q_norm.device_weight.address()},
                .q_bias = {q_norm.device_bias.address()},
                .k_weight = {k_norm.device_weight.address()},
                .k_bias = {k_norm.device_bias.address()},
                .turns = {attention.turns.address()},
                .positions = {work_.positions.address()},
                .sequences = {work_.sequences.address()},
                .table = {work_.table.address()},
                .k_cache = {keys.address()},
                .v_cache = {values.address()},
                .k_scale = {scales(keys)},
                .v_scale = {scales(values)},
                .rows = rows_.count,
                .heads = a.heads,
                .kv_heads = a.kv_heads,
                .head = a.head,
                .value_head = a.value_head,
                .q_stride = q_stride,
                .k_stride = sizes_.qkv,
                .v_stride = sizes_.qkv,
                .dimensions = attention.rotary,
                .page_size = limits_.block_tokens,
                .table_stride = sizes_.table_stride,
                .q_epsilon = q_norm.epsilon,
                .k_epsilon = k_norm.epsilon,
                .magnitude = float(a.rope.magnitude)});
}

void Phases::attend(const DeviceAttention& attention) {
  name("attend");
  const model::Attention& a = *attention.model;
  const cuda::Buffer &keys = keys_[attention.index], &values = values_[attention.index];
  const auto [q, q_stride] = queries(attention);
  const uint32_t out_stride = stride_of(a.heads * a.value_head), kv = q8() ? kernels::kv_q8 : kernels::kv_f16;
  const uint64_t read = uint64_t(rows_.count) * rows_.longest * a.kv_heads * (a.head + a.value_head);
  const uint64_t bytes = q8() ? read / 32 * 34 : read * 2;
  const kernels::AttentionArgs common{.out = {work_.attended.address()},
                                      .q = {q},
                                      .k = {keys.address()},
                                      .v = {values.address()},
                                      .k_scale = {scales(keys)},
                                      .v_scale = {scales(values)},
                                      .table = {work_.table.address()},
                                      .heads = a.heads,
                                      .kv_heads = a.kv_heads,
                                      .q_stride = q_stride,
                                      .out_stride = out_stride,
                                      .page_size = limits_.block_tokens,
                                      .table_stride = sizes_.table_stride,
                                      .window = a.window,
                                      .scale = a.scale,
                                      .softcap = a.softcap};
  // rows that are the newest of their sequences, and if need be all others too
  uint32_t newest = rows_.each_own || deterministic_ ? rows_.count : rows_.single;
  if (!head_suits(a) || a.heads / a.kv_heads > 8) newest = 0;
  if (newest) {
    const uint32_t longest = newest == rows_.count ? rows_.longest : rows_.longest_single;
    kernels::ClusterChoice choice = deterministic_ ? kernels::steady_cluster_choice(a.head)
                                    : rows_.row_tables
                                        ? tuning_.attention(a.head, a.kv_heads, newest, attention_class(longest), sms_)
                                        : kernels::cluster_choice(a.head, a.kv_heads, newest, longest, sms_);
    kernels::ClusterAttention& spec = choice.spec;
    spec.layout = kernels::kv_paged, spec.length = kernels::length_indirect;
    if (q8()) spec = kernels::as_q8(spec);
    spec.mapped = !rows_.row_tables, spec.fresh = deterministic_ && !rows_.each_own;
    spec.window = a.window != 0, spec.softcap = a.softcap != 0, spec.chained = chained;
    kernels::ClusterAttention::Args args{{common}};
    args.sequence_of = {work_.sequences.address()};
    args.lengths = {work_.lengths.address()};
    args.partial = {work_.partial.address()};
    args.arrived = {work_.arrived.address()};
    args.sequences = newest;
    args.clusters = choice.clusters;
    launch(spec, args, bytes / rows_.count * newest);
    if (newest == rows_.count) return;
  }
  if (head_suits(a) && rows_.tiles && !deterministic_) {
    kernels::PromptAttention spec = kernels::prompt_choice(a.head, prompt_tile, exact_);
    spec.kv = kv, spec.window = a.window != 0, spec.softcap = a.softcap != 0, spec.chained = chained;
    const uint32_t seen = a.window ? std::min(a.window, rows_.longest) : rows_.longest;
    spec.splits = kernels::prompt_splits(spec, rows_.tiles - newest, a.heads, seen, sms_);
    kernels::PromptAttention::Args args{common};
    args.tiles = {work_.tiles.address() + newest * sizeof(kernels::PromptTile)};
    args.tile_count = rows_.tiles - newest;
    launch(spec, args);
    return;
  }
  const uint32_t widest = std::max(a.head, a.value_head);
  const kernels::AnyAttention spec{.largest = widest <= 128   ? 128u
                                              : widest <= 256 ? 256u
                                                              : 512u,
                                   .vec = a.head % 4 == 0 && a.value_head % 4 == 0 ? 4u : 1u,
                                   .kv = kv,
                                   .softcap = a.softcap != 0,
                                   .chained = chained};
  kernels::AnyAttention::Args args{common};
  args.positions = {work_.positions.address()};
  args.sequences = {work_.sequences.address()};
  args.rows = rows_.count;
  args.head = a.head;
  args.value_head = a.value_head;
  launch(spec, args, bytes);
}

}  // namespace heddle::gpu
