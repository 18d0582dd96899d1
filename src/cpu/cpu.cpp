// The fast backend: each verb is a few phases of the team.
#include "cpu/cpu.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "cpu/attention.h"
#include "cpu/layers.h"
#include "cpu/products.h"
#include "cpu/weights.h"
#include "model/features.h"

namespace heddle::cpu {
namespace {

using model::Norm;
using model::Overloaded;

class Cpu : public model::Backend {
 public:
  Cpu(const model::Model& model, const model::Limits& limits, const Options& options)
      : model_(model),
        limits_(limits),
        isa_(choose_isa(options.isa)),
        exact_(options.exact),
        team_(options.threads),
        weights_(model, isa_, options.exact, team_, options.progress),
        products_(isa_, team_, weights_.all(), limits.rows),
        attend_(isa_, team_, limits),
        rotations_(model) {
    model::each_attention(model, [&](const model::Attention& a) { caches_.emplace_back(a, limits); });
    make_rows();
  }

  std::string describe() const override {
    return fmt::format("CPU ({}, {} threads, {} activations, {}{} MiB of weights repacked)", isa_.name, team_.threads(),
                       exact_ ? "f32" : "int8", limits_.kv == model::KvFormat::q8 ? "q8 KV, " : "",
                       weights_.packed_bytes() >> 20);
  }

  void begin(const model::Batch& batch) override {
    check(!batch.follows && batch.picking.empty(),
          "begin() needs a batch that follows no other and picks no tokens on the device");
    rows_ = uint32_t(batch.tokens.size());
    check(rows_ <= limits_.rows && batch.positions.size() == rows_ && batch.sequences.size() == rows_,
          "a batch that fits");
    for (const uint32_t token : batch.tokens) check(token < model_.vocabulary, "tokens of the vocabulary");
    for (uint32_t i = 0; i < rows_; ++i)
      check(batch.positions[i] / limits_.block_tokens < batch.blocks.at(batch.sequences[i]).size(),
            "a block for every position");
    for (const std::vector<uint32_t>& blocks : batch.blocks)
      for (const uint32_t block : blocks) check(block < limits_.kv_blocks, "blocks of the cache");
    for (const auto* wanted : {&batch.outputs, &batch.states})
      for (const uint32_t row : *wanted) check(row < rows_, "outputs and states of rows of the batch");
    batch_ = &batch;
    computed_ = false;
    states_.clear();
    rotations_.begin(batch);
  }

  void embed() override {
    team_.run(rows_, [&](uint64_t i, uint32_t thread) {
      float* x = x_.row(i);
      decode_row(model_.embedding, weights_.embedding, batch_->tokens[i], x, thread);
      for (uint32_t c = 0; c < model_.width; ++c) x[c] *= model_.embedding_scale;
      if (!model_.positions) return;
      std::vector<float> position(model_.width);
      decode_row(model_.positions, nullptr, batch_->positions[i], position.data(), thread);
      for (uint32_t c = 0; c < model_.width; ++c) x[c] += position[c];
    });
  }

  void compute(uint32_t layer, uint32_t sublayer) override {
    std::visit([&](const auto& weights) { compute(weights); }, weights_.layers[layer][sublayer]);
  }
  void add(uint32_t layer, uint32_t sublayer) override {
    const float scale = model_.layers[layer].residual_scale;
    std::visit([&](const auto& weights) { add(weights, scale); }, weights_.layers[layer][sublayer]);
  }

  void keep_states() override {
    states_.resize(batch_->states.size() * model_.width);
    team_.run(batch_->states.size(), [&](uint64_t i, uint32_t) {
      normalise(model_.norm, x_.row(batch_->states[i]), model_.width, states_.data() + i * model_.width);
    });
  }

