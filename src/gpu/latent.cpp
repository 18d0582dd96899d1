// The phases of latent attention: see kernels/attention/latent_attention.h.
#include <algorithm>

#include "gpu/forward.h"
#include "kernels/attention/latent_attention.h"

namespace heddle::gpu {

// The ranges of positions that blocks share: by the class of the longest sequence, because a graph is for all of it;
// one where the number of rows must not matter.
uint32_t Forward::latent_splits(const model::Attention& a) const {
  if (r_.options.deterministic) return 1;
  const auto spec = kernels::latent_choice(a.latent->rank, a.latent->rotated, r_.recorder.limits());
  const uint32_t longest = std::min(longest_of(length_class(rows_.longest)), r_.sizes.context);
  return kernels::latent_splits(spec, rows_.count, a.heads, longest, r_.recorder.sms());
}

void Forward::compute_latent(const DeviceAttention& attention) {
  const model::Attention& a = *attention.model;
  const model::Latent& l = *a.latent;
  const DeviceLatent& device = *attention.latent;
  const uint64_t down = r_.work.qkv.address();
  const uint32_t stride = r_.sizes.qkv, first = attention.stacked_qkv
                                                    ? attention.qkv[0].shape.rows - uint32_t(l.kv_down.rows)
                                                    : attention.qkv[0].shape.rows;
  const Input in = normed(attention.norm);
  r_.recorder.set_phase("qkv");
  for (const Weights& w : attention.qkv) path_->store(w, in, down + w.first_place * 4ull, stride, rows_);
  Path::Queries q{down, stride};
  if (device.q_up) {
    q = {r_.work.q.address(), r_.sizes.q};
    path_->store(device.q_up, {.address = down, .stride = stride, .norm = &device.q_norm}, q.address, q.stride, rows_);
  }

  const uint32_t tiles = std::clamp((rows_.count + 15) / 16, 1u, 4u), kv = r_.q8() ? kernels::kv_q8 : kernels::kv_f16;
  r_.recorder.launch(kernels::LatentQueries{.rank = l.rank,
                                            .plain = l.plain,
                                            .rotated = l.rotated,
                                            .tiles = tiles,
                                            .halves = a.rope.style == model::Rope::Style::halves,
                                            .temperature = a.temperature.scale != 0,
                                            .cache = kv},
                     {.out = {r_.work.latent_q.address()},
                      .q = {q.address},
                      .kv = {down + first * 4ull},
                      .up = {device.k_up.address()},
                      .norm = {device.kv_norm.device_weight.address()},
                      .turns = {attention.turns.address()},
                      .positions = {r_.work.positions.address()},
                      .sequences = {r_.work.sequences.address()},
                      .table = {r_.work.table.address()},
                      .cache = {r_.cache(attention).keys()},
                      .scales = {r_.cache(attention).key_scales()},
                      .rows = rows_.count,
                      .heads = a.heads,
                      .q_stride = q.stride,
                      .kv_stride = stride,
                      .page_size = r_.limits.block_tokens,
                      .table_stride = r_.sizes.table_stride,
                      .epsilon = device.kv_norm.epsilon,
                      .magnitude = float(a.rope.magnitude),
                      .temperature = a.temperature.scale,
                      .temperature_length = std::max(a.temperature.length, 1u),
                      .temperature_offset = a.temperature.offset},
                     device.k_up.bytes());
  r_.recorder.set_phase("attend");
  const uint32_t splits = latent_splits(a);
  const uint64_t found = splits > 1 ? r_.work.partial.address() : r_.work.attended.address();
  kernels::LatentAttention spec = kernels::latent_choice(l.rank, l.rotated, r_.recorder.limits());
  spec.cache = kv;
  r_.recorder.launch(spec,
                     {.out = {found},
                      .sums = {r_.work.latent_sums.address()},
                      .q = {r_.work.latent_q.address()},
                      .cache = {r_.cache(attention).keys()},
                      .scales = {r_.cache(attention).key_scales()},
                      .positions = {r_.work.positions.address()},
                      .sequences = {r_.work.sequences.address()},
                      .table = {r_.work.table.address()},
                      .rows = rows_.count,
                      .heads = a.heads,
                      .page_size = r_.limits.block_tokens,
                      .table_stride = r_.sizes.table_stride,
                      .splits = splits,
                      .scale = a.scale},
                     uint64_t(rows_.count) * rows_.longest * model::kv_bytes(a, r_.limits.kv));
  r_.recorder.launch(kernels::latent_values_choice(l.rank, l.value, rows_.count, r_.recorder.limits()),
                     {.out = {r_.work.raised.address()},
                      .x = {found},
                      .sums = {r_.work.latent_sums.address()},
                      .up = {device.v_up.address()},
                      .rows = rows_.count,
                      .heads = a.heads,
                      .out_stride = r_.sizes.raised,
                      .splits = splits},
                     device.v_up.bytes());
}

}  // namespace heddle::gpu
