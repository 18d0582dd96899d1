// Attention of the rows to the KV cache: a function for each kernel family that AttentionPath (paths.h) chooses from,
// and one that fills the arguments they share.
#include <algorithm>

#include "gpu/forward.h"
#include "kernels/attention/any_attention.h"
#include "kernels/attention/cluster_attention.h"
#include "kernels/attention/prompt_attention.h"
#include "kernels/attention/wgmma_attention.h"

namespace heddle::gpu {

void Forward::attend(const DeviceAttention& attention) {
  r_.recorder.set_phase("attend");
  const AttentionPath path = paths_.attention(*attention.model, rows_);
  if (path.newest) attend_newest(attention, path);
  switch (path.others) {
    case AttentionPath::Others::none:
      break;
    case AttentionPath::Others::wgmma_tiles:
    case AttentionPath::Others::prompt_tiles:
      attend_prompts(attention, path);
      break;
    case AttentionPath::Others::any:
      attend_any(attention);
      break;
  }
}

// Rows that cluster_attention has all of are written as the product with the output matrix reads them.
HalfForm Forward::attended_form(const DeviceAttention& attention) const {
  if (attention.gate) return {};  // what the gate multiplies is f32
  if (paths_.attention(*attention.model, rows_).newest != rows_.count) return {};
  return path_->half_form(attention.output, attention.output_norm, attention.model->partial, rows_);
}

kernels::AttentionArgs Forward::attention_args(const DeviceAttention& attention) const {
  const model::Attention& a = *attention.model;
  const KvCache& cache = r_.cache(attention);
  const Path::Queries q = path_->queries(attention);
  return {.out = {r_.work.attended.address()},
          .q = {q.address},
          .k = {cache.keys()},
          .v = {cache.values()},
          .k_scale = {cache.key_scales()},
          .v_scale = {cache.value_scales()},
          .table = {r_.tables(attention)},
          .heads = a.heads,
          .kv_heads = a.kv_heads,
          .q_stride = q.stride,
          .out_stride = stride_of(a.heads * a.value_head),
          .page_size = r_.limits.block_tokens,
          .table_stride = r_.sizes.table_stride,
          .window = a.window,
          .scale = a.scale,
          .softcap = a.softcap,
          .chunk = a.chunk,
          .sinks = {attention.sinks.address()},
          .slopes = {attention.slopes.address()}};
}

namespace {

// The fields of a spec that say which positions a row sees, and what its scores are.
void set_sight(const model::Attention& a, auto& spec) {
  if constexpr (requires { spec.window; }) spec.window = a.window != 0;
  if constexpr (requires { spec.bidirectional; }) spec.bidirectional = !a.causal;
  spec.softcap = a.softcap != 0;
  spec.chunk = a.chunk != 0;
  spec.sinks = !a.sinks.empty();
  spec.slopes = !a.slopes.empty();
}

// How many positions a row sees at most, of a sequence of `length`.
uint32_t max_seen(const model::Attention& a, uint32_t length) {
  for (uint32_t limit : {a.window, a.chunk})
    if (limit) length = std::min(length, limit);
  return length;
}

}  // namespace

uint64_t Forward::cache_bytes(const model::Attention& a) const {
  return uint64_t(rows_.count) * max_seen(a, rows_.longest) * model::kv_bytes(a, r_.limits.kv);
}

void Forward::attend_newest(const DeviceAttention& attention, const AttentionPath& path) {
  using Shape = AttentionPath::Shape;
  const model::Attention& a = *attention.model;
  const uint32_t sms = r_.recorder.sms(), rows = path.newest;
  const uint32_t longest = max_seen(a, rows == rows_.count ? rows_.longest : rows_.longest_single);
  const uint32_t groups = kernels::cluster_groups(a.heads, a.kv_heads), units = groups * a.kv_heads;
  kernels::ClusterChoice choice;
  switch (path.shape) {
    case Shape::steady:
      choice = kernels::steady_cluster_choice(a.head, r_.recorder.limits());
      break;
    case Shape::tuned:
      choice = r_.tuning.attention(a.head, units, rows, longest_of(length_class(longest)), sms);
      break;
    case Shape::by_length:
      choice = kernels::cluster_choice(a.head, units, rows, longest, sms, r_.recorder.limits());
      break;
  }

  kernels::ClusterAttention spec = choice.spec;
  spec.layout = kernels::kv_paged;
  spec.length = kernels::length_indirect;
  if (r_.q8()) spec = kernels::as_q8(spec);
  spec.mapped = !rows_.row_tables;
  spec.grouped = groups > 1;
  spec.fresh = path.reads_other_rows;
  set_sight(a, spec);
  kernels::ClusterAttention::Args args{{attention_args(attention)}};
  args.sequence_of = {r_.work.sequences.address()};
  args.lengths = {(a.causal ? r_.work.lengths : r_.work.text_lengths).address()};
  args.partial = {r_.work.partial.address()};
  args.arrived = {r_.work.arrived.address()};
  args.sequences = rows;
  args.groups = groups;
  args.clusters = choice.clusters;
  if (const HalfForm form = attended_form(attention)) {
    spec.out_apart = form.apart;
    args.out_group = form.group;
  }
  r_.recorder.launch(spec, args, cache_bytes(a) / rows_.count * rows);
}

void Forward::attend_prompts(const DeviceAttention& attention, const AttentionPath& path) {
  const model::Attention& a = *attention.model;
  const uint32_t first_tile = path.newest, tiles = rows_.tiles - first_tile;  // the newest rows are tiles of one row
  kernels::PromptAttention::Args args{attention_args(attention)};
  args.tiles = {r_.work.tiles.address() + first_tile * sizeof(kernels::PromptTile)};
  args.tile_count = tiles;
  args.lengths = {r_.work.tile_lengths.address() + first_tile * 4ull};
  auto launch = [&](auto spec) {
    spec.kv = r_.q8() ? kernels::kv_q8 : kernels::kv_f16;
    set_sight(a, spec);
    r_.recorder.launch(spec, args);
  };
  static_assert(prompt_tile == kernels::WgmmaAttention::queries);
  if (path.others == AttentionPath::Others::wgmma_tiles) return launch(kernels::wgmma_choice(a.head));
  const uint32_t seen = max_seen(a, rows_.longest);
  const kernels::GpuLimits& limits = r_.recorder.limits();
  kernels::PromptAttention spec =
      kernels::prompt_choice(a.head, prompt_tile, path.exact_queries, limits.shared_per_block);
  spec.parts = prompt_tile / spec.queries;
  // blocks of a tile that have rows, on average
  const uint32_t each = (rows_.count - path.newest + tiles - 1) / std::max(tiles, 1u);
  const uint32_t parts = std::clamp((each + spec.queries - 1) / spec.queries, 1u, spec.parts);
  if (limits.clusters) spec.splits = kernels::prompt_splits(spec, tiles * parts, a.heads, seen, r_.recorder.sms());
  launch(spec);
}

void Forward::attend_any(const DeviceAttention& attention) {
  const model::Attention& a = *attention.model;
  const uint32_t widest = std::max(a.head, a.value_head);
  kernels::AnyAttention spec{.largest = widest <= 128   ? 128u
                                        : widest <= 256 ? 256u
                                                        : 512u,
                             .vec = a.head % 4 == 0 && a.value_head % 4 == 0 ? 4u : 1u,
                             .kv = r_.q8() ? kernels::kv_q8 : kernels::kv_f16};
  set_sight(a, spec);
  kernels::AnyAttention::Args args{attention_args(attention)};
  args.positions = {r_.work.positions.address()};
  args.sequences = {r_.work.sequences.address()};
  args.rows = rows_.count;
  args.head = a.head;
  args.value_head = a.value_head;
  args.lengths = {r_.work.text_lengths.address()};
  r_.recorder.launch(spec, args, cache_bytes(a));
}

}  // namespace heddle::gpu
