// The kernels of the usual batches are assembled while loading, so that no stream waits for the assembler later.
#include <algorithm>
#include <set>

#include "gpu/backend.h"
#include "kernels/attention/cluster_attention.h"

namespace heddle::gpu {

namespace {

constexpr uint32_t two_products = 9;  // rows: `product` takes up to 8 at once

// All that the kernels of a layer depend on.
struct LayerKind {
  struct NormKind {
    model::Norm::Kind kind;
    bool bias;
    auto operator<=>(const NormKind&) const = default;
  };
  struct MatrixKind {
    quant::Format format;
    uint32_t rows, cols;
    bool bias;
    auto operator<=>(const MatrixKind&) const = default;
  };
  struct AttentionKind {
    uint32_t head, value_head, heads, kv_heads, window, rotary;
    bool softcap, chunk, sinks, slopes, causal, own_head_norms, norm_after_rope, clamped, temperature;
    bool fills_cache, values_are_keys;
    uint32_t plain, value;  // of latent attention
    auto operator<=>(const AttentionKind&) const = default;
  };
  struct RoutingKind {
    model::Routing::Score score;
    bool bias, groups, groups_by_two, weights_sum_to_one, scaled, each_scaled, weigh_input;
    uint32_t used, experts;
    auto operator<=>(const RoutingKind&) const = default;
  };
  struct StateKind {
    model::Recurrence::Rule rule;
    uint32_t key, width;
    bool bias, norm, gate_first;
    auto operator<=>(const StateKind&) const = default;
  };
  struct GateKind {
    bool cutoff, token_input, to_other_streams;
    auto operator<=>(const GateKind&) const = default;
  };
  bool parallel, scaled;
  std::vector<StateKind> states;
  std::vector<GateKind> gates;
  std::vector<model::Altup::Step> altups;
  std::vector<size_t> sublayers;  // which alternative of the variant each is
  std::vector<model::Activation> activations;
  std::vector<RoutingKind> routings;
  std::vector<AttentionKind> attentions;
  std::vector<NormKind> norms;
  std::vector<MatrixKind> matrices;
  auto operator<=>(const LayerKind&) const = default;
};

LayerKind kind_of_layer(DeviceLayer& layer, const model::Layer& model) {
  LayerKind kind{.parallel = model.parallel, .scaled = model.output_scale != 1};
  for (const DeviceSublayer& sublayer : layer.sublayers) {
    kind.sublayers.push_back(sublayer.index());
    if (const auto* device = std::get_if<DeviceAttention>(&sublayer)) {
      const model::Attention& a = *device->model;
      kind.attentions.push_back({a.head, a.value_head, a.heads, a.kv_heads, a.window, device->rotary, a.softcap != 0,
                                 a.chunk != 0, !a.sinks.empty(), !a.slopes.empty(), a.causal, a.own_head_norms,
                                 a.norm_after_rope, a.clamp_qkv != 0, a.temperature.scale != 0, a.fills_cache(),
                                 a.values_are_keys(), a.latent ? a.latent->plain : 0, a.latent ? a.latent->value : 0});
    } else if (const auto* f = std::get_if<DeviceFeedForward>(&sublayer)) {
      kind.activations.push_back(f->model->activation);
      kind.gates.push_back(
          {f->model->cutoff.has_value(), f->model->token_input.has_value(), f->model->to_other_streams});
    } else if (const auto* m = std::get_if<DeviceMixture>(&sublayer)) {
      const model::Routing& r = m->model->routing;
      kind.activations.push_back(m->model->activation);
      kind.routings.push_back({r.score, !r.bias.empty(), r.groups_used < r.groups, r.groups_by_two,
                               r.weights_sum_to_one, r.scale != 1, !r.scales.empty(), r.weigh_input, r.used,
                               m->down.count});
    } else if (const auto* s = std::get_if<DeviceRecurrence>(&sublayer)) {
      const model::Recurrence& r = *s->model;
      kind.states.push_back({r.rule, r.key, r.convolution.width, !r.convolution.bias.empty(),
                             r.gated_norm.kind != model::Norm::Kind::none, r.gate_first});
    } else if (const auto* t = std::get_if<DeviceAltup>(&sublayer)) {
      kind.altups.push_back(t->model->step);
    } else if (const auto* c = std::get_if<DeviceShortConvolution>(&sublayer)) {
      kind.states.push_back({{}, 0, c->model->convolution.width, !c->model->convolution.bias.empty(), false, false});
    }
  }
  for (const DeviceNorm* norm : layer.norms()) kind.norms.push_back({norm->kind, !norm->bias.empty()});
  for (const Weights* w : layer.all())
    kind.matrices.push_back({w->shape.format, w->shape.rows, w->shape.cols, !w->bias.empty()});
  return kind;
}

// The first layer of each kind: all others have the same kernels.
std::vector<uint32_t> layers_of_each_kind(const model::Model& model, DeviceModel& weights) {
  std::vector<uint32_t> firsts;
  std::set<LayerKind> seen;
  for (uint32_t i = 0; i < model.layers.size(); ++i)
    if (seen.insert(kind_of_layer(weights.layers[i], model.layers[i])).second) firsts.push_back(i);
  return firsts;
}

}  // namespace

void Gpu::load_kernels() {
  std::vector<kernels::AnySpec> all;
  recorder_.wanted = &all;
  for (uint32_t longest : {1u, short_length + 1, middle_length + 1})
    if (longest <= std::min(sizes_.context, model_.context)) list_step(1, longest);
  // the shapes of products that batches of several sequences take
  for (uint32_t rows : {max_vector_rows, max_vector_rows + 1, 16u, 32u})
    if (forward_->paths().expects_many_rows() && rows <= sizes_.rows) {
      list_step(rows, 1);
      if (forward_->paths().gathers(rows)) list_logits(rows, {});
    }
  for (uint32_t rows = 1; weights_.output && rows <= sizes_.picked_at_once(); ++rows)
    for (const PickKind& kind : {PickKind{},
                                 {.logprob = true},
                                 {.logprob = true, .tops = true},
                                 {.masked = 1},
                                 {.logprob = true, .masked = 1}})
      record_pick(rows, 0, 0, kind);
  const std::vector<uint32_t> layers = layers_of_each_kind(model_, weights_);
  for (uint32_t layer : layers)
    for (const DeviceSublayer& sublayer : weights_.layers[layer].sublayers)
      if (const auto* attention = std::get_if<DeviceAttention>(&sublayer); attention && !attention->latent)
        list_attention(*attention);
  list_prompts(layers);
  list_experts(layers);
  if (weights_.output) forward_->keep_states();
  recorder_.wanted = nullptr;
  library_.load(all);
}

void Gpu::list_step(uint32_t rows, uint32_t longest) {
  forward_->begin(
      {.count = rows, .each_own = true, .row_tables = true, .longest = forward_->longest_of(length_class(longest))});
  list_embedding();
  model::run_layers(model_, *forward_);
  list_logits(rows, 0);
  if (is_part()) return;
  record_pick(rows, 0, 0, {});
  record_advance(rows);
}

// Parts of models may have neither.
void Gpu::list_embedding() {
  if (weights_.embedding) forward_->embed();
}
void Gpu::list_logits(uint32_t outputs, std::optional<uint32_t> from_row) {
  if (weights_.output) forward_->logits(0, outputs, from_row);
}

// The shapes of attention differ by the number of streams and of prompt tiles, and by the lengths.
void Gpu::list_attention(const DeviceAttention& attention) {
  if (!forward_->paths().attention_shapes_vary()) return;
  // the shape is the same for more streams than this
  const model::Attention& a = *attention.model;
  const uint32_t units = kernels::cluster_groups(a.heads, a.kv_heads) * a.kv_heads;
  const uint32_t max_streams = std::min(std::max(32u, 2 * recorder_.sms() / units), sizes_.rows);
  auto attend = [&](const Rows& rows) {
    forward_->begin(rows);
    forward_->attend(attention);
  };
  // tiles that fill the SMs: the shape is the same for all lengths
  const uint32_t many = recorder_.sms();
  attend({.count = many * prompt_tile, .longest = 1, .tiles = many});
  // the lengths where cluster_choice and prompt_splits change
  for (uint32_t longest : {1u, 129u, 257u, 513u, short_length + 1, 2048u, 4097u, middle_length + 1, 16385u}) {
    if (longest > std::min(sizes_.context, model_.context)) continue;
    for (uint32_t streams = 1; streams <= max_streams; ++streams) {
      Rows rows{.count = streams,
                .each_own = true,
                .single = streams,
                .longest_single = longest,
                .row_tables = true,
                .longest = longest};
      attend(rows);
      if (streams == sizes_.rows) continue;
      // the same streams beside a prompt
      rows.count = streams + 1;
      rows.tiles = streams + 1;
      rows.each_own = false;
      for (bool row_tables : {true, false}) {
        rows.row_tables = row_tables;
        attend(rows);
      }
    }
    for (uint32_t tiles : {1u, 2u, 4u, 8u})
      for (uint32_t rows : {2u, tiles * prompt_tile}) attend({.count = rows, .longest = longest, .tiles = tiles});
  }
}

// The shapes of products of many rows differ by the number of rows, in steps of 8; those that write the cache also by
// whether each row has a block table, as in a step, or each sequence.
void Gpu::list_prompts(const std::vector<uint32_t>& layers) {
  const Paths& paths = forward_->paths();
  const uint32_t max_rows = paths.expects_many_rows() ? sizes_.rows : std::min(sizes_.rows, two_products);
  auto list = [&](Rows rows, uint32_t outputs) {
    if (rows.chunked_runs == 0) rows.chunked_runs = paths.chunks_states(rows.count);
    rows.runs = rows.chunked_runs + 1;
    forward_->begin(rows);
    list_embedding();
    // where norms are late, kernels also depend on the layers before and after
    if (rows.count <= max_late_rows)
      model::run_layers(model_, *forward_);
    else
      for (uint32_t i : layers) model::run_layer(model_, i, *forward_);
    list_logits(outputs, 0);
    if (paths.gathers(outputs)) list_logits(outputs, {});
  };
  if (sizes_.expanded) {
    const uint32_t tiles = (max_rows + prompt_tile - 1) / prompt_tile;
    list({.count = max_rows,
          .row_tables = false,
          .longest = max_rows,
          .tiles = tiles,
          .sequences = std::vector<uint32_t>(max_rows),
          .prompts = {{.rows = max_rows, .tiles = tiles, .end = max_rows}}},
         1);
  }
  if (paths.chunks_states(max_rows))  // with many sequences the grid fills the SMs
    list({.count = max_rows,
          .row_tables = false,
          .longest = max_rows,
          .tiles = 1,
          .sequences = std::vector<uint32_t>(max_rows),
          .chunked_runs = recorder_.sms()},
         1);
  for (uint32_t rows = max_rows; rows > 0; rows = (rows - 1) / 8 * 8) {
    if (rows <= max_few_rows && rows < max_rows) return;
    list({.count = rows,
          .row_tables = paths.tables_by_row(rows),
          .longest = rows,
          .tiles = 1,
          .sequences = std::vector<uint32_t>(rows)},
         1);
    if (rows <= max_step_rows && paths.expects_many_rows())
      list({.count = rows, .each_own = true, .single = rows, .longest_single = 1, .row_tables = true, .longest = 1},
           rows);
  }
}

// The shapes of experts' products differ by the rows that each expert may expect.
void Gpu::list_experts(const std::vector<uint32_t>& layers) {
  for (uint32_t i : layers)
    for (uint32_t s = 0; s < weights_.layers[i].sublayers.size(); ++s) {
      const auto* mixture = std::get_if<DeviceMixture>(&weights_.layers[i].sublayers[s]);
      if (!mixture) continue;
      for (uint32_t rows = max_expert_vector_rows + 1, last = 0; rows <= sizes_.rows; ++rows) {
        const uint32_t expected = mixture->rows_of_expert(rows);
        if (expected == last || !forward_->paths().groups_experts(rows)) continue;
        last = expected;
        forward_->begin({.count = rows});
        forward_->add(i, s);
      }
    }
}

}  // namespace heddle::gpu
