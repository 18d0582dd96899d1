// Sublayers with a recurrent state: products, the convolution, the states of heads, and the gated norm.
#include "gpu/forward.h"
#include "kernels/layer/elementwise.h"
#include "kernels/state/chunked_recurrence.h"
#include "kernels/state/convolution.h"
#include "kernels/state/state_run.h"

namespace heddle::gpu {

template <class Args>
void Forward::set_runs(Args& args) const {
  args.runs = {r_.work.runs.address()};
  args.order = {r_.work.order.address()};
  args.positions = {r_.work.positions.address()};
  args.run_count = rows_.each_own ? rows_.count : rows_.runs;
}

// Of a convolution.
uint32_t Forward::parts_of_runs() const {
  return (rows_.longest_run - 1) / kernels::StateConvolution::rows_of_part + 1;
}

void Forward::convolve(const model::Convolution& c, const DeviceConvolution& weights, uint32_t state,
                       const Convolved& rows) {
  const StateCache& cache = r_.states[state];
  kernels::StateConvolution::Args args{.y = {rows.y},
                                       .x = {rows.x},
                                       .weight = {weights.weight.address()},
                                       .bias = {weights.bias.address()},
                                       .state = {cache.inputs()},
                                       .slot_stride = cache.input_stride(),
                                       .channels = uint32_t(c.channels()),
                                       .x_stride = rows.x_stride,
                                       .y_stride = rows.y_stride,
                                       .parts = parts_of_runs()};
  set_runs(args);
  const kernels::StateConvolution spec{.width = c.width,
                                       .bias = !c.bias.empty(),
                                       .silu = rows.silu,
                                       .gates = rows.gates,
                                       .ahead = rows_.each_own ? 1u : 8u};
  r_.recorder.launch(spec, args);
}

void Forward::compute(const DeviceRecurrence& r) {
  const model::Recurrence& m = *r.model;
  r_.recorder.set_phase("recur");
  const Input in = normed(r.norm);
  const uint64_t mixed = r_.work.mixed.address();
  const uint32_t stride = r_.sizes.mixed;
  for (const Weights& w : r.in) path_->store(w, in, mixed + w.first_place * 4ull, stride, rows_);
  convolve(m.convolution, r.convolution, r.state,
           {.y = r_.work.convolved.address(),
            .x = mixed,
            .y_stride = r_.sizes.convolved,
            .x_stride = stride,
            .silu = true,
            .gates = false});
  const uint64_t gate = mixed + m.mixed.rows * 4, steps = gate + m.gate.rows * 4, betas = steps + m.steps.rows * 4;
  const StateCache& cache = r_.states[r.state];
  kernels::Recurrence::Args args{.y = {r_.work.recurred.address()},
                                 .mixed = {r_.work.convolved.address()},
                                 .steps = {steps},
                                 .betas = {betas},
                                 .step_bias = {r.step_bias.address()},
                                 .rates = {r.rates.address()},
                                 .skip = {r.skip.address()},
                                 .state = {cache.heads()},
                                 .slot_stride = cache.head_stride(),
                                 .heads = m.heads,
                                 .key_heads = m.key_heads,
                                 .value = m.value,
                                 .tiled = m.tiled,
                                 .queries_at = uint32_t(m.queries_at()),
                                 .keys_at = uint32_t(m.keys_at()),
                                 .values_at = uint32_t(m.values_at()),
                                 .mixed_stride = r_.sizes.convolved,
                                 .steps_stride = stride,
                                 .y_stride = r_.sizes.recurred,
                                 .min_step = m.min_step,
                                 .max_step = m.max_step};
  set_runs(args);
  recur(m, args);
  if (m.gated_norm.across)
    return norm_across(r_,
                       {{.norm = m.gated_norm,
                         .x = args.y.address,
                         .weight = r.gated_norm.address(),
                         .cols = uint32_t(m.values()),
                         .stride = r_.sizes.recurred,
                         .gate = gate,
                         .gate_stride = stride,
                         .gate_first = m.gate_first}},
                       rows_.count);
  const bool norm = m.gated_norm.kind != model::Norm::Kind::none;
  const uint32_t size = norm ? m.norm_size : uint32_t(m.values());
  r_.recorder.launch(kernels::GatedNorm{.norm = norm, .gate_first = m.gate_first},
                     {.y = args.y,
                      .x = args.y,
                      .gate = {gate},
                      .weight = {r.gated_norm.address()},
                      .rows = rows_.count,
                      .groups = uint32_t(m.values() / size),
                      .size = size,
                      .stride = r_.sizes.recurred,
                      .gate_stride = stride,
                      .epsilon = m.gated_norm.epsilon});
}

// The first runs of a batch are those to be divided into chunks.
void Forward::recur(const model::Recurrence& m, kernels::Recurrence::Args args) {
  const uint32_t rule = m.rule == model::Recurrence::Rule::delta ? kernels::rule_delta : kernels::rule_ssd;
  if (rows_.chunked_runs && can_chunk(m)) {
    kernels::ChunkedArgs chunked{args};
    chunked.run_count = rows_.chunked_runs;
    chunked.chunks = {r_.work.chunk_list.address()};
    chunked.chunk_count = rows_.chunks;
    chunked.keys = {r_.work.keys_of_chunks.address()};
    chunked.queries = {r_.work.queries_of_chunks.address()};
    chunked.inverses = {r_.work.inverses.address()};
    chunked.scores = {r_.work.scores.address()};
    chunked.factors = {r_.work.factors.address()};
    r_.recorder.launch(kernels::RecurrencePrepare{.key = m.key, .rule = rule}, chunked);
    r_.recorder.launch(kernels::scan_choice({.key = m.key,
                                             .rule = rule,
                                             .heads = m.heads,
                                             .value = m.value,
                                             .runs = rows_.chunked_runs,
                                             .sms = r_.recorder.sms(),
                                             .shared_per_block = r_.recorder.limits().shared_per_block}),
                       chunked);
    args.runs.address += rows_.chunked_runs * sizeof(kernels::StateRun);
    args.run_count -= rows_.chunked_runs;
  }
  if (args.run_count)
    r_.recorder.launch(kernels::Recurrence{.key = m.key, .rule = rule, .tile = rows_.each_own ? 1u : 16u}, args);
}

void Forward::compute(const DeviceShortConvolution& c) {
  r_.recorder.set_phase("convolve");
  path_->store(c.in, normed(c.norm), r_.work.mixed.address(), r_.sizes.mixed, rows_);
  convolve(c.model->convolution, c.convolution, c.state,
           {.y = r_.work.recurred.address(),
            .x = r_.work.mixed.address(),
            .y_stride = r_.sizes.recurred,
            .x_stride = r_.sizes.mixed,
            .silu = false,
            .gates = true});
}

// Of a batch that predicts, `before` is set: the rows that come before its own were copied, or its last batch left
// them.
void Forward::compute(const DeviceNextHead& h) {
  r_.recorder.set_phase("next");
  if (!rows_.predicts) {
    norm_rows(r_, r_.weights.norm, r_.work.results.address(), r_.work.h.address(), rows_.count);
    const StateCache& cache = r_.states[h.state];
    kernels::StateConvolution::Args args{.y = {r_.work.before.address()},
                                         .x = {r_.work.results.address()},
                                         .weight = {h.shift.address()},
                                         .state = {cache.inputs()},
                                         .slot_stride = cache.input_stride(),
                                         .channels = r_.model.width,
                                         .x_stride = r_.sizes.width,
                                         .y_stride = r_.sizes.width,
                                         .parts = parts_of_runs()};
    set_runs(args);
    r_.recorder.launch(kernels::StateConvolution{.width = 2, .silu = 0, .ahead = rows_.each_own ? 1u : 8u}, args);
  }
  look_up(r_.weights.embedding, r_.work.tokens.address(), r_.model.embedding_scale, r_.work.result.address(), false);
}

void Forward::add(const DeviceNextHead& h, float) {
  r_.recorder.set_phase("next");
  const auto rows_of = [&](const cuda::Buffer& rows, const DeviceNorm& norm) -> Input {
    return {.address = rows.address(), .stride = r_.sizes.width, .norm = &norm};
  };
  path_->store(h.token, rows_of(r_.work.result, h.token_norm), r_.work.h.address(), r_.sizes.width, rows_);
  path_->add_to_residual(h.hidden, rows_of(r_.work.before, h.hidden_norm), h.output_norm, false, 1, rows_);
}

void Forward::add(const DeviceRecurrence& r, float scale) {
  r_.recorder.set_phase("output");
  const Input recurred{.address = r_.work.recurred.address(), .stride = r_.sizes.recurred};
  path_->add_to_residual(r.output, recurred, r.output_norm, r.model->partial, scale, rows_, begin_late_norm());
}

void Forward::add(const DeviceShortConvolution& c, float scale) {
  r_.recorder.set_phase("output");
  const Input convolved{.address = r_.work.recurred.address(), .stride = r_.sizes.recurred};
  path_->add_to_residual(c.output, convolved, c.output_norm, c.model->partial, scale, rows_, begin_late_norm());
}

void Forward::gate_attended(const DeviceAttention& a) {
  const uint32_t cols = uint32_t(a.model->output_cols()), stride = stride_of(cols);
  const uint64_t attended = r_.work.attended.address();
  r_.recorder.launch(kernels::Gate{.act = kernels::act_sigmoid, .times_up = 1}, {.y = {attended},
                                                                                 .gate = {r_.work.gate.address()},
                                                                                 .up = {attended},
                                                                                 .rows = rows_.count,
                                                                                 .cols = cols,
                                                                                 .y_stride = stride,
                                                                                 .gate_stride = r_.sizes.gate,
                                                                                 .up_stride = stride});
}

}  // namespace heddle::gpu