  void head() override {
    const uint32_t count = uint32_t(batch_->outputs.size());
    team_.run(count, [&](uint64_t i, uint32_t) {
      normalise(model_.norm, x_.row(batch_->outputs[i]), model_.width, normed_.row(i));
      normed_.finish(i, isa_);
    });
    logits_.resize(uint64_t(count) * model_.vocabulary);
    const Product product[] = {{weights_.output, nullptr, normed_.view(count)}};
    products_.run(product, [&](const Piece& piece) {
      store(piece, model_.output_bias,
            [&](uint32_t row) { return logits_.data() + uint64_t(row) * model_.vocabulary; });
      if (model_.logit_scale == 1 && model_.logit_softcap == 0) return;
      for (uint32_t i = 0; i < piece.count; ++i)
        for (uint64_t r = 0; r < piece.rows; ++r) {
          float& value = logits_[uint64_t(i) * model_.vocabulary + piece.first + r];
          value *= model_.logit_scale;
          if (model_.logit_softcap != 0) value = model_.logit_softcap * std::tanh(value / model_.logit_softcap);
        }
    });
    computed_ = true;
  }
  model::Result result() override {
    check(std::exchange(computed_, false), "result() needs a batch that was computed");
    return {.picked = {}, .logits = logits_, .states = states_};
  }

  std::span<const float> residual() override { return {x_.row(0), uint64_t(rows_) * model_.width}; }
  void set_residual(std::span<const float> rows) override {
    check(rows.size() == uint64_t(rows_) * model_.width, "a residual stream of all rows");
    std::copy(rows.begin(), rows.end(), x_.row(0));
  }

  void copy_block(uint32_t from, uint32_t to) override {
    for (KvCache& cache : caches_) cache.copy(from, to);
  }

 private:
  // Rows for the largest sublayer of each kind, quantised as their weights need them.
  void make_rows() {
    uint32_t attended = 0, inner = 0, q = 0, k = 0, v = 0, shared = 0, used = 1;
    std::vector<const Weights*> of_normed{weights_.output}, of_attended, of_inner, of_shared;
    const auto append = [](std::vector<const Weights*>& to, const std::vector<const Weights*>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    const Overloaded measure{[&](const AttentionWeights& w) {
                               const model::Attention& a = *w.model;
                               q = std::max(q, a.heads * a.head);
                               k = std::max(k, a.kv_heads * a.head);
                               v = std::max(v, a.kv_heads * a.value_head);
                               attended = std::max(attended, uint32_t(a.output.cols));
                               append(of_normed, {w.q, w.k, w.v});
                               of_attended.push_back(w.output);
                             },
                             [&](const FeedForwardWeights& w) {
                               inner = std::max(inner, uint32_t(w.down->cols));
                               append(of_normed, {w.gate, w.up});
                               of_inner.push_back(w.down);
                             },
                             [&](const MixtureWeights& w) {
                               used = std::max(used, w.model->routing.used);
                               inner = std::max(inner, uint32_t(w.model->down.all.cols));
                               of_normed.push_back(w.router);
                               append(of_normed, w.gate);
                               append(of_normed, w.up);
                               append(of_inner, w.down);
                               if (!w.shared) return;
                               shared = std::max(shared, uint32_t(w.shared->down->cols));
                               append(of_normed, {w.shared->gate, w.shared->up});
                               of_shared.push_back(w.shared->down);
                             }};
    for (const std::vector<SublayerWeights>& layer : weights_.layers)
      for (const SublayerWeights& weights : layer) std::visit(measure, weights);
    const auto rows_for = [&](uint32_t rows, uint32_t cols, const std::vector<const Weights*>& meet) {
      const auto meets = [&](XKind kind) {
        return std::any_of(meet.begin(), meet.end(), [&](const Weights* w) { return w && w->kind == kind; });
      };
      return Rows(rows, cols, meets(XKind::by_32), meets(XKind::by_256));
    };
    x_ = Rows(limits_.rows, model_.width, false, false);
    normed_ = rows_for(limits_.rows, model_.width, of_normed);
    q_ = Rows(limits_.rows, q, false, false);
    k_ = Rows(limits_.rows, k, false, false);
    v_ = Rows(limits_.rows, v, false, false);
    attended_ = rows_for(limits_.rows, attended, of_attended);
    inner_ = rows_for(limits_.rows * used, inner, of_inner);
    if (shared) shared_inner_ = rows_for(limits_.rows, shared, of_shared);
    if (shared) shared_out_ = Rows(limits_.rows, model_.width, false, false);
    out_ = Rows(limits_.rows * used, model_.width, false, false);
    slabs_.resize(team_.threads());
  }

  // A row of an embedding: from the file, or from its tile where it was packed.
  void decode_row(const model::Matrix& matrix, const Weights* packed, uint64_t row, float* out, uint32_t thread) {
    if (!packed) return quant::decode(matrix.format, matrix.data.data() + row * matrix.row_bytes(), matrix.cols, out);
    std::vector<uint8_t>& slab = slabs_[thread];
    slab.resize(slab_bytes(*packed, isa_, 1));
    decode_tile_row(*packed, isa_, row, out, slab.data());
  }

  void normalise_rows(const Norm& norm) {
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      normalise(norm, x_.row(i), model_.width, normed_.row(i));
      normed_.finish(i, isa_);
    });
  }
  void finish_rows(Rows& rows, uint32_t count) {
    team_.run(count, [&](uint64_t i, uint32_t) { rows.finish(i, isa_); });
  }

