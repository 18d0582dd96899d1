// Matrices that read the same input become one, so that a phase is one launch.
#include "gpu/weights.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "gpu/describe.h"
#include "gpu/visitors.h"
#include "kernels/product/product.h"

namespace heddle::gpu {
namespace {

using model::Matrix;
using quant::Format;

void describe_qkv(const model::Attention& a, DeviceAttention& to) {
  to.rotary = a.rope.style == model::Rope::Style::none ? 0 : a.rope.dimensions;
  to.q_norm = norm_of(a.q_norm, a.head);
  to.k_norm = norm_of(a.k_norm, a.head);
  to.v_norm = norm_of(a.v_norm, a.value_head);
  if (to.v_norm && (!to.v_norm.bias.empty() || to.v_norm.size != a.value_head))
    throw Error("a norm of values with a bias or of all heads, expected one of each head on the GPU");
  if (!a.k) {
    to.stacked_qkv = true;
    to.qkv.push_back(plain(a.q, a.q_bias));
    return;
  }
  const bool v_is_k = a.values_are_keys();
  const uint32_t q_rows = uint32_t(a.q.rows), k_rows = uint32_t(a.k.rows), v_rows = v_is_k ? 0 : uint32_t(a.v.rows);
  const bool any_bias = !a.q_bias.empty() || !a.k_bias.empty() || !a.v_bias.empty();
  const bool same = v_is_k || a.q.format == a.v.format;
  const uint32_t tile_rows = kernels::tile_values / kernels::tile_cols_for(uint32_t(a.q.cols));
  const bool one_product = a.q.format == a.k.format && (same || (q_rows + k_rows) % tile_rows == 0);
  const bool finishes = !to.q_norm && !to.k_norm && !to.v_norm && !v_is_k && a.head % 4 == 0 && a.value_head % 4 == 0 &&
                        to.rotary % 4 == 0 && a.clamp_qkv == 0 && a.temperature.scale == 0;
  to.joined_qkv = one_product && finishes;
  to.stacked_qkv = one_product && !finishes;
  if (!one_product) {
    to.qkv.push_back(plain(a.q, a.q_bias));
    to.qkv.push_back(plain(a.k, a.k_bias, q_rows));
    if (!v_is_k) to.qkv.push_back(plain(a.v, a.v_bias, q_rows + k_rows));
    return;
  }
  std::vector<uint32_t> places;
  for (uint32_t p = 0; p < q_rows + k_rows; ++p)
    places.push_back(finishes ? p / a.head * a.head +
                                    kernels::qkv_row(p % a.head, to.rotary, a.rope.style == model::Rope::Style::halves)
                              : p);
  if (same)
    for (uint32_t p = 0; p < v_rows; ++p) places.push_back(q_rows + k_rows + p);
  to.qkv.push_back(same && !v_is_k ? joined({a.q, a.k, a.v}, places) : joined({a.q, a.k}, places));
  append_bias(to.qkv[0], a.q_bias, q_rows, any_bias);
  append_bias(to.qkv[0], a.k_bias, k_rows, any_bias);
  if (v_is_k) return;
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
  if (a.laurel) to.laurel = {plain(a.laurel->down), plain(a.laurel->up), norm_of(a.laurel->norm, width)};
  to.output = plain(a.output, a.output_bias);
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

DeviceAltup describe(const model::Altup& a, DeviceModel&, uint32_t width) {
  DeviceAltup to;
  to.model = &a;
  to.norm = norm_of(a.norm, width);
  for (uint64_t i = 0; i < a.projections.count; ++i) to.projections.push_back(plain(a.projections.expert(i)));
  return to;
}

// `cols` columns of a matrix from `first` on: as they lie in the file where blocks end there, otherwise as f32.
Matrix columns_of(const Matrix& from, uint64_t first, uint64_t cols, DeviceModel& d) {
  const uint64_t block = quant::block_values(from.format);
  const bool whole = first % block == 0 && cols % block == 0;
  const uint64_t bytes = whole ? quant::row_bytes(from.format, cols) : cols * sizeof(float);
  std::vector<uint8_t>& to = d.halves.emplace_back(from.rows * bytes);
  std::vector<float> row(from.cols);
  for (uint64_t r = 0; r < from.rows; ++r) {
    const uint8_t* source = from.data.data() + r * from.row_bytes();
    if (!whole) quant::decode(from.format, source, from.cols, row.data());
    std::memcpy(to.data() + r * bytes,
                whole ? static_cast<const void*>(source + quant::row_bytes(from.format, first)) : row.data() + first,
                bytes);
  }
  return {whole ? from.format : Format::f32, from.rows, cols, to};
}

DeviceNextHead describe(const model::NextHead& h, DeviceModel& d, uint32_t width) {
  DeviceNextHead to;
  to.model = &h;
  to.norm = norm_of(h.norm, width);
  to.token_norm = norm_of(h.token_norm, width);
  to.hidden_norm = norm_of(h.hidden_norm, width);
  to.token = plain(columns_of(h.join, 0, width, d));
  to.hidden = plain(columns_of(h.join, width, width, d));
  return to;
}

DeviceTokenInputs describe(const model::TokenInputs& t) {
  DeviceTokenInputs to{plain(t.embedding), plain(t.projection), norm_of(t.norm, t.size)};
  if (to.norm.kind != model::Norm::Kind::rms || !to.norm.bias.empty() || to.norm.size != t.size)
    throw Error("inputs of tokens without an RMSNorm of each {} values, expected on the GPU", t.size);
  for (float& weight : to.norm.weight) weight *= t.scale;
  return to;
}

void append(std::vector<Weights*>& list, DeviceAttention& a) {
  for (Weights& w : a.qkv) list.push_back(&w);
  if (a.latent && a.latent->q_up) list.push_back(&a.latent->q_up);
  if (a.gate) list.push_back(&a.gate);
  if (a.laurel) list.insert(list.end(), {&a.laurel->down, &a.laurel->up});
  list.push_back(&a.output);
}
void append(std::vector<Weights*>& list, DeviceFeedForward& f) {
  for (Weights& w : f.in) list.push_back(&w);
  list.push_back(&f.down);
}
void append(std::vector<Weights*>& list, DeviceMixture& m) {
  if (m.shared) append(list, *m.shared);
  list.push_back(&m.router);
  if (m.latent_down) list.insert(list.end(), {&m.latent_down, &m.latent_up});
  for (Weights& w : m.in) list.push_back(&w);
  list.push_back(&m.down);
}
void append(std::vector<Weights*>& list, DeviceRecurrence& r) {
  for (Weights& w : r.in) list.push_back(&w);
  list.push_back(&r.output);
}
void append(std::vector<Weights*>& list, DeviceShortConvolution& c) { list.insert(list.end(), {&c.in, &c.output}); }
void append(std::vector<Weights*>& list, DeviceAltup& a) {
  for (Weights& w : a.projections) list.push_back(&w);
}
void append(std::vector<Weights*>& list, DeviceNextHead& h) { list.insert(list.end(), {&h.token, &h.hidden}); }

// Values of the vectors of a sublayer with a state, and of AltUp.
uint64_t vector_values(const model::Convolution& c) { return c.weight.size() + c.bias.size(); }
uint64_t vector_bytes(const DeviceSublayer& sublayer) {
  if (const auto* a = std::get_if<DeviceAltup>(&sublayer))
    return (a->model->router.size() + a->model->coefficients.size()) * 4;
  if (const auto* c = std::get_if<DeviceShortConvolution>(&sublayer)) return vector_values(c->model->convolution) * 4;
  if (const auto* h = std::get_if<DeviceNextHead>(&sublayer)) return h->model->join.rows * 2 * 4;
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
      list.insert(list.end(), {&a->q_norm, &a->k_norm, &a->v_norm});
      if (a->laurel) list.push_back(&a->laurel->norm);
      if (a->latent) list.insert(list.end(), {&a->latent->q_norm, &a->latent->kv_norm});
    } else if (auto* m = std::get_if<DeviceMixture>(&sublayer)) {
      list.insert(list.end(), {&m->router_norm, &m->experts_norm});
      if (m->shared) list.insert(list.end(), {&m->shared->norm, &m->shared->output_norm});
    } else if (auto* h = std::get_if<DeviceNextHead>(&sublayer)) {
      list.insert(list.end(), {&h->token_norm, &h->hidden_norm});
    }
  return list;
}

std::vector<Weights*> DeviceModel::all() {
  std::vector<Weights*> list;
  if (embedding) list.push_back(&embedding);
  if (positions) list.push_back(&positions);
  if (token_types) list.push_back(&token_types);
  if (token_inputs) list.insert(list.end(), {&token_inputs->embedding, &token_inputs->projection});
  for (DeviceLayer& layer : layers)
    for (Weights* w : layer.all()) list.push_back(w);
  if (output) list.push_back(&output);
  return list;
}

bool DeviceModel::is_tied() const {
  return embedding && output && output.shape.rows == embedding.shape.rows &&
         output.sources[0].from.data.data() == embedding.sources[0].from.data.data();
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
        total += vector_bytes(sublayer);
  return total;
}

uint64_t DeviceModel::largest_source() {
  uint64_t largest = 0;
  for (Weights* w : all())
    if (!w->visiting) largest = std::max(largest, Sender::stage_bytes(*w));
  return largest;
}

DeviceModel describe_weights(const model::Model& model, const std::vector<VisitingSublayer>& visiting) {
  if (model.width % 8) throw Error("{}: a width of {}, expected a multiple of 8 on the GPU", model.name, model.width);
  DeviceModel d;
  d.owned.reserve(model.layers.size());  // the matrices point into it
  d.halves.reserve(2);                   // the same
  if (model.embedding) d.embedding = plain(model.embedding);
  if (model.positions) d.positions = plain(model.positions);
  if (const model::Vector& types = model.type_embeddings; !types.empty())
    d.token_types = plain({Format::f32,
                           model::token_types(model),
                           model.width,
                           {reinterpret_cast<const uint8_t*>(types.data()), types.size() * sizeof(float)}});
  if (model.token_inputs) d.token_inputs = describe(*model.token_inputs);
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
      if (auto* h = std::get_if<DeviceNextHead>(&to.sublayers.back())) h->state = states++;
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
