// All phases of a forward pass but attention and mixtures of experts, in the order of a layer.
#include "gpu/forward.h"

#include <algorithm>
#include <numeric>

#include "kernels/layer/elementwise.h"
#include "kernels/layer/embedding.h"

namespace heddle::gpu {

using kernels::Product;

void Forward::begin(const Rows& rows) {
  r_.recorder.begin();
  paths_.begin();
  rows_ = rows;
  path_ = &paths_.path(rows.count);
  late_ = {};
  late_norms_.reset();
}

uint32_t Forward::longest_of(LengthClass length) const {
  switch (length) {
    case LengthClass::up_to_short:
      return short_length;
    case LengthClass::up_to_middle:
      return middle_length;
    case LengthClass::longer:
      break;
  }
  return std::max(r_.model.context, middle_length + 1);
}

Input Forward::residual(const DeviceNorm& norm, uint32_t first_row) const {
  return {.address = r_.work.h.address() + uint64_t(first_row) * r_.sizes.width * 4,
          .stride = r_.sizes.width,
          .norm = &norm};
}

void Forward::embed() {
  r_.recorder.set_phase("embed");
  const uint64_t h = r_.work.h.address();
  look_up(r_.weights.embedding, r_.work.tokens.address(), r_.model.embedding_scale, h, false);
  if (r_.weights.positions) look_up(r_.weights.positions, r_.work.positions.address(), 1, h, true);
  if (r_.weights.token_types) look_up(r_.weights.token_types, r_.work.types.address(), 1, h, true);
  if (r_.weights.embedding_norm) norm_rows(r_, r_.weights.embedding_norm, h, h, rows_.count);
  if (r_.weights.token_inputs) find_token_inputs(*r_.weights.token_inputs);
}

void Forward::look_up(const Weights& table, uint64_t ids, float scale, uint64_t y, bool add) {
  r_.recorder.launch(
      kernels::Embedding{.format = uint32_t(table.shape.format), .tile_cols = table.shape.tile_cols, .add = add},
      {.y = {y},
       .table = {table.address()},
       .ids = {ids},
       .tokens = rows_.count,
       .cols = table.shape.cols,
       .vocabulary = table.shape.rows,
       .scale = scale});
}

namespace {

// Whether a sublayer changes more than the residual stream, or that by more than its result.
bool reaches_others(const DeviceAttention& a) { return a.laurel.has_value(); }
bool reaches_others(const DeviceFeedForward& f) { return f.model->to_other_streams; }
bool reaches_others(const auto&) { return false; }

}  // namespace

// --- late norms -----------------------------------------------------------------------------------------------------
std::optional<Forward::Place> Forward::after(Place at) const {
  if (at.sublayer + 1 < r_.weights.layers[at.layer].sublayers.size()) return Place{at.layer, at.sublayer + 1};
  if (at.layer + 1 < r_.weights.layers.size()) return Place{at.layer + 1, 0};
  return {};
}

std::optional<Path::Forms> Forward::late_forms_after(Place at) const {
  const std::optional<Place> next = after(at);
  // in a part of a model (model/split.h) sublayers of another backend may come between
  const bool part = !r_.model.embedding;
  if (!next || rows_.count > max_late_rows || r_.options.deterministic || part) return {};
  if (r_.model.layers[at.layer].parallel || r_.model.layers[next->layer].parallel) return {};
  if (next->layer != at.layer && r_.model.layers[at.layer].output_scale != 1) return {};
  const auto begins =
      model::Overloaded{[](const DeviceMixture&) { return false; }, [](const DeviceAltup&) { return false; },
                        [](const DeviceNextHead&) { return false; },
                        [](const auto& sublayer) {
                          return !sublayer.output_norm && !sublayer.residual_norm && !sublayer.model->partial &&
                                 !reaches_others(sublayer);
                        }};
  if (!std::visit(begins, r_.weights.layers[at.layer].sublayers[at.sublayer])) return {};
  using Forms = std::optional<Path::Forms>;
  const auto ends = model::Overloaded{[](const DeviceMixture&) -> Forms { return {}; },
                                      [](const DeviceRecurrence&) -> Forms { return {}; },
                                      [](const DeviceShortConvolution&) -> Forms { return {}; },
                                      [](const DeviceAltup&) -> Forms { return {}; },
                                      [](const DeviceNextHead&) -> Forms { return {}; },
                                      [&](const auto& sublayer) { return path_->late_forms(sublayer, rows_); }};
  return std::visit(ends, r_.weights.layers[next->layer].sublayers[next->sublayer]);
}

uint32_t Forward::late_norms_after(Place at) const {
  uint32_t count = 0;
  for (; late_forms_after(at); at = *after(at)) ++count;
  return count;
}

Input Forward::normed(const DeviceNorm& norm) {
  if (norm.kind == model::Norm::Kind::scale) {  // which products do not have
    late_norms_.reset();
    norm_rows(r_, norm, r_.work.normed.address(), r_.work.h.address(), rows_.count);
    return {.address = r_.work.normed.address(), .stride = r_.sizes.width};
  }
  Input in = residual(norm);
  if (late_.norm == &norm) {
    in.late = &late_;
  } else if (const uint32_t follow = late_norms_after(at_)) {
    in.squares = r_.work.squares.address();
    in.late_norms = follow;
    late_norms_ = 0;
  } else {
    late_norms_.reset();
  }
  return in;
}

const LateNorm* Forward::begin_late_norm() {
  late_ = {};
  if (!late_norms_) return nullptr;
  const std::optional<Path::Forms> forms = late_forms_after(at_);
  if (!forms) return nullptr;
  const Place next = *after(at_);
  const auto norm_of = [](const auto& sublayer) { return &sublayer.norm; };
  const uint64_t x = r_.work.late.address(), squares = r_.work.squares.address();
  const uint64_t of_norm = max_late_rows * sizeof(kernels::RowSquares);
  late_ = {.norm = std::visit(norm_of, r_.weights.layers[next.layer].sublayers[next.sublayer]),
           .x = {{{(*forms)[0], x}, {(*forms)[1], x + uint64_t(r_.sizes.late_rows) * r_.sizes.width * 2}}},
           .squares = squares + *late_norms_ * of_norm,
           .next_squares = squares + (*late_norms_ + 1) * of_norm};
  ++*late_norms_;
  return &late_;
}

// --- the phases of a layer ------------------------------------------------------------------------------------------
void Forward::compute(uint32_t layer, uint32_t sublayer) {
  at_ = {layer, sublayer};
  r_.recorder.set_layer(int(layer));
  std::visit([&](const auto& kind) { compute(kind); }, r_.weights.layers[layer].sublayers[sublayer]);
  r_.recorder.set_layer(-1);
}

void Forward::add(uint32_t layer, uint32_t sublayer) {
  at_ = {layer, sublayer};
  r_.recorder.set_layer(int(layer));
  const float scale = r_.model.layers[layer].residual_scale;
  const uint64_t h = r_.work.h.address();
  const bool last = sublayer + 1 == r_.weights.layers[layer].sublayers.size();
  const float after = last ? r_.model.layers[layer].output_scale : 1;
  const auto add_and_norm = [&](const auto& kind) {
    const bool at_once = kind.output_norm && !kind.residual_norm && !reaches_others(kind);
    after_ = at_once ? after : 1;
    add(kind, scale);
    if (kind.residual_norm) norm_rows(r_, kind.residual_norm, h, h, rows_.count);
    if (after != after_)
      r_.recorder.launch(
          kernels::SoftcapRows{.cap = 0},
          {.y = {h}, .rows = rows_.count, .cols = r_.model.width, .stride = r_.sizes.width, .scale = after});
  };
  std::visit(add_and_norm, r_.weights.layers[layer].sublayers[sublayer]);
  r_.recorder.set_layer(-1);
}

void Forward::compute(const DeviceAttention& a) {
  if (a.latent) return compute_latent(a);
  r_.recorder.set_phase("qkv");
  if (a.laurel) {
    // its sum has what the norm leaves
    norm_rows(r_, a.norm, r_.work.normed.address(), r_.work.h.address(), rows_.count);
    const Input in{.address = r_.work.normed.address(), .stride = r_.sizes.width};
    late_norms_.reset();
    path_->qkv(a, in, rows_);
    path_->store(a.laurel->down, in, r_.work.laurel.address(), r_.sizes.laurel, rows_);
  } else {
    path_->qkv(a, normed(a.norm), rows_);
  }
  if (a.gate) path_->store(a.gate, residual(a.norm), r_.work.gate.address(), r_.sizes.gate, rows_);
  attend(a);
  if (a.gate) gate_attended(a);
}

void Forward::add(const DeviceAttention& a, float scale) {
  r_.recorder.set_phase("output");
  const Input raised{.address = r_.work.raised.address(), .stride = r_.sizes.raised};
  const bool partial = a.model->partial;
  if (a.latent)
    return path_->add_to_residual(a.output, raised, a.output_norm, partial, scale, rows_, begin_late_norm(), after_);
  const Input attended{.address = r_.work.attended.address(),
                       .stride = stride_of(a.model->heads * a.model->value_head),
                       .form = attended_form(a),
                       .scales = r_.work.attended_scale.address()};
  path_->add_to_residual(a.output, attended, a.output_norm, partial, scale, rows_, begin_late_norm(), after_);
  if (a.laurel) add_laurel(a);
}

void Forward::compute(const DeviceFeedForward& f) {
  r_.recorder.set_phase("ffn_in");
  path_->feed_forward_in(f, normed(f.norm), rows_, Path::residual_kind(f.output_norm, f.model->partial));
}

void Forward::add(const DeviceFeedForward& f, float scale) {
  r_.recorder.set_phase("ffn_out");
  if (f.model->to_other_streams) return add_to_others(f);
  const bool partial = f.model->partial;
  const Input activated = path_->activated(f, rows_, Path::residual_kind(f.output_norm, partial));
  path_->add_to_residual(f.down, activated, f.output_norm, partial, scale, rows_, begin_late_norm(), after_);
}

// --- after the layers -----------------------------------------------------------------------------------------------
// The states go to work.result: the layers no longer need it, and the head, which still reads the residual stream, does
// not use it.
void Forward::keep_states() {
  if (!r_.weights.norm || r_.weights.next_head()) return;  // they are the residual stream, or there already
  r_.recorder.set_phase("states");
  norm_rows(r_, r_.weights.norm, r_.work.result.address(), r_.work.h.address(), rows_.count);
}

Input Forward::last_rows(uint32_t first_row) {
  const DeviceNextHead* next = r_.weights.next_head();
  if (!next) return residual(r_.weights.norm, first_row);
  // the result of a head is what it reads with the next token
  if (rows_.predicts) norm_rows(r_, next->norm, r_.work.before.address(), r_.work.h.address(), rows_.count);
  const cuda::Buffer& rows = rows_.predicts ? r_.work.before : r_.work.results;
  return {.address = rows.address() + uint64_t(first_row) * r_.sizes.width * 4, .stride = r_.sizes.width};
}

void Forward::logits(uint32_t first, uint32_t count, std::optional<uint32_t> from_row) {
  r_.recorder.set_phase("head");
  const uint32_t vocabulary = r_.model.vocabulary;
  const Weights& w = r_.weights.output;
  const std::vector<uint64_t>& parts = r_.model.output_parts;
  const uint64_t y = r_.work.logits.address(), values = uint64_t(count) * vocabulary;
  // Of a part the other logits are 0: the sum over all ranks has each where it belongs.
  const uint64_t first_logit =
      parts.empty() ? 0 : std::accumulate(parts.begin(), parts.begin() + r_.ranks->rank(), 0ull);
  if (!parts.empty()) r_.recorder.fill(y, 0, values * 4);
  const Output out{.y = y + first_logit * 4, .stride = vocabulary, .scale = r_.model.logit_scale};
  Input in = last_rows(from_row.value_or(0));
  if (!from_row) in.list = r_.work.outputs.address() + first * 4ull;
  Products& products = from_row ? paths_.products(count) : paths_.gathering_products(count);
  products.product(w, nullptr, in, out, {.count = count});
  if (!parts.empty()) r_.ranks->sum(r_.recorder, y, values);
  if (r_.model.logit_softcap != 0)
    r_.recorder.launch(
        kernels::SoftcapRows{.cap = 1},
        {.y = {y}, .rows = count, .cols = vocabulary, .stride = vocabulary, .scale = 1, .cap = r_.model.logit_softcap});
}

}  // namespace heddle::gpu