  static float bias_at(const model::Vector& bias, uint64_t index) { return bias.empty() ? 0 : bias[index]; }
  // Writes a piece of a product to the rows that `to` returns.
  template <class To>
  static void store(const Piece& piece, const model::Vector& bias, To&& to) {
    for (uint32_t i = 0; i < piece.count; ++i) {
      float* out = to(i) + piece.first;
      const float* values = piece.values + uint64_t(i) * piece.stride;
      for (uint32_t r = 0; r < piece.rows; ++r) out[r] = values[r] + bias_at(bias, piece.first + r);
    }
  }

  // The residual += scale * norm(product + bias).
  void add_product(std::span<const Product> product, const model::Vector& bias, const Norm& norm, float scale) {
    if (norm.kind == Norm::Kind::none) {
      products_.run(product, [&](const Piece& piece) {
        for (uint32_t i = 0; i < piece.count; ++i) {
          float* x = x_.row(i) + piece.first;
          const float* values = piece.values + uint64_t(i) * piece.stride;
          for (uint32_t r = 0; r < piece.rows; ++r) x[r] += scale * (values[r] + bias_at(bias, piece.first + r));
        }
      });
      return;
    }
    products_.run(product,
                  [&](const Piece& piece) { store(piece, bias, [&](uint32_t row) { return out_.row(row); }); });
    team_.run(rows_, [&](uint64_t i, uint32_t) { add_normed(norm, scale, i); });
  }
  // The residual of row i += scale * norm(out_ of row i).
  void add_normed(const Norm& norm, float scale, uint64_t i) {
    float *x = x_.row(i), *out = out_.row(i);
    normalise(norm, out, model_.width, out);
    for (uint32_t c = 0; c < model_.width; ++c) x[c] += scale * out[c];
  }

  static Product gated(const Weights* gate, const Weights* up, const RowsView& x) {
    return gate ? Product{gate, up, x} : Product{up, nullptr, x};
  }
  // activation(gate) * up, or activation(up) where there is no gate, to the rows that `to` returns.
  template <class To>
  void activate(model::Activation activation, const Piece& piece, const model::Vector& gate_bias,
                const model::Vector& up_bias, To&& to) const {
    const model::Vector& bias = piece.second ? gate_bias : up_bias;
    for (uint32_t i = 0; i < piece.count; ++i) {
      float* gate = const_cast<float*>(piece.values) + uint64_t(i) * piece.stride;
      float* up = piece.second ? const_cast<float*>(piece.second) + uint64_t(i) * piece.stride : nullptr;
      if (!bias.empty())
        for (uint32_t r = 0; r < piece.rows; ++r) gate[r] += bias[piece.first + r];
      if (up && !up_bias.empty())
        for (uint32_t r = 0; r < piece.rows; ++r) up[r] += up_bias[piece.first + r];
      isa_.activate(uint8_t(activation), gate, up, piece.rows, to(i) + piece.first);
    }
  }

