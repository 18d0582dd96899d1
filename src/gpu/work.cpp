// Sizes follow from the model and its limits. Buffers are filled with zeros: kernels read beyond the end of a row.
#include "gpu/work.h"

#include <algorithm>
#include <bit>

#include "kernels/attention/cluster_attention.h"
#include "kernels/attention/prompt_attention.h"
#include "kernels/mixture/group_rows.h"
#include "kernels/product/product.h"
#include "kernels/product/tile.h"
#include "kernels/sample/sample.h"
#include "kernels/state/state_run.h"

namespace heddle::gpu {

namespace {

// The KV blocks that one sequence can have.
uint32_t blocks_of(uint32_t context, const model::Limits& limits) {
  if (context == 0) return limits.kv_blocks;
  return std::min(limits.kv_blocks, (context + limits.block_tokens - 1) / limits.block_tokens);
}

// Columns in whole slices of their tiles.
uint32_t in_slices(uint64_t cols) {
  const uint32_t slice = kernels::tile_cols_for(uint32_t(cols));
  return uint32_t((cols + slice - 1) / slice * slice);
}

}  // namespace

bool can_expand(const model::Latent& l) {
  return is_usual_head(l.plain + l.rotated) && l.plain + l.rotated <= 256 && l.value % 16 == 0 && l.value <= 256;
}

WorkSizes::WorkSizes(const model::Model& model, const model::Limits& limits, uint32_t sms, bool group_experts,
                     bool expand_latents, bool chunk_states)
    : rows(std::max(limits.rows, 1u)),
      table_stride(std::max(blocks_of(model.context, limits), 1u)),
      context(blocks_of(model.context, limits) * limits.block_tokens + 1),
      windows(limits.window_blocks > 0),
      vocabulary(model.output ? model.vocabulary : 0) {
  half = in_slices(model.width);
  const auto fit_cols = [&](uint64_t cols) { half = std::max(half, in_slices(cols)); };
  const auto fit_feed_forward = [&](const model::FeedForward& f) {
    inner = std::max(inner, 2 * stride_of(f.down.cols));
    act = std::max(act, stride_of(f.down.cols));
    fit_cols(f.down.cols);
    normed |= f.norm.kind == model::Norm::Kind::scale;
  };
  const auto fit_latent = [&](const model::Attention& a) {
    const model::Latent& l = *a.latent;
    qkv = std::max(qkv, stride_of((l.q_down ? l.q_down.rows : a.q.rows) + l.kv_down.rows));
    q = std::max(q, stride_of(a.q.rows));
    attended = std::max(attended, stride_of(uint64_t(a.heads) * l.rank));
    fit_cols(a.output.cols);
    if (l.q_down) fit_cols(l.q_down.rows);
    latent_q = std::max(latent_q, a.heads * a.head);
    raised = std::max(raised, stride_of(a.output.cols));
    // One range per row and head, or more as long as there are not more blocks of 16 heads than SMs.
    latent_ranges = std::max(latent_ranges, std::max(rows * a.heads, sms * 16));
    partial = std::max<uint64_t>(partial, uint64_t(sms) * 16 * l.rank);
    if (!expand_latents || rows < min_expanded_rows || !can_expand(l)) return;
    const uint64_t of_head = expanded_bytes(l, context);
    expanded = std::max({expanded, of_head, std::min(of_head * a.heads, max_expanded_bytes)});
  };
  const auto fit_across = [&](const model::Norm& first, const model::Norm& second = {}) {
    const auto groups = [](const model::Norm& norm) { return norm.across ? norm.across->groups : 0; };
    rank_squares = std::max(rank_squares, groups(first) + groups(second));
  };
  const auto fit_attention = [&](const model::Attention& a) {
    if (a.latent) return fit_latent(a);
    const uint64_t qkv_rows = a.q.rows + a.k.rows + a.v.rows;
    qkv = std::max(qkv, stride_of(qkv_rows));
    q = std::max(q, stride_of(a.q.rows));
    attended = std::max(attended, stride_of(uint64_t(a.heads) * a.value_head));
    if (a.gate) gate = std::max(gate, stride_of(a.gate.rows));
    if (a.laurel) {
      laurel = std::max(laurel, stride_of(a.laurel->down.rows));
      fit_cols(a.laurel->up.cols);
      normed = true;
    }
    fit_cols(a.output.cols);
    fit_across(a.q_norm, a.k_norm);
    // A grid that merges has at most one block per SM, whatever shape a search has found. Its partial results are
    // largest when no two blocks share a head.
    const kernels::ClusterAttention alone{.head_dim = std::max(a.head, 8u), .splits = 1};
    partial = std::max<uint64_t>(partial, alone.partial_count(1, 1, sms));
    arrived = sms;
  };
  const auto fit_mixture = [&](const model::Mixture& m) {
    const uint64_t inner_rows = m.up.expert(0).rows;
    experts = std::max(experts, uint32_t(m.router.rows));
    used = std::max(used, m.routing.used);
    expert_inner = std::max(expert_inner, stride_of(2 * inner_rows));
    expert_act = std::max(expert_act, stride_of(inner_rows));
    if (group_experts && rows > max_expert_vector_rows) {
      expert_slots = std::max(
          expert_slots, kernels::GroupRows::max_slots(rows * m.routing.used, uint32_t(m.up.count), max_expert_tile));
      expert_half = std::max({expert_half, in_slices(m.up.all.cols), in_slices(inner_rows)});
    }
    if (m.latent_down) {
      latent = std::max(latent, stride_of(m.latent_down.rows));
      fit_cols(m.latent_up.cols);
    }
    if (m.shared) fit_feed_forward(*m.shared);
  };
  const auto fit_state = [&](uint64_t inputs, uint64_t channels, uint64_t results) {
    states = true;
    mixed = std::max(mixed, stride_of(inputs));
    convolved = std::max(convolved, stride_of(channels));
    recurred = std::max(recurred, stride_of(results));
    fit_cols(results);
  };
  const auto fit_recurrence = [&](const model::Recurrence& r) {
    fit_state(r.mixed.rows + r.gate.rows + r.steps.rows + r.betas.rows, r.convolution.channels(), r.values());
    fit_across(r.gated_norm);
    if (!chunk_states || !can_chunk(r)) return;
    chunks = rows / min_chunked_rows;
    chunk_keys = std::max(chunk_keys, r.key_heads * kernels::Recurrence{.key = r.key}.padded_key());
    chunk_heads = std::max(chunk_heads, r.heads);
  };
  const auto fit_short_convolution = [&](const model::ShortConvolution& c) {
    fit_state(c.in.rows, 0, c.convolution.channels());
  };
  for (const model::Layer& layer : model.layers)
    for (const model::Sublayer& sublayer : layer.sublayers)
      std::visit(model::Overloaded{fit_attention, fit_feed_forward, fit_mixture, fit_recurrence, fit_short_convolution,
                                   [&](const model::NextHead&) { next_head = states = true; },
                                   [&](const model::Altup& a) { others = std::max(others, a.others); }},
                 sublayer);
  width = stride_of(model.width);
  if (model.token_inputs) inputs = model.token_inputs->count();
  for (const model::Layer& layer : model.layers) late_norms += uint32_t(layer.sublayers.size());
  late_rows = std::max(std::bit_ceil(std::min(rows, max_late_rows)), 32u);
}

namespace {

// Calls allocate(member, bytes) for every buffer.
void each_buffer(const WorkSizes& s, auto&& allocate) {
  using W = Work;
  const uint64_t rows = s.rows, f = 4;
  const uint64_t mixture_rows = s.experts ? rows : 0, expert_rows = std::min<uint64_t>(max_expert_rows, mixture_rows);
  // wgmma_product takes them in groups of up to 256, mma_product of 32; a group has less than twice as many as there
  // are
  const uint64_t grouped_rows = rows < 256 ? std::max<uint64_t>(std::bit_ceil(rows), 32) : (rows + 255) / 256 * 256;
  allocate(&W::h, rows * s.width * f);
  allocate(&W::qkv, rows * s.qkv * f);
  allocate(&W::q, rows * s.q * f);
  allocate(&W::attended, rows * s.attended * f);
  allocate(&W::inner, rows * s.inner * f);
  allocate(&W::act, rows * s.act * f);
  allocate(&W::result, rows * s.width * f);
  allocate(&W::shared, mixture_rows * s.width * f);
  const uint64_t slots = s.expert_slots;
  allocate(&W::half, std::max(grouped_rows * s.half, slots * s.expert_half) * 2);
  allocate(&W::half_scale, std::max(rows, slots) * f);
  allocate(&W::late, 2ull * s.late_rows * s.width * 2);
  allocate(&W::squares, uint64_t(s.late_norms) * max_late_rows * sizeof(kernels::RowSquares));
  allocate(&W::attended_scale, rows * f);
  allocate(&W::act_scale, rows * f);
  allocate(&W::router, mixture_rows * stride_of(s.experts + 1) * f);
  allocate(&W::expert_ids, mixture_rows * s.used * f);
  allocate(&W::expert_weights, mixture_rows * s.used * f);
  allocate(&W::expert_inner, expert_rows * s.used * s.expert_inner * f);
  allocate(&W::expert_act, expert_rows * s.used * s.expert_act * f);
  allocate(&W::expert_list, slots * 4);
  allocate(&W::expert_slot_of, slots ? rows * s.used * 4 : 0);
  allocate(&W::expert_tiles, slots
                                 ? kernels::GroupRows::max_tiles(uint32_t(rows) * s.used, s.experts, min_expert_tile) *
                                       sizeof(kernels::ExpertTile)
                                 : 0);
  allocate(&W::expert_tile_count, slots ? 4 : 0);
  allocate(&W::expert_slot_weights, slots * f);
  allocate(&W::grouped_act, slots * s.expert_act * f);
  allocate(&W::grouped_result, slots * s.width * f);
  allocate(&W::always, s.experts ? 256 : 0);
  allocate(&W::logits, uint64_t(s.picked_at_once()) * s.vocabulary * f);
  allocate(&W::partial, s.partial * f + 256);
  allocate(&W::arrived, s.arrived * f + 256);
  allocate(&W::latent_q, rows * s.latent_q * 2);
  allocate(&W::latent_sums, uint64_t(s.latent_ranges) * 2 * f);
  allocate(&W::raised, rows * s.raised * f);
  allocate(&W::expanded, s.expanded);
  allocate(&W::first_page, s.expanded ? 4 : 0);
  allocate(&W::mixed, rows * s.mixed * f);
  allocate(&W::convolved, rows * s.convolved * f);
  allocate(&W::recurred, rows * s.recurred * f);
  allocate(&W::gate, rows * s.gate * f);
  allocate(&W::inputs, rows * s.inputs * f);
  allocate(&W::laurel, rows * s.laurel * f);
  allocate(&W::latent, rows * s.latent * f);
  allocate(&W::rank_squares, rows * s.rank_squares * f);
  allocate(&W::normed, s.normed ? rows * s.width * f : 0);
  allocate(&W::others, s.others * rows * s.width * f);
  allocate(&W::kept, s.others ? rows * s.width * f : 0);
  for (auto results : {&W::results, &W::before}) allocate(results, s.next_head ? rows * s.width * f : 0);
  allocate(&W::runs, s.states ? rows * sizeof(kernels::StateRun) : 0);
  allocate(&W::order, s.states ? rows * 4 : 0);
  const uint64_t chunked_rows = uint64_t(s.chunks) * kernels::chunk_rows;
  allocate(&W::chunk_list, s.chunks * sizeof(kernels::StateChunk));
  for (auto list : {&W::keys_of_chunks, &W::queries_of_chunks}) allocate(list, chunked_rows * s.chunk_keys * 2);
  for (auto list : {&W::inverses, &W::scores}) allocate(list, chunked_rows * s.chunk_heads * kernels::chunk_rows * 2);
  allocate(&W::factors, chunked_rows * s.chunk_heads * 4 * f);
  for (auto list : {&W::tokens, &W::positions, &W::types, &W::lengths, &W::sequences, &W::outputs})
    allocate(list, rows * 4);
  allocate(&W::table, rows * s.table_stride * 4);
  allocate(&W::window_table, s.windows ? rows * s.table_stride * 4 : 0);
  allocate(&W::tiles, rows * sizeof(kernels::PromptTile));
  for (auto list : {&W::text_lengths, &W::tile_lengths}) allocate(list, rows * 4);
  allocate(&W::picked, rows * sizeof(kernels::Sampled));
  allocate(&W::tops, rows * max_top_tokens * sizeof(kernels::Sampled));
  allocate(&W::params, s.picked_at_once() * sizeof(kernels::SampleRow));
  allocate(&W::history, max_steps_in_flight * s.picked_at_once() * sizeof(kernels::Sampled));
  allocate(&W::step, 8);
  allocate(&W::texts, uint64_t(s.changed_at_once()) * s.context * 4);
  allocate(&W::biases, s.changed_at_once() * max_biases * sizeof(kernels::TokenBias));
  allocate(&W::changed, uint64_t(s.changed_at_once()) * s.vocabulary * f);
  allocate(&W::masks, uint64_t(s.picked_at_once()) * s.mask_words() * 4);
}

}  // namespace

uint64_t WorkSizes::bytes() const {
  uint64_t total = 0;
  each_buffer(*this, [&](auto, uint64_t bytes) { total += allocated(bytes); });
  return total;
}

Work::Work(const cuda::Context& context, const WorkSizes& sizes) {
  each_buffer(sizes, [&](auto member, uint64_t bytes) {
    this->*member = cuda::Buffer(context, bytes);
    if (bytes) (this->*member).fill(0);
  });
  attended_scale.write(std::vector<float>(sizes.rows, 1.0f).data(), sizes.rows * 4ull);
  act_scale.write(std::vector<float>(sizes.rows, kernels::Product::f16_act).data(), sizes.rows * 4ull);
  if (always.bytes()) always.write(std::vector<float>(64, 100.0f).data(), 256);  // a sigmoid of 1
}

}  // namespace heddle::gpu
