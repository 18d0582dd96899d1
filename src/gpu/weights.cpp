// Matrices that read the same input become one, so that a phase is one launch.
#include "gpu/weights.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "gpu/visitors.h"
#include "kernels/format/block_format.h"
#include "kernels/product/product.h"

namespace heddle::gpu {
namespace {

using model::Matrix;
using quant::Format;

kernels::TileShape shape_of(Format format, uint64_t rows, uint64_t cols) {
  if (std::find(kernels::known_formats.begin(), kernels::known_formats.end(), format) == kernels::known_formats.end())
    throw Error("weights of type {} cannot run on the GPU", quant::name(format));
  if (rows > 0xfffffff0u || cols > (1u << 20)) throw Error("a matrix of {} x {} is too large for the GPU", rows, cols);
  return {format, uint32_t(rows), uint32_t(cols), kernels::tile_cols_for(uint32_t(cols))};
}

Weights plain(const Matrix& m, const model::Vector& bias = {}, uint32_t first_place = 0) {
  Weights w{.shape = shape_of(m.format, m.rows, m.cols), .first_place = first_place, .bias = bias};
  w.sources.push_back({m, {}});
  return w;
}

// Rows of several matrices of one format: packed row p is row `places[p]` of all of them one below the other.
Weights joined(const std::vector<Matrix>& from, const std::vector<uint32_t>& places) {
  Weights w{.shape = shape_of(from[0].format, places.size(), from[0].cols), .places = places};
  uint32_t first = 0;
  for (const Matrix& m : from) {
    std::vector<uint32_t> rows(places.size(), Source::skip);
    for (size_t p = 0; p < places.size(); ++p)
      if (places[p] >= first && places[p] - first < m.rows) rows[p] = places[p] - first;
    w.sources.push_back({m, std::move(rows)});
    first += uint32_t(m.rows);
  }
  return w;
}

std::vector<uint32_t> gate_places(uint32_t rows) {
  std::vector<uint32_t> places(2 * rows);
  for (uint32_t p = 0; p < 2 * rows; ++p) places[p] = p / 4 * 2 + p % 2 + (p % 4 < 2 ? 0 : rows);
  return places;
}
bool can_join_gate(const Matrix& gate, const Matrix& up) {
  return gate && gate.format == up.format && gate.rows == up.rows && gate.rows % 2 == 0;
}

void append_bias(Weights& w, const model::Vector& bias, uint64_t rows, bool any) {
  if (!any) return;
  if (bias.empty())
    w.bias.insert(w.bias.end(), rows, 0.0f);
  else
    w.bias.insert(w.bias.end(), bias.begin(), bias.end());
}

DeviceNorm norm_of(const model::Norm& from, uint32_t size) {
  DeviceNorm n{.kind = from.kind, .epsilon = from.epsilon, .weight = from.weight, .bias = from.bias, .size = size};
  if (!n) return n;
  if (n.weight.empty())
    n.weight.assign(size, 1.0f);
  else
    n.size = uint32_t(n.weight.size());
  if (n.kind == model::Norm::Kind::layer && n.bias.empty()) n.bias.assign(n.weight.size(), 0.0f);
  const size_t filled = (n.weight.size() + 7) / 8 * 8;
  n.weight.resize(filled);
  if (!n.bias.empty()) n.bias.resize(filled);
  return n;
}

void describe_qkv(const model::Attention& a, DeviceAttention& to) {
  to.rotary = a.rope.style == model::Rope::Style::none ? 0 : a.rope.dimensions;
  to.q_norm = norm_of(a.q_norm, a.head);
  to.k_norm = norm_of(a.k_norm, a.head);
  const uint32_t q_rows = uint32_t(a.q.rows), k_rows = uint32_t(a.k.rows), v_rows = uint32_t(a.v.rows);
  const bool any_bias = !a.q_bias.empty() || !a.k_bias.empty() || !a.v_bias.empty();
  const bool same = a.q.format == a.v.format;
  const uint32_t tile_rows = kernels::tile_values / kernels::tile_cols_for(uint32_t(a.q.cols));
  const bool one_product = a.q.format == a.k.format && (same || (q_rows + k_rows) % tile_rows == 0);
  const bool finishes = !to.q_norm && !to.k_norm && a.head % 4 == 0 && a.value_head % 4 == 0 && to.rotary % 4 == 0 &&
                        a.clamp_qkv == 0 && a.temperature.scale == 0;
  to.joined_qkv = one_product && finishes;
  to.stacked_qkv = one_product && !finishes;
  if (!one_product) {
    to.qkv.push_back(plain(a.q, a.q_bias));
    to.qkv.push_back(plain(a.k, a.k_bias, q_rows));
    to.qkv.push_back(plain(a.v, a.v_bias, q_rows + k_rows));
    return;
  }
  std::vector<uint32_t> places;
  for (uint32_t p = 0; p < q_rows + k_rows; ++p)
    places.push_back(finishes ? p / a.head * a.head +
                                    kernels::qkv_row(p % a.head, to.rotary, a.rope.style == model::Rope::Style::halves)
                              : p);
  if (same)
    for (uint32_t p = 0; p < v_rows; ++p) places.push_back(q_rows + k_rows + p);
  to.qkv.push_back(same ? joined({a.q, a.k, a.v}, places) : joined({a.q, a.k}, places));
  append_bias(to.qkv[0], a.q_bias, q_rows, any_bias);
  append_bias(to.qkv[0], a.k_bias, k_rows, any_bias);
  append_bias(to.qkv[0], a.v_bias, v_rows, any_bias);  // also if v has another format: one product computes both
  if (same) return;
  to.qkv.push_back(plain(a.v, {}, q_rows + k_rows));
  append_bias(to.qkv[1], a.v_bias, v_rows, any_bias);
}

void describe_latent(const model::Attention& a, DeviceAttention& to) {
  const model::Latent& l = *a.latent;
  if (l.q_down.rows % 8)
    throw Error("queries of {} values before their norm, expected a multiple of 8 on the GPU", l.q_down.rows);
  if (l.rank % 16 || l.rank > 1024 || l.plain % 8 || l.rotated % 8 || l.value % 8 ||
      std::max({l.plain, l.rotated, l.value}) > 512)
    throw Error(
        "latents of {} values and heads of {} + {} and {} values, expected multiples of 16 up to 1024 and of 8 up to "
        "512 on the GPU",
        l.rank, l.plain, l.rotated, l.value);
  to.rotary = l.rotated;
  DeviceLatent& latent = to.latent.emplace();
  latent.kv_norm = norm_of(l.kv_norm, l.rank);
  const Matrix& first = l.q_down ? l.q_down : a.q;
  if (l.q_down) {
    latent.q_norm = norm_of(l.q_norm, uint32_t(l.q_down.rows));
    latent.q_up = plain(a.q);
  }
  to.stacked_qkv = first.format == l.kv_down.format;
  if (!to.stacked_qkv) {
    to.qkv.push_back(plain(first));
    to.qkv.push_back(plain(l.kv_down, {}, uint32_t(first.rows)));
    return;
  }
  std::vector<uint32_t> places(first.rows + l.kv_down.rows);
  std::iota(places.begin(), places.end(), 0u);
  to.qkv.push_back(joined({first, l.kv_down}, places));
}

uint64_t latent_bytes(const model::Attention& a) {  // of k_up and v_up
  return a.latent ? allocated(a.latent->k_up.all.rows * a.latent->k_up.all.cols * 2) +
                        allocated(a.latent->v_up.all.rows * a.latent->v_up.all.cols * 2)
                  : 0;
}

// What a model may have that no kernel computes.
std::string_view not_on_gpu(const model::Attention& a) {
  if (a.laurel) return "learned augmented residuals (Laurel)";
  if (!a.latent && !a.k) return "layers that share the KV cache of another";
  if (a.v_norm.kind != model::Norm::Kind::none) return "norms of values";
  return {};
}
std::string_view not_on_gpu(const model::FeedForward& f) {
  if (f.token_input) return "per-layer embeddings";
  if (f.cutoff) return "activations with a cutoff";
  return {};
}
std::string_view not_on_gpu(const model::Mixture& m) {
  using Kind = model::Norm::Kind;
  if (m.latent_down) return "experts of latents";
  if (m.router_norm.kind != Kind::none || m.experts_norm.kind != Kind::none || !m.routing.scales.empty() || m.gate.part)
    return "a dense feed-forward beside experts";
  return {};
}
std::string_view not_on_gpu(const model::Recurrence&) { return {}; }
std::string_view not_on_gpu(const model::ShortConvolution&) { return {}; }
std::string_view not_on_gpu(const model::Altup&) { return "alternating updates (AltUp)"; }

void expect_computable(const model::Model& model) {
  std::vector<std::string_view> found;  // each once
  const auto note = [&](std::string_view what) {
    if (!what.empty() && std::find(found.begin(), found.end(), what) == found.end()) found.push_back(what);
  };
  for (const model::Layer& layer : model.layers) {
    if (layer.output_scale != 1) note("a scale of the output of layers");
    for (const model::Sublayer& sublayer : layer.sublayers)
      note(std::visit([](const auto& kind) { return not_on_gpu(kind); }, sublayer));
  }
  if (!found.empty())
    throw Error("{}: this model has {}, which heddle does not compute on the GPU yet: run it with --device cpu",
                model.name, fmt::join(found, ", "));
}

DeviceAttention describe(const model::Attention& a, DeviceModel&, uint32_t width) {
  constexpr uint32_t max_head = 512;  // of AnyAttention
  if (!a.latent && std::max(a.head, a.value_head) > max_head)
    throw Error("heads of {} and {} values, expected at most {} on the GPU", a.head, a.value_head, max_head);
  DeviceAttention to;
  to.model = &a;
  to.norm = norm_of(a.norm, width);
  to.output_norm = norm_of(a.output_norm, width);
  to.residual_norm = norm_of(a.residual_norm, width);
  a.latent ? describe_latent(a, to) : describe_qkv(a, to);
  if (a.gate) to.gate = plain(a.gate);
  to.output = plain(a.output, a.output_bias);
  return to;
}

DeviceFeedForward describe(const model::FeedForward& f, DeviceModel&, uint32_t width) {
  DeviceFeedForward to;
  to.model = &f;
  to.norm = norm_of(f.norm, width);
  to.output_norm = norm_of(f.output_norm, width);
  to.residual_norm = norm_of(f.residual_norm, width);
  to.joined_gate = can_join_gate(f.gate, f.up);
  if (to.joined_gate) {
    const bool any = !f.gate_bias.empty() || !f.up_bias.empty();
    to.in.push_back(joined({f.gate, f.up}, gate_places(uint32_t(f.up.rows))));
    append_bias(to.in[0], f.gate_bias, f.gate.rows, any);
    append_bias(to.in[0], f.up_bias, f.up.rows, any);
  } else {
    to.in.push_back(plain(f.up, f.up_bias));
    if (f.gate) to.in.push_back(plain(f.gate, f.gate_bias));
  }
  to.down = plain(f.down, f.down_bias);
  return to;
}

void expect_possible(const model::Convolution& c) {
  if (c.width < 2 || c.width > 8) throw Error("a convolution of {} inputs, expected 2 to 8 on the GPU", c.width);
}

template <class Device, class Kind>
Device with_norms(const Kind& from, uint32_t width) {
  Device to;
  to.model = &from;
  to.norm = norm_of(from.norm, width);
  to.output_norm = norm_of(from.output_norm, width);
  to.residual_norm = norm_of(from.residual_norm, width);
  to.output = plain(from.output);
  return to;
}

DeviceRecurrence describe(const model::Recurrence& r, DeviceModel&, uint32_t width) {
  expect_possible(r.convolution);
  constexpr uint32_t max_key = 256;  // of kernels::Recurrence
  if (r.key > max_key) throw Error("states of {} keys, expected at most {} on the GPU", r.key, max_key);
  auto to = with_norms<DeviceRecurrence>(r, width);
  std::vector<Matrix> same;  // that become one
  uint32_t place = 0;
  const auto end_same = [&] {
    if (same.empty()) return;
    uint32_t rows = 0;
    for (const Matrix& m : same) rows += uint32_t(m.rows);
    std::vector<uint32_t> places(rows);
    std::iota(places.begin(), places.end(), 0u);
    to.in.push_back(same.size() == 1 ? plain(same[0]) : joined(same, places));
    to.in.back().first_place = place;
    place += rows;
    same.clear();
  };
  for (const Matrix* m : {&r.mixed, &r.gate, &r.steps, &r.betas}) {
    if (!*m) continue;
    if (!same.empty() && same[0].format != m->format) end_same();
    same.push_back(*m);
  }
  end_same();
  return to;
}

DeviceShortConvolution describe(const model::ShortConvolution& c, DeviceModel&, uint32_t width) {
  expect_possible(c.convolution);
  auto to = with_norms<DeviceShortConvolution>(c, width);
  to.in = plain(c.in);
  return to;
}

DeviceFeedForward describe(const model::Altup&, DeviceModel&, uint32_t) {
  check(false, "a model without AltUp");
  return {};
}

DeviceMixture describe(const model::Mixture& m, DeviceModel& d, uint32_t width) {
  if (m.up.count > 512 || m.routing.used > 32)
    throw Error("a mixture that picks {} of {} experts, expected at most 32 of 512 on the GPU", m.routing.used,
                m.up.count);
  DeviceMixture to;
  to.model = &m;
  to.norm = norm_of(m.norm, width);
  to.output_norm = norm_of(m.output_norm, width);
  to.residual_norm = norm_of(m.residual_norm, width);
  if (m.shared) to.shared = describe(*m.shared, d, width);
  // router and shared_router as one matrix of f32
  to.shared_gated = !m.shared_router.empty();
  const uint64_t rows = m.router.rows + (to.shared_gated ? 1 : 0), cols = m.router.cols;
  std::vector<float>& values = d.owned.emplace_back(rows * cols);
  for (uint64_t r = 0; r < m.router.rows; ++r)
    quant::decode(m.router.format, m.router.data.data() + r * m.router.row_bytes(), cols, values.data() + r * cols);
  if (to.shared_gated) std::copy(m.shared_router.begin(), m.shared_router.end(), values.end() - long(cols));
  to.router = plain({Format::f32, rows, cols, {reinterpret_cast<const uint8_t*>(values.data()), values.size() * 4}});
  if (!m.router_bias.empty()) {
    to.router.bias = m.router_bias;
    to.router.bias.resize(rows);  // the shared expert's has none
  }
  const uint64_t count = m.up.count;
  auto experts = [&](const std::function<Weights(uint64_t)>& one) {
    Weights all = one(0);
    all.count = uint32_t(count);
    for (uint64_t e = 1; e < count; ++e)
      for (Source& source : one(e).sources) all.sources.push_back(std::move(source));
    return all;
  };
  // of expert e
  const auto append_expert_bias = [&](Weights& w, const model::Vector& bias, uint64_t e, uint64_t of_expert, bool any) {
    const auto first = bias.begin() + long(bias.empty() ? 0 : e * of_expert);
    append_bias(w, bias.empty() ? model::Vector() : model::Vector(first, first + long(of_expert)), of_expert, any);
  };
  const uint64_t inner = m.up.all.rows / count;
  to.joined_experts = can_join_gate(m.gate.expert(0), m.up.expert(0));
  if (to.joined_experts) {
    to.in.push_back(experts([&](uint64_t e) {
      const Matrix up = m.up.expert(e);
      return joined({m.gate.expert(e), up}, gate_places(uint32_t(up.rows)));
    }));
    for (uint64_t e = 0; e < count; ++e)
      for (const model::Vector* bias : {&m.gate_bias, &m.up_bias})
        append_expert_bias(to.in[0], *bias, e, inner, !m.gate_bias.empty() || !m.up_bias.empty());
  } else {
    to.in.push_back(experts([&](uint64_t e) { return plain(m.up.expert(e)); }));
    to.in[0].bias = m.up_bias;
    if (m.gate.count) {
      to.in.push_back(experts([&](uint64_t e) { return plain(m.gate.expert(e)); }));
      to.in[1].bias = m.gate_bias;
    }
  }
  to.down = experts([&](uint64_t e) { return plain(m.down.expert(e)); });
  to.down.bias = m.down_bias;
  return to;
}

void append(std::vector<Weights*>& list, DeviceAttention& a) {
  for (Weights& w : a.qkv) list.push_back(&w);
  if (a.latent && a.latent->q_up) list.push_back(&a.latent->q_up);
  if (a.gate) list.push_back(&a.gate);
  list.push_back(&a.output);
}
void append(std::vector<Weights*>& list, DeviceFeedForward& f) {
  for (Weights& w : f.in) list.push_back(&w);
  list.push_back(&f.down);
}
void append(std::vector<Weights*>& list, DeviceMixture& m) {
  if (m.shared) append(list, *m.shared);
  list.push_back(&m.router);
  for (Weights& w : m.in) list.push_back(&w);
  list.push_back(&m.down);
}
void append(std::vector<Weights*>& list, DeviceRecurrence& r) {
  for (Weights& w : r.in) list.push_back(&w);
  list.push_back(&r.output);
}
void append(std::vector<Weights*>& list, DeviceShortConvolution& c) { list.insert(list.end(), {&c.in, &c.output}); }

// Values of the vectors of a sublayer with a state.
uint64_t vector_values(const model::Convolution& c) { return c.weight.size() + c.bias.size(); }
uint64_t state_vector_bytes(const DeviceSublayer& sublayer) {
  if (const auto* c = std::get_if<DeviceShortConvolution>(&sublayer)) return vector_values(c->model->convolution) * 4;
  const auto* r = std::get_if<DeviceRecurrence>(&sublayer);
  if (!r) return 0;
  const model::Recurrence& m = *r->model;
  return (vector_values(m.convolution) + m.step_bias.size() + m.rates.size() + m.skip.size() +
          m.gated_norm.weight.size()) *
         4;
}

}  // namespace

std::vector<Weights*> DeviceLayer::all() {
  std::vector<Weights*> list;
  for (DeviceSublayer& sublayer : sublayers) std::visit([&](auto& kind) { append(list, kind); }, sublayer);
  return list;
}
std::vector<DeviceNorm*> DeviceLayer::norms() {
  std::vector<DeviceNorm*> list;
  for (DeviceSublayer& sublayer : sublayers)
    std::visit(
        [&](auto& kind) {
          list.insert(list.end(), {&kind.norm, &kind.output_norm, &kind.residual_norm});
        },
        sublayer);
  for (DeviceSublayer& sublayer : sublayers)
    if (auto* a = std::get_if<DeviceAttention>(&sublayer)) {
      list.insert(list.end(), {&a->q_norm, &a->k_norm});
      if (a->latent) list.insert(list.end(), {&a->latent->q_norm, &a->latent->kv_norm});
    }
  return list;
}

std::vector<Weights*> DeviceModel::all() {
  std::vector<Weights*> list;
  if (embedding) list.push_back(&embedding);
  if (positions) list.push_back(&positions);
  if (token_types) list.push_back(&token_types);
  for (DeviceLayer& layer : layers)
    for (Weights* w : layer.all()) list.push_back(w);
  if (output) list.push_back(&output);
  return list;
}

bool DeviceModel::is_tied() const {
  return embedding && output && output.sources[0].from.data.data() == embedding.sources[0].from.data.data();
}

uint64_t DeviceModel::bytes() {
  uint64_t total = 0;
  for (Weights* w : all())
    if (w != &output || !is_tied())
      total += (w->visiting ? 0 : allocated(w->bytes())) + 4 * std::max<uint64_t>(w->shape.rows, w->bias.size());
  for (const DeviceLayer& layer : layers)
    for (const DeviceSublayer& sublayer : layer.sublayers)
      if (const auto* a = std::get_if<DeviceAttention>(&sublayer))
        total += latent_bytes(*a->model);
      else
        total += state_vector_bytes(sublayer);
  return total;
}

uint64_t DeviceModel::largest_source() {
  uint64_t largest = 0;
  for (Weights* w : all())
    if (!w->visiting) largest = std::max(largest, Sender::stage_bytes(*w));
  return largest;
}

DeviceModel describe_weights(const model::Model& model, const std::vector<VisitingSublayer>& visiting) {
  expect_computable(model);
  if (model.width % 8) throw Error("{}: a width of {}, expected a multiple of 8 on the GPU", model.name, model.width);
  DeviceModel d;
  d.owned.reserve(model.layers.size());  // the matrices point into it
  if (model.embedding) d.embedding = plain(model.embedding);
  if (model.positions) d.positions = plain(model.positions);
  if (const model::Vector& types = model.type_embeddings; !types.empty())
    d.token_types = plain({Format::f32,
                           model::token_types(model),
                           model.width,
                           {reinterpret_cast<const uint8_t*>(types.data()), types.size() * sizeof(float)}});
  const std::vector<uint32_t> caches = model::kv_cache_numbers(model);
  auto cache = caches.begin();
  uint32_t states = 0;
  for (const model::Layer& layer : model.layers) {
    DeviceLayer& to = d.layers.emplace_back();
    for (const model::Sublayer& sublayer : layer.sublayers) {
      std::visit([&](const auto& kind) { to.sublayers.emplace_back(describe(kind, d, model.width)); }, sublayer);
      if (auto* attention = std::get_if<DeviceAttention>(&to.sublayers.back())) attention->cache = *cache++;
      if (auto* r = std::get_if<DeviceRecurrence>(&to.sublayers.back())) r->state = states++;
      if (auto* c = std::get_if<DeviceShortConvolution>(&to.sublayers.back())) c->state = states++;
    }
  }
  for (const VisitingSublayer& place : visiting) {
    const Visitor visitor(d, place);
    for (const auto* group : {&visitor.in, &visitor.down})
      for (Weights* w : *group) w->visiting = true;
  }
  d.norm = norm_of(model.norm, model.width);
  d.embedding_norm = norm_of(model.embedding_norm, model.width);
  if (model.output) d.output = plain(model.output, model.output_bias);
  return d;
}

}  // namespace heddle::gpu