  void compute(const AttentionWeights& w) {
    const model::Attention& a = *w.model;
    normalise_rows(a.norm);
    const RowsView x = normed_.view(rows_);
    const Product three[] = {{w.q, nullptr, x}, {w.k, nullptr, x}, {w.v, nullptr, x}};
    const model::Vector* biases[] = {&a.q_bias, &a.k_bias, &a.v_bias};
    Rows* to[] = {&q_, &k_, &v_};
    products_.run(three, [&](const Piece& piece) {
      store(piece, *biases[piece.product], [&](uint32_t row) { return to[piece.product]->row(row); });
    });
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      const uint32_t row = uint32_t(i);
      normalise_heads(a.q_norm, q_.row(row), uint64_t(a.heads) * a.head, a.head);
      normalise_heads(a.k_norm, k_.row(row), uint64_t(a.kv_heads) * a.head, a.head);
      rotations_.rotate(w.index, row, q_.row(row), a.heads, a.head);
      rotations_.rotate(w.index, row, k_.row(row), a.kv_heads, a.head);
      const uint32_t position = batch_->positions[row];
      caches_[w.index].put(isa_, batch_->blocks[batch_->sequences[row]][position / limits_.block_tokens],
                           position % limits_.block_tokens, k_.row(row), v_.row(row));
    });
    attend_.run(*batch_, a, caches_[w.index], q_, attended_);
    finish_rows(attended_, rows_);
  }
  void add(const AttentionWeights& w, float scale) {
    const Product product[] = {{w.output, nullptr, attended_.view(rows_)}};
    add_product(product, w.model->output_bias, w.model->output_norm, scale);
  }

  void compute(const FeedForwardWeights& w) {
    const model::FeedForward& f = *w.model;
    normalise_rows(f.norm);
    const Product product[] = {gated(w.gate, w.up, normed_.view(rows_))};
    products_.run(product, [&](const Piece& piece) {
      activate(f.activation, piece, f.gate_bias, f.up_bias, [&](uint32_t row) { return inner_.row(row); });
    });
    finish_rows(inner_, rows_);
  }
  void add(const FeedForwardWeights& w, float scale) {
    const Product product[] = {{w.down, nullptr, inner_.view(rows_)}};
    add_product(product, w.model->down_bias, w.model->output_norm, scale);
  }

  // The rows of each expert are gathered, so that its weights are read once. The shared expert's product comes last.
  void compute(const MixtureWeights& w) {
    const model::Mixture& m = *w.model;
    normalise_rows(m.norm);
    scores_.resize(uint64_t(rows_) * m.router.rows);
    const Product router[] = {{w.router, nullptr, normed_.view(rows_)}};
    products_.run(router, [&](const Piece& piece) {
      store(piece, {}, [&](uint32_t row) { return scores_.data() + uint64_t(row) * m.router.rows; });
    });
    choice_.pick(m, scores_, normed_, rows_);

    const size_t experts = w.up.size();
    expert_rows_.resize(experts);
    expert_products_.clear();
    for (uint32_t e = 0; e < experts; ++e) {
      expert_rows_[e].clear();
      for (const uint32_t slot : choice_.slots_of[e]) expert_rows_[e].add(normed_, slot / choice_.used);
      expert_products_.push_back(gated(w.gate[e], w.up[e], expert_rows_[e].view()));
    }
    if (w.shared) expert_products_.push_back(gated(w.shared->gate, w.shared->up, normed_.view(rows_)));
    products_.run(expert_products_, [&](const Piece& piece) {
      if (piece.product < experts)
        activate(m.activation, piece, {}, {},
                 [&](uint32_t i) { return inner_.row(choice_.slots_of[piece.product][i]); });
      else
        activate(m.shared->activation, piece, m.shared->gate_bias, m.shared->up_bias,
                 [&](uint32_t row) { return shared_inner_.row(row); });
    });
    finish_rows(inner_, rows_ * choice_.used);
    if (w.shared) finish_rows(shared_inner_, rows_);
  }
  void add(const MixtureWeights& w, float scale) {
    const model::Mixture& m = *w.model;
    const size_t experts = w.down.size();
    expert_products_.clear();
    for (uint32_t e = 0; e < experts; ++e) {
      expert_rows_[e].clear();
      for (const uint32_t slot : choice_.slots_of[e]) expert_rows_[e].add(inner_, slot);
      expert_products_.push_back({w.down[e], nullptr, expert_rows_[e].view()});
    }
    if (w.shared) expert_products_.push_back({w.shared->down, nullptr, shared_inner_.view(rows_)});
    products_.run(expert_products_, [&](const Piece& piece) {
      if (piece.product < experts)
        store(piece, {}, [&](uint32_t i) { return out_.row(choice_.slots_of[piece.product][i]); });
      else
        store(piece, m.shared->down_bias, [&](uint32_t row) { return shared_out_.row(row); });
    });
    // Few rows are cut into columns; a norm needs whole rows.
    const bool whole = m.output_norm.kind != Norm::Kind::none || rows_ >= team_.threads();
    const uint32_t columns = whole ? model_.width : std::min(model_.width, 256u);
    const uint32_t parts = (model_.width + columns - 1) / columns;
    team_.run(uint64_t(rows_) * parts, [&](uint64_t item, uint32_t) {
      const uint64_t i = item / parts;
      const uint32_t first = uint32_t(item % parts) * columns, count = std::min(columns, model_.width - first);
      std::vector<float> sum(count);  // best expert first
      for (uint32_t j = 0; j < choice_.used; ++j) {
        const uint64_t slot = i * choice_.used + j;
        const float weight = choice_.weights[slot], *out = out_.row(slot) + first;
        for (uint32_t c = 0; c < count; ++c) sum[c] += weight * out[c];
      }
      if (w.shared) {
        const float weight = choice_.shared[i], *out = shared_out_.row(i) + first;
        for (uint32_t c = 0; c < count; ++c) sum[c] += weight * out[c];
      }
      normalise(m.output_norm, sum.data(), count, sum.data());
      float* x = x_.row(i) + first;
      for (uint32_t c = 0; c < count; ++c) x[c] += scale * sum[c];
    });
  }

  const model::Model& model_;
  model::Limits limits_;
  const Isa& isa_;
  bool exact_;
  Team team_;
  ModelWeights weights_;
  Products products_;
  Attend attend_;
  Rotations rotations_;
  std::vector<KvCache> caches_;          // of each attention
  const model::Batch* batch_ = nullptr;  // of the step under way
  uint32_t rows_ = 0;
  bool computed_ = false;      // a result waits for result()
  Rows x_, normed_;            // (rows, width): the residual, and what the next products read
  Rows q_, k_, v_, attended_;  // (rows, heads * head) and so on
  Rows inner_, out_;           // (rows, inner) and (rows, width); a row for each slot of a mixture
  Rows shared_inner_, shared_out_;
  ExpertChoice choice_;
  std::vector<float> scores_, logits_, states_;
  std::vector<GatheredRows> expert_rows_;  // of each expert
  std::vector<Product> expert_products_;
  std::vector<std::vector<uint8_t>> slabs_;  // of each thread
};

}  // namespace

std::unique_ptr<model::Backend> make_cpu(const model::Model& model, const model::Limits& limits,
                                         const Options& options) {
  expect_kv_format(model, limits);
  model::expect_features(model, "the fast CPU backend", [](model::Feature) { return false; });
  return std::make_unique<Cpu>(model, limits, options);
}

}  // namespace heddle::cpu
