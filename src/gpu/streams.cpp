// What some models have beside the residual stream: inputs of each token (per-layer embeddings), further streams
// (AltUp), and a learned augmented residual (Laurel).
#include "gpu/forward.h"
#include "kernels/layer/altup.h"
#include "kernels/layer/norm.h"

namespace heddle::gpu {

// The rows of work.inputs follow each other, so that the slices of all rows are rows of one norm.
void Forward::find_token_inputs(const DeviceTokenInputs& inputs) {
  r_.recorder.set_phase("inputs");
  const model::TokenInputs& t = *r_.model.token_inputs;
  const uint64_t y = r_.work.inputs.address();
  path_->store(inputs.projection, {.address = r_.work.h.address(), .stride = r_.sizes.width}, y, r_.sizes.inputs,
               rows_);
  r_.recorder.launch(kernels::RmsNorm{.vec = t.size % 4 ? 1u : 4u}, {.y = {y},
                                                                     .x = {y},
                                                                     .w = {inputs.norm.device_weight.address()},
                                                                     .rows = rows_.count * (t.count() / t.size),
                                                                     .cols = t.size,
                                                                     .eps = inputs.norm.epsilon});
  look_up(inputs.embedding, r_.work.tokens.address(), t.embedding_scale * t.scale, y, true);
}

// work.normed is still what the attention has read.
void Forward::add_laurel(const DeviceAttention& a) {
  path_->store(a.laurel->up, {.address = r_.work.laurel.address(), .stride = r_.sizes.laurel}, r_.work.result.address(),
               r_.sizes.width, rows_);
  norm_and_add(r_, a.laurel->norm,
               {.h = r_.work.h.address(),
                .y = r_.work.result.address(),
                .also = r_.work.normed.address(),
                .after = a.model->laurel->scale},
               rows_.count);
}

uint64_t Forward::other_stream(uint32_t i) const {
  return r_.work.others.address() + uint64_t(i) * r_.sizes.rows * r_.sizes.width * 4;
}

void Forward::add_to_others(const DeviceFeedForward& f) {
  const uint64_t result = r_.work.result.address();
  path_->store(f.down, path_->activated(f, rows_, kernels::Product::store), result, r_.sizes.width, rows_);
  if (f.model->partial) r_.ranks->sum(r_.recorder, result, uint64_t(rows_.count) * r_.sizes.width);
  for (uint32_t i = 0; i < r_.sizes.others; ++i)
    norm_and_add(r_, f.output_norm, {.h = other_stream(i), .y = result}, rows_.count);
}

void Forward::compute(const DeviceAltup& a) {
  using enum model::Altup::Step;
  const model::Altup& m = *a.model;
  r_.recorder.set_phase("altup");
  late_norms_.reset();
  if (m.step == begin || m.step == end) {
    for (uint32_t i = 0; i < m.others; ++i) {
      const uint64_t from = m.step == begin ? r_.work.h.address() : other_stream(i), result = r_.work.result.address();
      path_->store(a.projections[i], {.address = from, .stride = r_.sizes.width}, result, r_.sizes.width, rows_);
      r_.recorder.launch(kernels::MatchLength{}, {.y = {other_stream(i)},
                                                  .p = {result},
                                                  .x = {r_.work.h.address()},
                                                  .rows = rows_.count,
                                                  .cols = r_.model.width,
                                                  .least = model::altup_min_square});
    }
    return;
  }
  r_.recorder.launch(kernels::Altup{.step = m.step == predict ? kernels::Altup::predict : kernels::Altup::correct,
                                    .streams = m.streams()},
                     {.x = {r_.work.h.address()},
                      .others = {r_.work.others.address()},
                      .kept = {r_.work.kept.address()},
                      .weight = {a.norm.device_weight.address()},
                      .router = {a.router.address()},
                      .coefficients = {a.coefficients.address()},
                      .stream_stride = uint64_t(r_.sizes.rows) * r_.sizes.width,
                      .rows = rows_.count,
                      .cols = r_.model.width,
                      .epsilon = a.norm.epsilon});
}

// At the end the residual stream becomes the mean of all.
void Forward::add(const DeviceAltup& a, float) {
  if (a.model->step != model::Altup::Step::end) return;
  const uint32_t others = a.model->others;
  for (uint32_t i = 0; i < others; ++i)
    norm_and_add(r_, a.output_norm,
                 {.h = r_.work.h.address(),
                  .y = other_stream(i),
                  .after = i + 1 < others ? 1 : 1 / static_cast<float>(a.model->streams())},
                 rows_.count);
}

}  // namespace heddle::gpu
