// Matrices, norms and feed-forwards, of which mixtures have many.
#include "gpu/describe.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "kernels/format/block_format.h"

namespace heddle::gpu {

using model::Matrix;
using quant::Format;

namespace {

kernels::TileShape shape_of(Format format, uint64_t rows, uint64_t cols) {
  if (std::find(kernels::known_formats.begin(), kernels::known_formats.end(), format) == kernels::known_formats.end())
    throw Error("weights of type {} cannot run on the GPU", quant::name(format));
  if (rows > 0xfffffff0u || cols > (1u << 20)) throw Error("a matrix of {} x {} is too large for the GPU", rows, cols);
  return {format, uint32_t(rows), uint32_t(cols), kernels::tile_cols_for(uint32_t(cols))};
}

std::vector<uint32_t> gate_places(uint32_t rows) {
  std::vector<uint32_t> places(2 * rows);
  for (uint32_t p = 0; p < 2 * rows; ++p) places[p] = p / 4 * 2 + p % 2 + (p % 4 < 2 ? 0 : rows);
  return places;
}
bool can_join_gate(const Matrix& gate, const Matrix& up) {
  return gate && gate.format == up.format && gate.rows == up.rows && gate.rows % 2 == 0;
}

}  // namespace

Weights plain(const Matrix& m, const model::Vector& bias, uint32_t first_place) {
  Weights w{.shape = shape_of(m.format, m.rows, m.cols), .first_place = first_place, .bias = bias};
  w.sources.push_back({m, {}});
  return w;
}

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

DeviceFeedForward describe(const model::FeedForward& f, DeviceModel&, uint32_t width) {
  if (f.cutoff && !f.gate) throw Error("an activation with a cutoff, but no gate");
  DeviceFeedForward to;
  to.model = &f;
  to.norm = norm_of(f.norm, width);
  to.output_norm = norm_of(f.output_norm, width);
  to.residual_norm = norm_of(f.residual_norm, width);
  to.joined_gate = !f.cutoff && can_join_gate(f.gate, f.up);
  if (to.joined_gate) {
    const bool any = !f.gate_bias.empty() || !f.up_bias.empty();
    to.in.push_back(joined({f.gate, f.up}, gate_places(uint32_t(f.up.rows))));
    append_bias(to.in[0], f.gate_bias, f.gate.rows, any);
    append_bias(to.in[0], f.up_bias, f.up.rows, any);
  } else {
    if (f.up) to.in.push_back(plain(f.up, f.up_bias));
    if (f.gate) to.in.push_back(plain(f.gate, f.gate_bias));
  }
  to.down = plain(f.down, f.down_bias);
  return to;
}

DeviceMixture describe(const model::Mixture& m, DeviceModel& d, uint32_t width) {
  if (m.router.rows > 512 || m.routing.used > 32)
    throw Error("a mixture that picks {} of {} experts, expected at most 32 of 512 on the GPU", m.routing.used,
                m.router.rows);
  // another rank's expert is computed with a weight of 0, which must make its result 0
  if (m.routing.weigh_input && m.up.count != m.router.rows &&
      !(m.gate_bias.empty() && m.up_bias.empty() && m.down_bias.empty()))
    throw Error("experts by rank that read weighted inputs and have biases cannot run on the GPU");
  DeviceMixture to;
  to.model = &m;
  to.norm = norm_of(m.norm, width);
  to.output_norm = norm_of(m.output_norm, width);
  to.residual_norm = norm_of(m.residual_norm, width);
  to.router_norm = norm_of(m.router_norm, width);
  to.experts_norm = norm_of(m.experts_norm, width);
  if (m.latent_down) {
    if (m.latent_down.rows % 8)
      throw Error("experts that read {} values, expected a multiple of 8 on the GPU", m.latent_down.rows);
    to.latent_down = plain(m.latent_down);
    to.latent_up = plain(m.latent_up);
  }
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
  const uint64_t inner = m.up.expert(0).rows;
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

}  // namespace heddle::gpu
