// The fast backend: buffers, the embedding, the head, and what all sublayers share.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "cpu/cpu_backend.h"

namespace heddle::cpu {

using model::Norm;
using model::Overloaded;

std::string Cpu::describe() const {
  const Pages& packed = weights_.packed();
  const double large = double(packed.bytes_in_large_pages());
  bool int8 = false, bf16 = false;
  for (const Weights& weights : weights_.all()) {
    int8 = int8 || weights.kind == XKind::by_32 || weights.kind == XKind::by_256;
    bf16 = bf16 || weights.kind == XKind::bf16;
  }
  const char* const activations = int8 && bf16 ? "int8 and bf16" : int8 ? "int8" : bf16 ? "bf16" : "f32";
  return fmt::format("CPU ({}, {} threads, {} activations, {}{})", isa_.name, team_.threads(), activations,
                     limits_.kv == model::KvFormat::q8 ? "q8 KV, " : "",
                     repacked_ ? fmt::format("{} MiB of weights repacked, {:.0f} % large pages", packed.bytes() >> 20,
                                             packed.bytes() ? 100 * large / double(packed.bytes()) : 0)
                               : "weights read from the file");
}

void Cpu::begin(const model::Batch& batch) {
  check(!batch.follows && batch.picking.empty(),
        "begin() needs a batch that follows no other and picks no tokens on the device");
  rows_ = uint32_t(batch.tokens.size());
  check(rows_ <= limits_.rows && batch.positions.size() == rows_ && batch.sequences.size() == rows_,
        "a batch that fits");
  for (const uint32_t token : batch.tokens) check(token < model_.vocabulary, "tokens of the vocabulary");
  check(batch.types.empty() || batch.types.size() == rows_, "a token type for every row");
  for (const uint32_t type : batch.types) check(type < model::token_types(model_), "types of the model");
  for (uint32_t i = 0; i < rows_; ++i)
    check(batch.positions[i] / limits_.block_tokens < batch.blocks.at(batch.sequences[i]).size(),
          "a block for every position");
  for (const std::vector<uint32_t>& blocks : batch.blocks)
    for (const uint32_t block : blocks) check(block < limits_.kv_blocks, "blocks of the cache");
  model::check_window_blocks(batch, limits_);
  for (const auto* wanted : {&batch.outputs, &batch.states})
    for (const uint32_t row : *wanted) check(row < rows_, "outputs and states of rows of the batch");
  check(!batch.predicts || (model::next_head(model_) && batch.after.size() == rows_),
        "a batch that the model can predict");
  for (const uint32_t row : batch.after) check(row < limits_.rows, "rows of the batch before");
  batch_ = &batch;
  node_.emplace(team_.processors_of_caller());
  computed_ = false;
  states_.clear();
  rotations_.begin(batch);
  recurrent_.begin(batch);
}

void Cpu::embed() {
  team_.run(rows_, [&](uint64_t i, uint32_t thread) {
    float* x = x_.row(i);
    decode_row(model_.embedding, weights_.embedding, batch_->tokens[i], x, thread);
    for (uint32_t c = 0; c < model_.width; ++c) x[c] *= model_.embedding_scale;
    const std::span<const float> type = model::type_embedding(model_, batch_->types.empty() ? 0 : batch_->types[i]);
    for (size_t c = 0; c < type.size(); ++c) x[c] += type[c];
    if (model_.positions) {
      std::vector<float> position(model_.width);
      decode_row(model_.positions, nullptr, batch_->positions[i], position.data(), thread);
      for (uint32_t c = 0; c < model_.width; ++c) x[c] += position[c];
    }
    normalise(model_.embedding_norm, x, model_.width, x);
  });
  if (model_.token_inputs) find_token_inputs(*model_.token_inputs);
}

void Cpu::compute(uint32_t layer, uint32_t sublayer) {
  std::visit([&](const auto& weights) { compute(weights); }, weights_.layers[layer][sublayer]);
}

void Cpu::add(uint32_t layer, uint32_t sublayer) {
  const model::Layer& of = model_.layers[layer];
  std::visit([&](const auto& weights) { add(weights, of.residual_scale); }, weights_.layers[layer][sublayer]);
  if (sublayer + 1 < of.sublayers.size() || of.output_scale == 1) return;
  team_.run(rows_, [&](uint64_t i, uint32_t) {
    for (uint32_t c = 0; c < model_.width; ++c) x_.row(i)[c] *= of.output_scale;
  });
}

void Cpu::keep_states() {
  states_.resize(batch_->states.size() * model_.width);
  team_.run(batch_->states.size(),
            [&](uint64_t i, uint32_t) { put_result(batch_->states[i], states_.data() + i * model_.width); });
}

void Cpu::head() {
  const uint32_t count = uint32_t(batch_->outputs.size());
  check(weights_.output || count == 0, "a model with logits, where logits are asked for");
  if (batch_->predicts) normalise_rows(model::next_head(model_)->norm, results_);
  team_.run(count, [&](uint64_t i, uint32_t) {
    put_result(batch_->outputs[i], normed_.row(i));
    normed_.finish(i, isa_);
  });
  logits_.resize(uint64_t(count) * model_.vocabulary);
  const bool is_part = !model_.output_parts.empty();
  const uint64_t stride = is_part ? model_.output.rows : model_.vocabulary;
  std::vector<float>& logits = is_part ? own_logits_ : logits_;
  logits.resize(count * stride);
  const Product product[] = {{weights_.output, nullptr, normed_.view(count)}};
  products_.run(product, [&](const Piece& piece) {
    store(piece, at(model_.output_bias, 0), [&](uint32_t row) { return logits.data() + row * stride; });
    if (model_.logit_scale == 1 && model_.logit_softcap == 0) return;
    for (uint32_t i = 0; i < piece.count; ++i)
      for (uint64_t r = 0; r < piece.rows; ++r) {
        float& value = logits[(piece.row + i) * stride + piece.first + r];
        value *= model_.logit_scale;
        if (model_.logit_softcap != 0) value = model_.logit_softcap * std::tanh(value / model_.logit_softcap);
      }
  });
  if (is_part && count != 0) ranks_.gather_rows(logits, count, model_.output_parts, logits_);
  computed_ = true;
  node_.reset();
}

model::Result Cpu::result() {
  check(std::exchange(computed_, false), "result() needs a batch that was computed");
  return {.picked = {}, .logits = logits_, .states = states_};
}

void Cpu::set_residual(std::span<const float> rows) {
  check(rows.size() == uint64_t(rows_) * model_.width, "a residual stream of all rows");
  std::copy(rows.begin(), rows.end(), x_.row(0));
}

void Cpu::copy_block(uint32_t from, uint32_t to) {
  for (size_t i = 0; i < caches_.size(); ++i)
    if (!of_windows_[i]) caches_[i].copy(from, to);
}

void Cpu::copy_window_block(uint32_t from, uint32_t to) {
  for (size_t i = 0; i < caches_.size(); ++i)
    if (of_windows_[i]) caches_[i].copy(from, to);
}

uint64_t Cpu::kv_part_bytes(model::KvPart part) const {
  if (part == model::KvPart::state) return recurrent_.slot_bytes();
  uint64_t bytes = 0;
  each_cache(part, [&](const KvCache& cache) { bytes += cache.block_bytes(); });
  return bytes;
}

void Cpu::read_kv(std::span<const model::KvRead> reads) {
  for (const model::KvRead& read : reads) {
    const model::KvPlace from = read.from;
    model::check_kv_span(*this, limits_, from, read.to.size());
    if (from.part == model::KvPart::state) {
      std::ranges::copy(recurrent_.slot(from.index), read.to.begin());
      continue;
    }
    uint8_t* at = read.to.data();
    each_cache(from.part, [&](const KvCache& cache) {
      cache.read(from.index, at);
      at += cache.block_bytes();
    });
  }
}

void Cpu::write_kv(model::KvPlace place, std::span<const uint8_t> bytes) {
  model::check_kv_span(*this, limits_, place, bytes.size());
  if (place.part == model::KvPart::state) {
    std::ranges::copy(bytes, recurrent_.slot(place.index).begin());
    return;
  }
  const uint8_t* at = bytes.data();
  each_cache(place.part, [&](KvCache& cache) {
    cache.write(place.index, at);
    at += cache.block_bytes();
  });
}

void Cpu::make_caches() {
  const std::vector<uint32_t> numbers = model::kv_cache_numbers(model_);
  const std::vector<bool> of_windows = model::kv_caches_of_windows(model_);
  caches_.reserve(numbers.size());
  model::each_attention(model_, [&](const model::Attention& a) {
    const uint32_t number = numbers[caches_.size()];
    const auto first = std::find(numbers.begin(), numbers.end(), number) - numbers.begin();
    of_windows_.push_back(limits_.window_blocks && of_windows[number]);
    caches_.emplace_back(a, limits_, model::blocks_of_cache(limits_, of_windows[number]),
                         size_t(first) < caches_.size() ? &caches_[size_t(first)] : nullptr);
    if (size_t(first) + 1 == caches_.size()) caches_.back().interleave(team_.nodes());
  });
}

void Cpu::make_rows() {
  const RowSizes sizes(model_);
  std::vector<const Weights*> of_normed{weights_.output, weights_.token_inputs}, of_apart, of_low, of_heads,
      of_attended, of_inner, of_shared, of_latent, of_recurred, of_laurel, of_others, of_joined;
  const auto append = [](std::vector<const Weights*>& to, const std::vector<const Weights*>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  const Overloaded look{
      [&](const AttentionWeights& w) {
        append(of_normed, {w.q_down, w.kv_down, w.k, w.v, w.gate, w.laurel_down});
        of_laurel.push_back(w.laurel_up);
        (w.q_down ? of_low : of_normed).push_back(w.q);
        append(of_heads, w.k_up);
        append(of_heads, w.v_up);
        of_attended.push_back(w.output);
      },
      [&](const FeedForwardWeights& w) {
        append(of_normed, {w.gate, w.up});
        of_inner.push_back(w.down);
      },
      [&](const MixtureWeights& w) {
        append(of_normed, {w.router, w.latent_down});
        std::vector<const Weights*>& of_experts = w.latent_down ? of_latent : of_normed;
        append(of_experts, w.gate);
        append(of_experts, w.up);
        of_latent.push_back(w.latent_up);
        append(of_inner, w.down);
        if (!w.shared) return;
        append(has_own_input(*w.shared->model) ? of_apart : of_normed, {w.shared->gate, w.shared->up});
        of_shared.push_back(w.shared->down);
      },
      [&](const RecurrenceWeights& w) {
        append(of_normed, {w.mixed, w.gate, w.steps, w.betas});
        of_recurred.push_back(w.output);
      },
      [&](const ShortConvolutionWeights& w) {
        of_normed.push_back(w.in);
        of_recurred.push_back(w.output);
      },
      [&](const AltupWeights& w) {
        append(w.model->step == model::Altup::Step::begin ? of_normed : of_others, w.projections);
      },
      [&](const NextHeadWeights& w) { of_joined.push_back(w.join); }};
  for (const std::vector<SublayerWeights>& layer : weights_.layers)
    for (const SublayerWeights& weights : layer) std::visit(look, weights);
  const auto forms_for = [](const std::vector<const Weights*>& meet) {
    RowForms forms;
    for (const Weights* weights : meet)
      if (weights) forms.add(weights->kind);
    return forms;
  };
  const auto rows_for = [&](uint64_t rows, uint64_t cols, const std::vector<const Weights*>& meet) {
    return Rows(uint32_t(rows), uint32_t(cols), forms_for(meet));
  };
  const auto plain_rows = [&](uint64_t rows, uint64_t cols) { return rows_for(rows, cols, {}); };
  x_ = plain_rows(limits_.rows, model_.width);
  normed_ = rows_for(limits_.rows, model_.width, of_normed);
  q_ = plain_rows(limits_.rows, sizes.q);
  k_ = plain_rows(limits_.rows, sizes.k);
  v_ = plain_rows(limits_.rows, sizes.v);
  low_ = rows_for(limits_.rows, sizes.low, of_low);
  by_head_ = rows_for(limits_.rows * sizes.heads, sizes.by_head, of_heads);
  attended_ = rows_for(limits_.rows, sizes.attended, of_attended);
  inner_ = rows_for(limits_.rows * sizes.used, sizes.inner, of_inner);
  if (sizes.shared) shared_inner_ = rows_for(limits_.rows, sizes.shared, of_shared);
  if (sizes.shared) shared_out_ = plain_rows(limits_.rows, model_.width);
  if (!of_apart.empty()) apart_ = rows_for(limits_.rows, model_.width, of_apart);
  laurel_ = rows_for(sizes.laurel ? limits_.rows : 0, sizes.laurel, of_laurel);
  streams_ = Streams(limits_.rows, model_.width, sizes.others, forms_for(of_others));
  ups_ = plain_rows(sizes.cut ? limits_.rows : 0, sizes.cut);
  token_inputs_ = plain_rows(sizes.token_inputs ? limits_.rows : 0, sizes.token_inputs);
  out_ = plain_rows(limits_.rows * sizes.used, std::max<uint64_t>(model_.width, sizes.latent));
  partial_ = plain_rows(sizes.partial ? limits_.rows : 0, model_.width);
  latent_ = rows_for(limits_.rows, sizes.latent, of_latent);
  if (sizes.latent) latent_out_ = plain_rows(limits_.rows, model_.width);
  gate_ = plain_rows(limits_.rows, sizes.gate);
  mixed_ = plain_rows(limits_.rows, sizes.mixed);
  steps_ = plain_rows(limits_.rows, sizes.steps);
  recurred_ = rows_for(limits_.rows, sizes.recurred, of_recurred);
  const uint32_t head_rows = sizes.joined ? limits_.rows : 0;
  results_ = plain_rows(head_rows, model_.width);
  before_ = plain_rows(head_rows, model_.width);
  joined_ = rows_for(head_rows, sizes.joined, of_joined);
  slabs_.resize(team_.threads());
}

void Cpu::decode_row(const model::Matrix& matrix, const Weights* packed, uint64_t row, float* out, uint32_t thread) {
  if (!packed) return quant::decode(matrix.format, matrix.data.data() + row * matrix.row_bytes(), matrix.cols, out);
  std::vector<uint8_t>& slab = slabs_[thread];
  slab.resize(slab_bytes(*packed, isa_, 1));
  decode_tile_row(*packed, isa_, row, out, slab.data());
}

void Cpu::put_result(uint32_t row, float* to) {
  if (model::next_head(model_))
    std::copy_n(results_.row(row), model_.width, to);
  else
    normalise(model_.norm, x_.row(row), model_.width, to);
}

void Cpu::normalise_rows(const Norm& norm, Rows& to) {
  team_.run(rows_, [&](uint64_t i, uint32_t) {
    normalise(norm, x_.row(i), model_.width, to.row(i));
    to.finish(i, isa_);
  });
}

void Cpu::finish_rows(Rows& rows, uint32_t count) {
  team_.run(count, [&](uint64_t i, uint32_t) { rows.finish(i, isa_); });
}

void Cpu::add_product(std::span<const Product> product, const model::Vector& bias, const Norm& norm,
                      const Norm& residual_norm, bool partial, float scale) {
  if (norm.kind == Norm::Kind::none && residual_norm.kind == Norm::Kind::none && !partial) {
    products_.run(product, [&](const Piece& piece) {
      const float* of_piece = at(bias, piece.first);
      for (uint32_t i = 0; i < piece.count; ++i) {
        float* x = x_.row(piece.row + i) + piece.first;
        const float* values = piece.values + uint64_t(i) * piece.stride;
        for (uint32_t r = 0; r < piece.rows; ++r) x[r] += scale * (values[r] + (of_piece ? of_piece[r] : 0));
      }
    });
    return;
  }
  Rows& sums = partial ? partial_ : out_;
  products_.run(product,
                [&](const Piece& piece) { store(piece, at(bias, 0), [&](uint32_t row) { return sums.row(row); }); });
  if (partial) sum_across_ranks(sums);
  team_.run(rows_, [&](uint64_t i, uint32_t) {
    float *x = x_.row(i), *out = sums.row(i);
    normalise(norm, out, model_.width, out);
    for (uint32_t c = 0; c < model_.width; ++c) x[c] += scale * out[c];
    normalise(residual_norm, x, model_.width, x);
  });
}

std::unique_ptr<model::Backend> make_cpu(const model::Model& model, const model::Limits& limits,
                                         const Options& options) {
  return std::make_unique<Cpu>(model, limits, options);
}

}  // namespace heddle::cpu
