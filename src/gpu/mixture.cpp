// The phases of a mixture of experts.
#include <algorithm>

#include "gpu/forward.h"
#include "kernels/layer/norm.h"
#include "kernels/mixture/group_rows.h"
#include "kernels/mixture/own_experts.h"
#include "kernels/mixture/router.h"
#include "kernels/product/mma_product.h"

namespace heddle::gpu {

using kernels::Product;

// Gate and up of different formats would want x in different orders: too rare to be worth it.
bool Forward::groups(const DeviceMixture& m) const { return paths_.groups_experts(rows_.count) && m.in.size() == 1; }

// The router, the experts it picks for each row, and the shared expert.
void Forward::compute(const DeviceMixture& m) {
  r_.recorder.set_phase("router");
  route(m);
  if (m.has_part_of_experts())
    r_.recorder.launch(kernels::OwnExperts{.marks = groups(m)}, {.ids = {r_.work.expert_ids.address()},
                                                                 .weights = {r_.work.expert_weights.address()},
                                                                 .rows = rows_.count,
                                                                 .used = m.model->routing.used,
                                                                 .first = m.model->first_expert,
                                                                 .count = m.down.count});
  if (m.latent_down)
    path_->store(m.latent_down, residual(m.norm), r_.work.latent.address(), m.latent_down.shape.rows, rows_);
  if (!m.shared) return;
  r_.recorder.set_phase("ffn_in");
  path_->feed_forward_in(*m.shared, residual(m.shared_norm()), rows_, Product::store);
}

Input Forward::expert_input(const DeviceMixture& m, uint32_t first_row) const {
  if (!m.latent_down) return residual(m.norm, first_row);
  const uint32_t cols = m.latent_down.shape.rows;
  return {.address = r_.work.latent.address() + uint64_t(first_row) * cols * 4, .stride = cols};
}

// The sum of latents takes the place of what the experts have read: they are done with a row by then.
Forward::ExpertSum Forward::expert_sum(const DeviceMixture& m, float scale) const {
  if (m.latent_down) return {r_.work.latent.address(), m.latent_down.shape.rows, false, 1, false};
  const bool shared = m.shared && !m.sums_apart();
  if (m.has_ending() || m.sums_apart()) return {r_.work.result.address(), r_.sizes.width, false, 1, shared};
  return {r_.work.h.address(), r_.sizes.width, true, scale, shared};
}

namespace {

using model::Routing;

// The fields and arguments by which route and router pick experts.
template <class Spec>
void set_choice(Spec& spec, typename Spec::Args& args, const DeviceMixture& m) {
  const Routing& routing = m.model->routing;
  spec.score = routing.score == Routing::Score::softmax   ? kernels::score_softmax
               : routing.score == Routing::Score::sigmoid ? kernels::score_sigmoid
                                                          : kernels::score_sparsemixer;
  const bool mixer = spec.score == kernels::score_sparsemixer;  // has nothing of what follows
  spec.choice_bias = !routing.bias.empty() && !mixer;
  if (routing.groups_used < routing.groups && !mixer)
    spec.groups = routing.groups_by_two ? kernels::groups_by_two : kernels::groups_by_best;
  spec.sum_to_one = routing.weights_sum_to_one && !mixer;
  spec.scaled = routing.scale != 1 && !mixer;
  spec.each_scaled = !routing.scales.empty() && !mixer;
  args.choice_bias = {m.choice_bias.address()};
  args.groups = routing.groups;
  args.groups_used = routing.groups_used;
  args.scale = routing.scale;
  args.near = routing.near;
  args.scales = {m.expert_scales.address()};
}

}  // namespace

void Forward::route(const DeviceMixture& m) {
  const uint32_t stride = stride_of(m.router.shape.rows);
  const auto experts = uint32_t(m.model->router.rows);
  const DeviceNorm& norm = m.router_norm ? m.router_norm : m.norm;
  const Input in = residual(norm);
  std::optional<kernels::Router> router;
  if (paths_.fuses_router(rows_.count))
    router = kernels::router_choice(experts, m.router.shape.rows, m.router.shape.cols, r_.recorder.limits());
  if (router) {
    router->norm = norm_field(norm.kind);
    router->bias = !m.router.bias.empty();
    kernels::Router::Args args{.ids = {r_.work.expert_ids.address()},
                               .weights = {r_.work.expert_weights.address()},
                               .scores = {r_.work.router.address() + experts * 4ull},
                               .x = {in.address},
                               .norm = {norm.device_weight.address()},
                               .shift = {norm.device_bias.address()},
                               .w = {m.router.address()},
                               .rows = rows_.count,
                               .cols = m.router.shape.cols,
                               .experts = experts,
                               .router_rows = m.router.shape.rows,
                               .used = m.model->routing.used,
                               .x_stride = in.stride,
                               .scores_stride = stride,
                               .epsilon = norm.epsilon,
                               .bias = {m.router.packed_bias.address()}};
    set_choice(*router, args, m);
    r_.recorder.launch(*router, args, m.router.bytes());
    return;
  }
  paths_.products(rows_.count).product(m.router, nullptr, in, {.y = r_.work.router.address(), .stride = stride}, rows_);
  kernels::Route route{.largest = 32};
  while (route.largest < experts) route.largest *= 2;
  kernels::Route::Args args{.ids = {r_.work.expert_ids.address()},
                            .weights = {r_.work.expert_weights.address()},
                            .logits = {r_.work.router.address()},
                            .rows = rows_.count,
                            .experts = experts,
                            .used = m.model->routing.used,
                            .logits_stride = stride};
  set_choice(route, args, m);
  r_.recorder.launch(route, args);
}

// The experts run here and not in compute(), because some of their buffers have room for `max_expert_rows` rows only:
// each range of rows must be added before the next is computed. They read the residual stream while it is added to, so
// a mixture cannot run in parallel with another sublayer.
void Forward::add(const DeviceMixture& m, float scale) {
  r_.recorder.set_phase("experts");
  if (m.shared)
    path_->store(m.shared->down, path_->activated(*m.shared, rows_, Product::store), r_.work.shared.address(),
                 r_.sizes.width, rows_);
  if (groups(m)) {
    add_grouped_experts(m, scale);
  } else {
    for (uint32_t first = 0; first < rows_.count; first += max_expert_rows)
      add_experts(m, scale, first, std::min(max_expert_rows, rows_.count - first));
  }
  finish_mixture(m, scale);
}

namespace {

// Whether norm_sum does all that follows the sum over the experts.
bool can_sum_norms(const DeviceMixture& m) {
  const auto rms = [](const DeviceNorm& norm) { return norm.kind == model::Norm::Kind::rms && norm.bias.empty(); };
  return m.shared && !m.shared_gated && rms(m.experts_norm) && rms(m.shared->output_norm) && rms(m.output_norm);
}

}  // namespace

// After the sum over the experts.
void Forward::finish_mixture(const DeviceMixture& m, float scale) {
  const uint64_t h = r_.work.h.address(), result = r_.work.result.address(), shared = r_.work.shared.address();
  const bool apart = m.sums_apart(), to_result = apart || m.has_ending();
  if (m.latent_up) {
    if (m.shared && !apart) add_shared(m, scale, 0, rows_.count);
    const bool add = !to_result || (m.shared && !apart);
    paths_.products(rows_.count)
        .product(m.latent_up, nullptr, expert_input(m),
                 {.kind = add ? Product::add : Product::store,
                  .y = to_result ? result : h,
                  .stride = r_.sizes.width,
                  .scale = to_result ? 1 : scale},
                 rows_);
  }
  const uint64_t values = uint64_t(rows_.count) * r_.sizes.width;
  if (apart && m.model->partial) r_.ranks->sum(r_.recorder, result, values);
  if (apart && m.shared && m.shared->model->partial) r_.ranks->sum(r_.recorder, shared, values);
  if (can_sum_norms(m)) {
    const DeviceNorm &of_experts = m.experts_norm, &of_shared = m.shared->output_norm;
    return r_.recorder.launch(kernels::NormSum{.after = after_ != 1},
                              {.h = {h},
                               .a = {result},
                               .b = {shared},
                               .a_weight = {of_experts.device_weight.address()},
                               .b_weight = {of_shared.device_weight.address()},
                               .weight = {m.output_norm.device_weight.address()},
                               .rows = rows_.count,
                               .cols = r_.model.width,
                               .a_epsilon = of_experts.epsilon,
                               .b_epsilon = of_shared.epsilon,
                               .epsilon = m.output_norm.epsilon,
                               .scale = scale,
                               .after = after_});
  }
  if (apart) {
    if (m.experts_norm) norm_rows(r_, m.experts_norm, result, result, rows_.count);
    if (m.shared && m.shared->output_norm) norm_rows(r_, m.shared->output_norm, shared, shared, rows_.count);
    if (m.shared) {
      kernels::Mix::Args mix = mix_args(m, 1, 0, rows_.count);
      mix.out = {result};
      r_.recorder.launch(kernels::Mix{.vec = 4, .add = 1, .shared = 1}, mix);
    }
  }
  if (!to_result) return;
  const AddedRows added{.h = h, .y = result, .scale = scale, .after = after_};
  if (m.model->partial && !apart)
    sum_norm_and_add(r_, m.output_norm, added, rows_.count);
  else
    norm_and_add(r_, m.output_norm, added, rows_.count);
}

// Two launches, as a dense layer has: gate and up of all experts of a row, each result times its expert's weight, then
// one product over the columns of all of them, which adds up.
void Forward::add_experts(const DeviceMixture& m, float scale, uint32_t first_row, uint32_t count) {
  const uint32_t used = m.model->routing.used, inner_cols = m.down.shape.cols;
  ExpertProducts& products = paths_.expert_products();
  const ExpertProducts::Experts which{first_row * used, count, used};
  const Input in = expert_input(m, first_row);
  const uint64_t act = r_.work.expert_act.address(), gate = r_.work.expert_inner.address();
  const bool bf16 = m.in.size() == 1 && products.sum_takes_bf16(m.down, used);
  const bool weigh_input = m.model->routing.weigh_input;
  if (m.in.size() == 1) {
    products.expert_product(m.in[0], in,
                            {.kind = m.joined_experts ? Product::gate : Product::act,
                             .y = act,
                             .stride = r_.sizes.expert_act,
                             .activation = activation_field(m.model->activation),
                             .bf16 = bf16},
                            which, weigh_input ? Product::weighted_input : Product::weighted_result);
  } else {
    const uint64_t up = gate + inner_cols * 4ull;
    const auto weighted = weigh_input ? Product::weighted_input : Product::weighted_no;
    products.expert_product(m.in[0], in, {.y = up, .stride = r_.sizes.expert_inner}, which, weighted);
    products.expert_product(m.in[1], in, {.y = gate, .stride = r_.sizes.expert_inner}, which, weighted);
    activate(r_, m.model->activation, {},
             {.y = act,
              .gate = gate,
              .up = up,
              .y_stride = r_.sizes.expert_act,
              .in_stride = r_.sizes.expert_inner,
              .rows = count * used,
              .cols = inner_cols,
              .weights = weigh_input ? 0 : r_.work.expert_weights.address() + which.first * 4ull});
  }
  const ExpertSum sum = expert_sum(m, scale);
  if (sum.shared) add_shared(m, scale, first_row, count);
  products.expert_sum(m.down, {.address = act, .stride = r_.sizes.expert_act, .bf16 = bf16},
                      {.kind = sum.add || sum.shared ? Product::add : Product::store,
                       .y = sum.y + uint64_t(first_row) * sum.cols * 4,
                       .stride = sum.cols,
                       .scale = sum.scale},
                      which, !weigh_input);
}

// Rows by expert, in slots: x is gathered into them, and the results of a row are added up from its own.
void Forward::add_grouped_experts(const DeviceMixture& m, float scale) {
  const uint32_t used = m.model->routing.used, experts = m.in[0].count, pairs = rows_.count * used;
  const uint32_t sms = r_.recorder.sms(), expected = m.rows_of_expert(rows_.count);
  const uint32_t out = m.joined_experts ? Product::gate : Product::act;
  const uint32_t activation = activation_field(m.model->activation);
  auto few_rows = [&](const Weights& w, uint32_t kind, uint32_t vectors) {
    const kernels::GpuLimits& gpu = r_.recorder.limits();
    const kernels::MmaProduct what{.format = uint32_t(w.shape.format),
                                   .copies = kernels::copies_on(gpu),
                                   .out = kind,
                                   .activation = activation,
                                   .bias = !w.bias.empty(),
                                   .experts = 1};
    const uint32_t all = w.shape.rows * std::min(pairs, experts);
    return kernels::mma_product_choice(what, all, w.shape.cols, vectors, sms, gpu);
  };
  auto many_rows = [&]<class Spec>(Spec what, const auto& gpu) {
    what.activation = activation;
    what.experts = 1;
    auto choose = [&](const Weights& w, uint32_t kind) {
      what.format = uint32_t(w.shape.format);
      what.out = kind;
      what.bias = !w.bias.empty();
      return r_.tuning.many_vectors(what, w.shape.rows, w.shape.cols, expected, gpu);
    };
    Spec in = choose(m.in[0], out), down = choose(m.down, Product::store);
    in.columns = down.columns = std::min({in.columns, down.columns, max_expert_tile});  // the same tiles for both
    add_grouped_experts(m, scale, in, down);
  };
  if (expected <= max_few_expert_rows) {
    // the same tiles for both
    const uint32_t vectors = std::min(few_rows(m.in[0], out, min_expert_tile).columns,
                                      few_rows(m.down, Product::store, min_expert_tile).columns);
    return add_grouped_experts(m, scale, few_rows(m.in[0], out, vectors), few_rows(m.down, Product::store, vectors));
  }
  if (paths_.groups_by_wgmma())
    many_rows(kernels::WgmmaProduct{}, sms);
  else
    many_rows(kernels::MmaTiles{}, r_.recorder.device());
}

template <class Spec>
void Forward::add_grouped_experts(const DeviceMixture& m, float scale, const Spec& in, const Spec& down) {
  const uint32_t used = m.model->routing.used, experts = m.in[0].count, pairs = rows_.count * used;
  const uint32_t slots = kernels::GroupRows::max_slots(pairs, experts, in.columns);
  const bool weigh_input = m.model->routing.weigh_input;
  kernels::GroupRows group{.largest = 32, .weights = weigh_input, .skips = m.has_part_of_experts()};
  while (group.largest < experts) group.largest *= 2;
  r_.recorder.launch(group, {.list = {r_.work.expert_list.address()},
                             .slot_of = {r_.work.expert_slot_of.address()},
                             .tiles = {r_.work.expert_tiles.address()},
                             .tile_count = {r_.work.expert_tile_count.address()},
                             .ids = {r_.work.expert_ids.address()},
                             .rows = rows_.count,
                             .used = used,
                             .experts = experts,
                             .slots = slots,
                             .tile_rows = in.columns,
                             .weights = {r_.work.expert_weights.address()},
                             .slot_weights = {r_.work.expert_slot_weights.address()}});
  const uint64_t act = r_.work.grouped_act.address(), result = r_.work.grouped_result.address();
  Input gathered = expert_input(m);
  gathered.list = r_.work.expert_list.address();
  if (weigh_input) gathered.factors = r_.work.expert_slot_weights.address();
  to_half(r_, gathered, m.in[0], slots, in.columns);
  grouped_product(in, m.in[0], act, r_.sizes.expert_act, slots);
  to_half(r_, {.address = act, .stride = r_.sizes.expert_act}, m.down, slots, in.columns);
  const ExpertSum sum = expert_sum(m, scale);
  grouped_product(down, m.down, result, sum.cols, slots);

  kernels::Mix::Args mix = mix_args(m, scale, 0, rows_.count);
  mix.out = {sum.y};
  mix.cols = sum.cols;
  mix.scale = sum.scale;
  mix.y = {result};
  mix.weights = {r_.work.expert_weights.address()};
  mix.slots = {r_.work.expert_slot_of.address()};
  mix.used = used;
  r_.recorder.launch(kernels::Mix{.vec = 4,
                                  .add = sum.add,
                                  .shared = sum.shared,
                                  .by_slot = 1,
                                  .weighted = !weigh_input,
                                  .skips = m.has_part_of_experts()},
                     mix);
}

template <class Spec>
void Forward::grouped_product(const Spec& spec, const Weights& w, uint64_t y, uint32_t stride, uint32_t slots) {
  uint32_t resident = 1;
  if constexpr (requires { spec.resident; }) resident = spec.resident;
  r_.recorder.launch(spec,
                     {.y = {y},
                      .x = {r_.work.half.address()},
                      .w = {w.address()},
                      .bias = {w.packed_bias.address()},
                      .expert_bytes = w.shape.bytes(),
                      .rows = w.shape.rows,
                      .cols = w.shape.cols,
                      .y_stride = stride,
                      .blocks = r_.recorder.sms() * resident,
                      .vectors = slots,
                      .scale = 1,
                      .magnitude = 1,
                      .scales = {r_.work.half_scale.address()},
                      .tiles = {r_.work.expert_tiles.address()},
                      .tile_count = {r_.work.expert_tile_count.address()}},
                     w.bytes());
}

// What the shared expert gives, before the others: added to the residual stream, or where a norm follows, stored for
// it.
void Forward::add_shared(const DeviceMixture& m, float scale, uint32_t first_row, uint32_t count) {
  r_.recorder.launch(kernels::Mix{.vec = 4, .add = !m.has_ending(), .shared = 1}, mix_args(m, scale, first_row, count));
}

// For rows from `first_row` on, with the shared expert alone.
kernels::Mix::Args Forward::mix_args(const DeviceMixture& m, float scale, uint32_t first_row, uint32_t count) const {
  const bool norm = m.has_ending();
  const uint64_t offset = uint64_t(first_row) * r_.sizes.width * 4;
  kernels::Mix::Args mix{.out = {(norm ? r_.work.result.address() : r_.work.h.address()) + offset},
                         .shared = {r_.work.shared.address() + offset},
                         .rows = count,
                         .cols = r_.model.width,
                         .scale = norm ? 1 : scale};
  // the router's last row weighs the shared expert; without such a row its weight is 1
  const uint32_t stride = stride_of(m.router.shape.rows);
  const uint64_t score = (uint64_t(first_row) * stride + m.model->router.rows) * 4;
  mix.shared_gate = {m.shared_gated ? r_.work.router.address() + score : r_.work.always.address()};
  mix.gate_stride = m.shared_gated ? stride : 0;
  return mix;
}

}  // namespace heddle::gpu
