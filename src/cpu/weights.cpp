// One arena for all tiles that are packed while loading, in large pages: no matrix ends in a page that is mostly empty.
#include "cpu/weights.h"

#include <algorithm>

namespace heddle::cpu {
namespace {

uint64_t packed_size(const Weights& weights) {
  return weights.kind == XKind::f32 ? 0 : (weights.tiles() * weights.tile_bytes + 63) / 64 * 64;
}

}  // namespace

ModelWeights::ModelWeights(const model::Model& model, const Isa& isa, const Options& options, Team& team)
    : isa_(isa), exact_(options.exact) {
  for (const model::Layer& layer : model.layers) {
    std::vector<SublayerWeights>& to = layers.emplace_back();
    for (const model::Sublayer& sublayer : layer.sublayers)
      std::visit([&](const auto& kind) { to.emplace_back(add(kind)); }, sublayer);
  }
  output = add(model.output);
  if (model.token_inputs) token_inputs = add(model.token_inputs->projection);
  if (options.repack)
    pack(options, team);
  else
    for (size_t i = 0; i < all_.size(); ++i) {
      all_[i].data = sources_[i].data.data();
      all_[i].packed_on_use = all_[i].kind != XKind::f32;
    }
  // One rank's rows of the output matrix are not all that the embedding has, and rounded ones are not what it has.
  if (output && model.output.data.data() == model.embedding.data.data() && model.output.rows == model.embedding.rows &&
      output->kind != XKind::f32 && output->tile_format == output->format && options.repack)
    embedding = output;
}

void ModelWeights::pack(const Options& options, Team& team) {
  uint64_t bytes = 0;
  for (const Weights& weights : all_) bytes += packed_size(weights);
  arena_ = Pages(bytes, Pages::Size::large);
  const RunsOn node(team.processors_of_caller());

  // Some matrices in one phase: an expert alone would not keep many threads busy.
  constexpr uint64_t phase_bytes = 256 << 20, chunk_bytes = 512 << 10;
  struct Chunk {
    size_t matrix;
    uint64_t first, tiles;
    double place;  // its middle in its matrix, from 0 to 1
  };
  const FileMappings files;
  std::vector<Chunk> chunks;
  uint64_t at = 0, packed = 0;
  const auto pack_chunks = [&](size_t first, size_t end) {
    // A thread packs the part of each matrix that it will multiply, and the system puts it into the memory of its node.
    std::stable_sort(chunks.begin(), chunks.end(), [](const Chunk& a, const Chunk& b) { return a.place < b.place; });
    const auto pack_chunk = [&](uint64_t item, uint32_t) {
      const Chunk& chunk = chunks[item];
      const Weights& weights = all_[chunk.matrix];
      const model::Matrix& source = sources_[chunk.matrix];
      pack_tiles(source, weights, chunk.first, chunk.tiles,
                 const_cast<uint8_t*>(weights.data) + chunk.first * weights.tile_bytes);
      const uint64_t row = chunk.first * weights.tile_rows;
      files.release(source.slice(row, std::min(chunk.tiles * weights.tile_rows, weights.rows - row)).data);
    };
    team.run(chunks.size(), pack_chunk, Team::Help::own_node);
    for (size_t i = first; i < end; ++i)
      if (all_[i].kind != XKind::f32) files.release(sources_[i].data);  // with the pages that two chunks share
    chunks.clear();
    packed = at;
    if (options.progress) options.progress(at, bytes);
  };
  size_t begin = 0;  // of the phase
  for (size_t i = 0; i < all_.size(); ++i) {
    Weights& weights = all_[i];
    if (weights.kind == XKind::f32) continue;
    weights.data = arena_.data() + at;
    at += packed_size(weights);
    const uint64_t tiles = weights.tiles(), step = std::max<uint64_t>(1, chunk_bytes / weights.tile_bytes);
    for (uint64_t first = 0; first < tiles; first += step) {
      const uint64_t count = std::min(step, tiles - first);
      chunks.push_back({i, first, count, (double(first) + double(count) / 2) / double(tiles)});
    }
    if (at - packed < phase_bytes) continue;
    pack_chunks(begin, i + 1);
    begin = i + 1;
  }
  if (!chunks.empty()) pack_chunks(begin, all_.size());
}

const Weights* ModelWeights::add(const model::Matrix& matrix) {
  if (!matrix) return nullptr;
  const Weights*& found = known_[matrix.data.data()];
  if (found && found->rows == matrix.rows) return found;
  sources_.push_back(matrix);
  all_.push_back(describe_weights(matrix, isa_, exact_));
  return found = &all_.back();
}

std::vector<const Weights*> ModelWeights::add(const model::Experts& experts) {
  std::vector<const Weights*> all;
  for (uint64_t i = 0; i < experts.count; ++i) all.push_back(add(experts.expert(i)));
  return all;
}

AttentionWeights ModelWeights::add(const model::Attention& a) {
  AttentionWeights to{&a,      attentions_++, add(a.q), add(a.k), add(a.v), add(a.output), add(a.gate),
                      nullptr, nullptr,       {},       {},       nullptr,  nullptr};
  if (a.laurel) to.laurel_down = add(a.laurel->down);
  if (a.laurel) to.laurel_up = add(a.laurel->up);
  if (!a.latent) return to;
  to.q_down = add(a.latent->q_down);
  to.kv_down = add(a.latent->kv_down);
  to.k_up = add(a.latent->k_up);
  to.v_up = add(a.latent->v_up);
  return to;
}

FeedForwardWeights ModelWeights::add(const model::FeedForward& f) { return {&f, add(f.gate), add(f.up), add(f.down)}; }

MixtureWeights ModelWeights::add(const model::Mixture& m) {
  MixtureWeights to{&m, add(m.router), add(m.gate), add(m.up), add(m.down), add(m.latent_down), add(m.latent_up), {}};
  to.gate.resize(to.up.size());
  if (m.shared) to.shared = add(*m.shared);
  return to;
}

RecurrenceWeights ModelWeights::add(const model::Recurrence& r) {
  return {&r, add(r.mixed), add(r.gate), add(r.steps), add(r.betas), add(r.output)};
}

ShortConvolutionWeights ModelWeights::add(const model::ShortConvolution& c) { return {&c, add(c.in), add(c.output)}; }

AltupWeights ModelWeights::add(const model::Altup& a) { return {&a, add(a.projections)}; }

NextHeadWeights ModelWeights::add(const model::NextHead& head) { return {&head, add(head.join)}; }

}  // namespace heddle::cpu
