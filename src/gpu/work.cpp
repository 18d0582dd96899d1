// Sizes follow from the model and its limits; what is read beyond a row's end is zero.
#include "gpu/work.h"

#include <algorithm>

#include "kernels/attention/cluster_attention.h"
#include "kernels/attention/prompt_attention.h"
#include "kernels/product/tile.h"
#include "kernels/sample/sample.h"

namespace heddle::gpu {

namespace {

// Of one sequence at most.
uint32_t blocks_of(uint32_t context, const model::Limits& limits) {
  if (context == 0) return limits.kv_blocks;
  return std::min(limits.kv_blocks, (context + limits.block_tokens - 1) / limits.block_tokens);
}

}  // namespace

WorkSizes::WorkSizes(const model::Model& model, const model::Limits& limits, uint32_t sms)
    : rows(std::max(limits.rows, 1u)),
      table_stride(std::max(blocks_of(model.context, limits), 1u)),
      context(blocks_of(model.context, limits) * limits.block_tokens + 1),
      vocabulary(model.vocabulary) {
  uint64_t most_qkv = 0, most_q = 0, most_attended = 0, most_inner = 0, most_act = 0, most_k = model.width;
  uint64_t largest = 0, most_expert_inner = 0, most_expert_act = 0;
  // those that are joined are unpacked whole
  auto weighs = [&](uint64_t matrix_rows, uint64_t cols, bool joined) {
    const uint64_t values = matrix_rows * half_stride(cols);
    largest = std::max(largest, joined ? values : std::min(values, scratch_bytes / 2));
    const uint32_t slice = kernels::tile_cols_for(uint32_t(cols));
    most_k = std::max(most_k, (cols + slice - 1) / slice * slice);
  };
  const auto weigh_feed_forward = [&](const model::FeedForward& f) {
    most_inner = std::max<uint64_t>(most_inner, 2 * stride_of(f.up.rows));
    most_act = std::max(most_act, f.up.rows);
    weighs(2 * f.up.rows, f.up.cols, true);
    weighs(f.down.rows, f.down.cols, false);
  };
  const model::Overloaded weigh{[&](const model::Attention& a) {
                                  most_qkv = std::max(most_qkv, a.q.rows + a.k.rows + a.v.rows);
                                  most_q = std::max(most_q, a.q.rows);
                                  most_attended = std::max(most_attended, uint64_t(a.heads) * a.value_head);
                                  weighs(a.q.rows + a.k.rows + a.v.rows, a.q.cols, true);
                                  weighs(a.output.rows, a.output.cols, false);
                                  // Blocks that merge are not more than there are SMs, whatever a search found; those
                                  // that do not share a head leave most.
                                  const kernels::ClusterAttention alone{.head_dim = std::max(a.head, 8u), .splits = 1};
                                  partial = std::max<uint64_t>(partial, alone.partial_count(1, 1, sms));
                                  arrived = sms;
                                },
                                weigh_feed_forward,
                                [&](const model::Mixture& m) {
                                  experts = std::max(experts, uint32_t(m.router.rows));
                                  used = std::max(used, m.routing.used);
                                  const uint64_t inner_rows = m.up.all.rows / m.up.count;
                                  most_expert_inner = std::max(most_expert_inner, 2 * inner_rows);
                                  most_expert_act = std::max(most_expert_act, inner_rows);
                                  if (m.shared) weigh_feed_forward(*m.shared);
                                }};
  for (const model::Layer& layer : model.layers)
    for (const model::Sublayer& sublayer : layer.sublayers) std::visit(weigh, sublayer);
  width = stride_of(model.width), qkv = stride_of(most_qkv), q = stride_of(most_q);
  attended = stride_of(most_attended), inner = stride_of(most_inner), act = stride_of(most_act);
  expert_inner = stride_of(most_expert_inner), expert_act = stride_of(most_expert_act);
  weighs(0, model.width, false);
  half = half_stride(most_k);
  scratch = std::max<uint64_t>(largest, 16ull * half);
}

namespace {

// Calls make(member, bytes) for every buffer.
void each_buffer(const WorkSizes& s, auto&& make) {
  using W = Work;
  const uint64_t rows = s.rows, f = 4, mixed = s.experts ? std::min<uint64_t>(expert_rows, rows) : 0;
  make(&W::h, rows * s.width * f), make(&W::qkv, rows * s.qkv * f), make(&W::q, rows * s.q * f);
  make(&W::attended, rows * s.attended * f), make(&W::inner, rows * s.inner * f), make(&W::act, rows * s.act * f);
  make(&W::result, rows * s.width * f), make(&W::shared, (s.experts ? rows : 0) * s.width * f);
  const uint64_t in_groups = (rows + 31) / 32 * 32;  // those of mma_product
  make(&W::half, in_groups * s.half * 2), make(&W::half_scale, rows * f), make(&W::scratch, s.scratch * 2);
  make(&W::router, (s.experts ? rows : 0) * stride_of(s.experts + 1) * f);
  make(&W::expert_ids, (s.experts ? rows : 0) * s.used * f),
      make(&W::expert_weights, (s.experts ? rows : 0) * s.used * f);
  make(&W::expert_inner, mixed * s.used * s.expert_inner * f), make(&W::expert_act, mixed * s.used * s.expert_act * f);
  make(&W::expert_result, mixed * s.used * s.width * f), make(&W::always, s.experts ? 256 : 0);
  make(&W::logits, std::min<uint64_t>(logit_rows, rows) * s.vocabulary * f);
  make(&W::partial, s.partial * f + 256), make(&W::arrived, s.arrived * f + 256);
  for (auto list : {&W::tokens, &W::positions, &W::lengths, &W::sequences, &W::outputs}) make(list, rows * 4);
  make(&W::table, rows * s.table_stride * 4), make(&W::tiles, rows * sizeof(kernels::PromptTile));
  make(&W::picked, std::max<uint64_t>(rows, few_rows) * sizeof(kernels::Sampled));
  make(&W::params, s.picked_at_once() * sizeof(kernels::SampleRow)), make(&W::history, kept_steps * few_rows * 8);
  make(&W::step, 8), make(&W::texts, uint64_t(few_rows) * s.context * 4);
  make(&W::biases, few_rows * most_biases * sizeof(kernels::TokenBias)), make(&W::changed, few_rows * s.vocabulary * f);
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
  if (always.bytes()) always.write(std::vector<float>(64, 100.0f).data(), 256);  // a sigmoid of 1
}

}  // namespace heddle::gpu
