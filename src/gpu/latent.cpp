// The phases of latent attention: see kernels/attention/latent_attention.h, and latent_expand.h for long prompts.
#include <algorithm>

#include "gpu/forward.h"
#include "kernels/attention/latent_attention.h"
#include "kernels/attention/latent_expand.h"
#include "kernels/attention/wgmma_attention.h"

namespace heddle::gpu {

// The ranges of positions that blocks share: by the class of the longest sequence, because a graph is for all of it;
// one where the number of rows must not matter.
uint32_t Forward::latent_splits(const model::Attention& a, uint32_t rows) const {
  if (r_.options.deterministic) return 1;
  const auto spec = kernels::latent_choice(a.latent->rank, a.latent->rotated, r_.recorder.limits());
  const uint32_t longest = std::min(longest_of(length_class(rows_.longest)), r_.sizes.context);
  return kernels::latent_splits(spec, rows, a.heads, longest, r_.recorder.sms());
}

// As many as there is room for.
uint32_t Forward::expanded_heads(const model::Attention& a, const LongPrompt& prompt) const {
  return uint32_t(std::min<uint64_t>(a.heads, r_.sizes.expanded / expanded_bytes(*a.latent, prompt.end)));
}

// Long prompts, and the rows between them.
std::vector<Forward::LatentRows> Forward::divide_latent(const model::Attention& a) const {
  std::vector<LatentRows> all;
  uint32_t done = 0;
  auto absorb_to = [&](uint32_t row) {
    if (row > done) all.push_back({done, row - done});
  };
  for (const LongPrompt& prompt : rows_.prompts) {
    if (!paths_.expands_latents(a, prompt, expanded_heads(a, prompt))) continue;
    absorb_to(prompt.first_row);
    all.push_back({prompt.first_row, prompt.rows, &prompt});
    done = prompt.first_row + prompt.rows;
  }
  absorb_to(rows_.count);
  return all;
}

void Forward::compute_latent(const DeviceAttention& attention) {
  const model::Latent& l = *attention.model->latent;
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

  // all latents are in the cache before any row attends to them
  const std::vector<LatentRows> parts = divide_latent(*attention.model);
  for (const LatentRows& rows : parts) queries_of(attention, q, down + first * 4ull, rows);
  r_.recorder.set_phase("attend");
  for (const LatentRows& rows : parts)
    rows.prompt ? attend_expanded(attention, q, *rows.prompt) : attend_latents(attention, rows);
}

void Forward::queries_of(const DeviceAttention& attention, const Path::Queries& q, uint64_t kv,
                         const LatentRows& rows) {
  const model::Attention& a = *attention.model;
  const model::Latent& l = *a.latent;
  const DeviceLatent& device = *attention.latent;
  const uint64_t first = rows.first;
  r_.recorder.launch(kernels::LatentQueries{.rank = l.rank,
                                            .plain = l.plain,
                                            .rotated = l.rotated,
                                            .tiles = rows.prompt ? 1 : std::clamp((rows.count + 15) / 16, 1u, 4u),
                                            .halves = a.rope.style == model::Rope::Style::halves,
                                            .absorbed = !rows.prompt,
                                            .temperature = a.temperature.scale != 0,
                                            .cache = r_.q8() ? kernels::kv_q8 : kernels::kv_f16},
                     {.out = {r_.work.latent_q.address() + first * a.heads * a.head * 2},
                      .q = {q.address + first * q.stride * 4},
                      .kv = {kv + first * r_.sizes.qkv * 4},
                      .up = {device.k_up.address()},
                      .norm = {device.kv_norm.device_weight.address()},
                      .turns = {attention.turns.address()},
                      .positions = {r_.work.positions.address() + first * 4},
                      .sequences = {r_.work.sequences.address() + first * 4},
                      .table = {r_.tables(attention)},
                      .cache = {r_.cache(attention).keys()},
                      .scales = {r_.cache(attention).key_scales()},
                      .rows = rows.count,
                      .heads = a.heads,
                      .q_stride = q.stride,
                      .kv_stride = r_.sizes.qkv,
                      .page_size = r_.limits.block_tokens,
                      .table_stride = r_.sizes.table_stride,
                      .epsilon = device.kv_norm.epsilon,
                      .magnitude = float(a.rope.magnitude),
                      .temperature = a.temperature.scale,
                      .temperature_length = std::max(a.temperature.length, 1u),
                      .temperature_offset = a.temperature.offset},
                     rows.prompt ? 0 : device.k_up.bytes());
}

void Forward::attend_latents(const DeviceAttention& attention, const LatentRows& rows) {
  const model::Attention& a = *attention.model;
  const model::Latent& l = *a.latent;
  const uint64_t first = rows.first;
  const uint32_t splits = latent_splits(a, rows.count);
  const uint64_t found = splits > 1 ? r_.work.partial.address() : r_.work.attended.address();
  kernels::LatentAttention spec = kernels::latent_choice(l.rank, l.rotated, r_.recorder.limits());
  spec.cache = r_.q8() ? kernels::kv_q8 : kernels::kv_f16;
  r_.recorder.launch(spec,
                     {.out = {found},
                      .sums = {r_.work.latent_sums.address()},
                      .q = {r_.work.latent_q.address() + first * a.heads * a.head * 2},
                      .cache = {r_.cache(attention).keys()},
                      .scales = {r_.cache(attention).key_scales()},
                      .positions = {r_.work.positions.address() + first * 4},
                      .sequences = {r_.work.sequences.address() + first * 4},
                      .table = {r_.tables(attention)},
                      .rows = rows.count,
                      .heads = a.heads,
                      .page_size = r_.limits.block_tokens,
                      .table_stride = r_.sizes.table_stride,
                      .splits = splits,
                      .scale = a.scale},
                     uint64_t(rows.count) * rows_.longest * model::kv_bytes(a, r_.limits.kv));
  const cuda::Buffer& v_up = attention.latent->v_up;
  r_.recorder.launch(kernels::latent_values_choice(l.rank, l.value, rows.count, r_.recorder.limits()),
                     {.out = {r_.work.raised.address() + first * r_.sizes.raised * 4},
                      .x = {found},
                      .sums = {r_.work.latent_sums.address()},
                      .up = {v_up.address()},
                      .rows = rows.count,
                      .heads = a.heads,
                      .out_stride = r_.sizes.raised,
                      .splits = splits},
                     v_up.bytes());
}

// As many heads at a time as there is room for. Keys and values are one page.
void Forward::attend_expanded(const DeviceAttention& attention, const Path::Queries& q, const LongPrompt& prompt) {
  const model::Attention& a = *attention.model;
  const model::Latent& l = *a.latent;
  const uint32_t size = l.plain + l.rotated, positions = expanded_positions(prompt.end);
  const uint32_t at_once = expanded_heads(a, prompt);
  const kernels::WgmmaAttention spec = kernels::wgmma_choice(size, l.value);
  for (uint32_t head = 0; head < a.heads; head += at_once) {
    const uint32_t heads = std::min(at_once, a.heads - head);
    const uint64_t keys = r_.work.expanded.address(), values = keys + uint64_t(heads) * positions * size * 2;
    const uint64_t matrix = uint64_t(head) * l.rank * 2;
    r_.recorder.launch(kernels::LatentExpand{.rank = l.rank,
                                             .plain = l.plain,
                                             .rotated = l.rotated,
                                             .value = l.value,
                                             .cache = r_.q8() ? kernels::kv_q8 : kernels::kv_f16},
                       {.keys = {keys},
                        .values = {values},
                        .cache = {r_.cache(attention).keys()},
                        .scales = {r_.cache(attention).key_scales()},
                        .k_up = {attention.latent->k_up.address() + matrix * l.plain},
                        .v_up = {attention.latent->v_up.address() + matrix * l.value},
                        .table = {r_.tables(attention)},
                        .sequence = prompt.table,
                        .table_stride = r_.sizes.table_stride,
                        .page_size = r_.limits.block_tokens,
                        .positions = prompt.end,
                        .stride = positions,
                        .heads = heads});
    kernels::WgmmaAttention::Args args{{.out = {r_.work.raised.address() + uint64_t(head) * l.value * 4},
                                        .q = {q.address + uint64_t(head) * size * 4},
                                        .k = {keys},
                                        .v = {values},
                                        .table = {r_.work.first_page.address()},
                                        .heads = heads,
                                        .kv_heads = heads,
                                        .q_stride = q.stride,
                                        .out_stride = r_.sizes.raised,
                                        .page_size = positions,
                                        .table_stride = 0,
                                        .scale = a.scale}};
    args.tiles = {r_.work.tiles.address() + prompt.first_tile * sizeof(kernels::PromptTile)};
    args.tile_count = prompt.tiles;
    r_.recorder.launch(spec, args);
  }
}

}  // namespace heddle::gpu
