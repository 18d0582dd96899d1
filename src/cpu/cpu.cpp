// The fast backend: each verb is a few phases of the team.
#include "cpu/cpu.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "cpu/attention.h"
#include "cpu/layers.h"
#include "cpu/products.h"
#include "cpu/states.h"
#include "cpu/streams.h"
#include "cpu/weights.h"

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
        rotations_(model),
        recurrent_(isa_, team_, model, limits) {
    make_caches();
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
    computed_ = false;
    states_.clear();
    rotations_.begin(batch);
    recurrent_.begin(batch);
  }

  void embed() override {
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

  void compute(uint32_t layer, uint32_t sublayer) override {
    std::visit([&](const auto& weights) { compute(weights); }, weights_.layers[layer][sublayer]);
  }
  void add(uint32_t layer, uint32_t sublayer) override {
    const model::Layer& of = model_.layers[layer];
    std::visit([&](const auto& weights) { add(weights, of.residual_scale); }, weights_.layers[layer][sublayer]);
    if (sublayer + 1 < of.sublayers.size() || of.output_scale == 1) return;
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      for (uint32_t c = 0; c < model_.width; ++c) x_.row(i)[c] *= of.output_scale;
    });
  }

  void keep_states() override {
    states_.resize(batch_->states.size() * model_.width);
    team_.run(batch_->states.size(),
              [&](uint64_t i, uint32_t) { put_result(batch_->states[i], states_.data() + i * model_.width); });
  }

  void head() override {
    const uint32_t count = uint32_t(batch_->outputs.size());
    check(weights_.output || count == 0, "a model with logits, where logits are asked for");
    if (batch_->predicts) normalise_rows(model::next_head(model_)->norm, results_);
    team_.run(count, [&](uint64_t i, uint32_t) {
      put_result(batch_->outputs[i], normed_.row(i));
      normed_.finish(i, isa_);
    });
    logits_.resize(uint64_t(count) * model_.vocabulary);
    const Product product[] = {{weights_.output, nullptr, normed_.view(count)}};
    products_.run(product, [&](const Piece& piece) {
      store(piece, at(model_.output_bias, 0),
            [&](uint32_t row) { return logits_.data() + uint64_t(row) * model_.vocabulary; });
      if (model_.logit_scale == 1 && model_.logit_softcap == 0) return;
      for (uint32_t i = 0; i < piece.count; ++i)
        for (uint64_t r = 0; r < piece.rows; ++r) {
          float& value = logits_[uint64_t(piece.row + i) * model_.vocabulary + piece.first + r];
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
    for (size_t i = 0; i < caches_.size(); ++i)
      if (!of_windows_[i]) caches_[i].copy(from, to);
  }
  void copy_window_block(uint32_t from, uint32_t to) override {
    for (size_t i = 0; i < caches_.size(); ++i)
      if (of_windows_[i]) caches_[i].copy(from, to);
  }
  void copy_state(uint32_t from, uint32_t to) override { recurrent_.copy(from, to); }

 private:
  void make_caches() {
    const std::vector<uint32_t> numbers = model::kv_cache_numbers(model_);
    const std::vector<bool> of_windows = model::kv_caches_of_windows(model_);
    caches_.reserve(numbers.size());
    model::each_attention(model_, [&](const model::Attention& a) {
      const uint32_t number = numbers[caches_.size()];
      const auto first = std::find(numbers.begin(), numbers.end(), number) - numbers.begin();
      of_windows_.push_back(limits_.window_blocks && of_windows[number]);
      caches_.emplace_back(a, limits_, model::blocks_of_cache(limits_, of_windows[number]),
                           size_t(first) < caches_.size() ? &caches_[size_t(first)] : nullptr);
    });
  }
  // Rows for the largest sublayer of each kind, in the forms that their weights need.
  void make_rows() {
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

  // A row of an embedding: from the file, or from its tile where it was packed.
  void decode_row(const model::Matrix& matrix, const Weights* packed, uint64_t row, float* out, uint32_t thread) {
    if (!packed) return quant::decode(matrix.format, matrix.data.data() + row * matrix.row_bytes(), matrix.cols, out);
    std::vector<uint8_t>& slab = slabs_[thread];
    slab.resize(slab_bytes(*packed, isa_, 1));
    decode_tile_row(*packed, isa_, row, out, slab.data());
  }

  // What the final norm makes of a row.
  void put_result(uint32_t row, float* to) {
    if (model::next_head(model_))
      std::copy_n(results_.row(row), model_.width, to);
    else
      normalise(model_.norm, x_.row(row), model_.width, to);
  }

  void normalise_rows(const Norm& norm) { normalise_rows(norm, normed_); }
  void normalise_rows(const Norm& norm, Rows& to) {
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      normalise(norm, x_.row(i), model_.width, to.row(i));
      to.finish(i, isa_);
    });
  }
  // Whether a shared expert reads what a norm of its own leaves.
  static bool has_own_input(const model::FeedForward& shared) { return shared.norm.kind != Norm::Kind::none; }
  void find_token_inputs(const model::TokenInputs& t) {
    normalise_rows({});
    const Product product[] = {{weights_.token_inputs, nullptr, normed_.view(rows_)}};
    products_.run(product, [&](const Piece& piece) {
      store(piece, nullptr, [&](uint32_t row) { return token_inputs_.row(row); });
    });
    team_.run(rows_, [&](uint64_t i, uint32_t thread) {
      float* inputs = token_inputs_.row(i);
      normalise_heads(t.norm, inputs, t.count(), t.size, false);
      std::vector<float> embedding(t.count());
      decode_row(t.embedding, nullptr, batch_->tokens[i], embedding.data(), thread);
      for (uint32_t c = 0; c < t.count(); ++c) inputs[c] = (inputs[c] + embedding[c] * t.embedding_scale) * t.scale;
    });
  }
  void finish_rows(Rows& rows, uint32_t count) {
    team_.run(count, [&](uint64_t i, uint32_t) { rows.finish(i, isa_); });
  }

  // A part of a bias; null where there is none.
  static const float* at(const model::Vector& bias, uint64_t first) {
    return bias.empty() ? nullptr : bias.data() + first;
  }
  // Writes a piece of a product to the rows that `to` returns.
  template <class To>
  static void store(const Piece& piece, const float* bias, To&& to) {
    for (uint32_t i = 0; i < piece.count; ++i) {
      float* out = to(piece.row + i) + piece.first;
      const float* values = piece.values + uint64_t(i) * piece.stride;
      for (uint32_t r = 0; r < piece.rows; ++r) out[r] = values[r] + (bias ? bias[piece.first + r] : 0);
    }
  }

  // The residual += scale * norm(product + bias), then the norm of the residual.
  void add_product(std::span<const Product> product, const model::Vector& bias, const Norm& norm,
                   const Norm& residual_norm, float scale) {
    if (norm.kind == Norm::Kind::none && residual_norm.kind == Norm::Kind::none) {
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
    products_.run(product,
                  [&](const Piece& piece) { store(piece, at(bias, 0), [&](uint32_t row) { return out_.row(row); }); });
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      float *x = x_.row(i), *out = out_.row(i);
      normalise(norm, out, model_.width, out);
      for (uint32_t c = 0; c < model_.width; ++c) x[c] += scale * out[c];
      normalise(residual_norm, x, model_.width, x);
    });
  }

  static Product gated(const Weights* gate, const Weights* up, const RowsView& x) {
    return gate ? Product{gate, up, x} : Product{up, nullptr, x};
  }
  // What is done to the results of gate and up.
  struct Activate {
    model::Activation activation;
    model::Xielu xielu = {};
    const float *gate_bias = nullptr, *up_bias = nullptr;  // null: none
  };
  // activation(gate) * up, or activation(up) where there is no gate, to the rows that `to` returns. The products are
  // multiplied by factor(row) first, where that is not 1.
  template <class To, class Factor>
  void activate(const Activate& how, const Piece& piece, To&& to, Factor&& factor) const {
    const float xielu[] = {how.xielu.positive, how.xielu.negative, how.xielu.beta, how.xielu.epsilon};
    const auto change = [&](float* values, const float* bias, float by) {
      if (by != 1)
        for (uint32_t r = 0; r < piece.rows; ++r) values[r] *= by;
      if (bias)
        for (uint32_t r = 0; r < piece.rows; ++r) values[r] += bias[piece.first + r];
    };
    for (uint32_t i = 0; i < piece.count; ++i) {
      float* gate = const_cast<float*>(piece.values) + uint64_t(i) * piece.stride;
      float* up = piece.second ? const_cast<float*>(piece.second) + uint64_t(i) * piece.stride : nullptr;
      const uint32_t row = piece.row + i;
      change(gate, up ? how.gate_bias : how.up_bias, factor(row));
      if (up) change(up, how.up_bias, factor(row));
      isa_.activate(uint8_t(how.activation), xielu, gate, up, piece.rows, to(row) + piece.first);
    }
  }
  static Activate activation_of(const model::FeedForward& f) {
    return {f.activation, f.xielu, at(f.gate_bias, 0), at(f.up_bias, 0)};
  }
  static float no_factor(uint32_t) { return 1; }

  void compute(const AttentionWeights& w) {
    const model::Attention& a = *w.model;
    normalise_rows(a.norm);
    if (a.latent)
      project_latent(w);
    else
      project(w);
    write_cache(w);
    if (a.laurel) project_laurel(w);
    if (a.latent) {
      attend_.run(*batch_, tables_of(w), a, caches_[w.index], q_,
                  {by_head_.row(0), uint64_t(a.heads) * by_head_.cols(), by_head_.cols()});
      raise_values(w);
    } else {
      attend_.run(*batch_, tables_of(w), a, caches_[w.index], q_, {attended_.row(0), attended_.cols(), a.value_head});
    }
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      if (w.gate) isa_.gate(gate_.row(i), attended_.row(i), uint32_t(a.gate.rows));
      attended_.finish(i, isa_);
    });
  }

  const model::BlockTables& tables_of(const AttentionWeights& w) const {
    return of_windows_[w.index] ? batch_->window_blocks : batch_->blocks;
  }

  // A block has neighbouring positions of a head in one cache line: many rows are dealt out by heads, 32 rows at a
  // time.
  void write_cache(const AttentionWeights& w) {
    const model::Attention& a = *w.model;
    const uint32_t rows = rows_ < 32 ? 1 : 32, heads = rows_ < 32 ? a.kv_heads : 1, parts = a.kv_heads / heads;
    team_.run(uint64_t(rows_ + rows - 1) / rows * parts, [&](uint64_t item, uint32_t) {
      const uint32_t first = uint32_t(item / parts) * rows, first_head = uint32_t(item % parts) * heads;
      for (uint32_t row = first; row < std::min(first + rows, rows_); ++row) {
        const uint32_t position = batch_->positions[row];
        const uint32_t block = tables_of(w)[batch_->sequences[row]][position / limits_.block_tokens];
        for (uint32_t h = first_head; a.fills_cache() && h < first_head + heads; ++h)
          caches_[w.index].put(isa_, h, block, position % limits_.block_tokens, k_.row(row), v_.row(row));
        const float factor = factor_of(a.temperature, position);
        if (factor == 1 || first_head != 0) continue;
        for (uint64_t c = 0; c < uint64_t(a.heads) * a.head; ++c) q_.row(row)[c] *= factor;
      }
    });
  }

  // q, k and v of all rows.
  void project(const AttentionWeights& w) {
    const model::Attention& a = *w.model;
    const RowsView x = normed_.view(rows_);
    const bool v_is_k = w.v && w.v == w.k;  // one product, stored twice
    const model::Vector no_bias;
    struct Output {
      const Weights* weights;  // null: no product
      const model::Vector* bias;
      Rows* to;
    };
    const Output all[] = {{w.q, &a.q_bias, &q_},
                          {w.k, &a.k_bias, &k_},
                          {v_is_k ? nullptr : w.v, &a.v_bias, &v_},
                          {w.gate, &no_bias, &gate_}};
    Product some[std::size(all)];
    const Output* outputs[std::size(all)];
    size_t count = 0;
    for (const Output& output : all) {
      if (!output.weights) continue;
      some[count] = {output.weights, nullptr, x};
      outputs[count++] = &output;
    }
    products_.run(std::span(some).first(count), [&](const Piece& piece) {
      const Output& output = *outputs[piece.product];
      store(piece, at(*output.bias, 0), [&](uint32_t row) { return output.to->row(row); });
      if (v_is_k && output.to == &k_) store(piece, at(a.v_bias, 0), [&](uint32_t row) { return v_.row(row); });
    });
    const uint64_t sizes[] = {uint64_t(a.heads) * a.head, uint64_t(a.kv_heads) * a.head,
                              uint64_t(a.kv_heads) * a.value_head};
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      const uint32_t row = uint32_t(i);
      const auto rotate = [&] {
        rotations_.rotate(w.index, row, q_.row(row), a.heads, a.head);
        if (a.fills_cache()) rotations_.rotate(w.index, row, k_.row(row), a.kv_heads, a.head);
      };
      if (a.norm_after_rope) rotate();
      normalise_heads(a.q_norm, q_.row(row), sizes[0], a.head, a.own_head_norms);
      normalise_heads(a.k_norm, k_.row(row), sizes[1], a.head, a.own_head_norms);
      normalise_heads(a.v_norm, v_.row(row), sizes[2], a.value_head, false);
      for (int j = 0; a.clamp_qkv != 0 && j < 3; ++j)
        for (uint64_t c = 0; c < sizes[j]; ++c)
          all[j].to->row(row)[c] = std::clamp(all[j].to->row(row)[c], -a.clamp_qkv, a.clamp_qkv);
      if (!a.norm_after_rope) rotate();
    });
  }

  // Latent attention: what the cache keeps of each row (k_), and the queries in its terms.
  void project_latent(const AttentionWeights& w) {
    const model::Attention& a = *w.model;
    const model::Latent& l = *a.latent;
    const RowsView x = normed_.view(rows_);
    // The plain part of a query goes to by_head_, to be raised; the rotated part to its place in q_.
    const auto store_queries = [&](const Piece& piece) {
      const uint32_t whole = l.plain + l.rotated;
      for (uint32_t i = 0; i < piece.count; ++i)
        for (uint32_t r = 0; r < piece.rows; ++r) {
          const uint64_t head = (piece.first + r) / whole, c = (piece.first + r) % whole;
          const float value = piece.values[uint64_t(i) * piece.stride + r];
          if (c < l.plain)
            by_head_.row(uint64_t(piece.row + i) * a.heads + head)[c] = value;
          else
            q_.row(piece.row + i)[head * a.head + l.rank + c - l.plain] = value;
        }
    };
    const Product two[] = {{w.kv_down, nullptr, x}, {w.q_down ? w.q_down : w.q, nullptr, x}};
    products_.run(two, [&](const Piece& piece) {
      if (piece.product == 0)
        store(piece, nullptr, [&](uint32_t row) { return k_.row(row); });
      else if (w.q_down)
        store(piece, nullptr, [&](uint32_t row) { return low_.row(row); });
      else
        store_queries(piece);
    });
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      const uint32_t row = uint32_t(i);
      normalise(l.kv_norm, k_.row(row), l.rank, k_.row(row));
      rotations_.rotate(w.index, row, k_.row(row) + l.rank, 1, a.head);
      if (!w.q_down) return;
      normalise(l.q_norm, low_.row(row), l.q_down.rows, low_.row(row));
      low_.finish(row, isa_);
    });
    if (w.q_down) {
      const Product queries[] = {{w.q, nullptr, low_.view(rows_)}};
      products_.run(queries, store_queries);
    }
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      rotations_.rotate(w.index, uint32_t(i), q_.row(i) + l.rank, a.heads, a.head);
    });
    multiply_heads(w.k_up, [&](uint32_t row, uint32_t head) { return q_.row(row) + uint64_t(head) * a.head; });
  }
  // From the latents in by_head_ to the values of each head.
  void raise_values(const AttentionWeights& w) {
    const uint64_t value = w.model->latent->value;
    multiply_heads(w.v_up, [&](uint32_t row, uint32_t head) { return attended_.row(row) + head * value; });
  }
  // Each head of by_head_ with weights of its own, to where to(row, head) says.
  template <class To>
  void multiply_heads(const std::vector<const Weights*>& of_heads, To&& to) {
    const uint32_t heads = uint32_t(of_heads.size());
    finish_rows(by_head_, rows_ * heads);
    gathered_.resize(std::max<size_t>(gathered_.size(), heads));
    gathered_products_.clear();
    for (uint32_t h = 0; h < heads; ++h) {
      gathered_[h].clear();
      for (uint32_t row = 0; row < rows_; ++row) gathered_[h].add(by_head_, uint64_t(row) * heads + h);
      gathered_products_.push_back({of_heads[h], nullptr, gathered_[h].view()});
    }
    products_.run(gathered_products_, [&](const Piece& piece) {
      store(piece, nullptr, [&](uint32_t row) { return to(row, piece.product); });
    });
  }

  void add(const AttentionWeights& w, float scale) {
    const model::Attention& a = *w.model;
    const Product product[] = {{w.output, nullptr, attended_.view(rows_)}};
    add_product(product, a.output_bias, a.output_norm, a.residual_norm, scale);
    if (a.laurel) add_laurel(w);
  }

  void project_laurel(const AttentionWeights& w) {
    const Product down[] = {{w.laurel_down, nullptr, normed_.view(rows_)}};
    products_.run(down,
                  [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return laurel_.row(row); }); });
    finish_rows(laurel_, rows_);
  }
  // normed_ is still what the attention has read.
  void add_laurel(const AttentionWeights& w) {
    const model::Laurel& l = *w.model->laurel;
    const Product up[] = {{w.laurel_up, nullptr, laurel_.view(rows_)}};
    products_.run(up, [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return out_.row(row); }); });
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      float *x = x_.row(i), *out = out_.row(i), *h = normed_.row(i);
      normalise(l.norm, out, model_.width, out);
      for (uint32_t c = 0; c < model_.width; ++c) x[c] = (x[c] + h[c] + out[c]) * l.scale;
    });
  }

  void compute(const FeedForwardWeights& w) {
    const model::FeedForward& f = *w.model;
    normalise_rows(f.norm);
    if (f.cutoff) return compute_cut(w);
    if (f.token_input) return compute_with_inputs(w);
    const Product product[] = {gated(w.gate, w.up, normed_.view(rows_))};
    products_.run(product, [&](const Piece& piece) {
      activate(
          activation_of(f), piece, [&](uint32_t row) { return inner_.row(row); }, no_factor);
    });
    finish_rows(inner_, rows_);
  }
  // Whole rows of the gate are needed before any of it is activated.
  void compute_cut(const FeedForwardWeights& w) {
    const model::FeedForward& f = *w.model;
    const RowsView x = normed_.view(rows_);
    const Product two[] = {{w.gate, nullptr, x}, {w.up, nullptr, x}};
    products_.run(two, [&](const Piece& piece) {
      Rows& to = piece.product ? ups_ : inner_;
      store(piece, at(piece.product ? f.up_bias : f.gate_bias, 0), [&](uint32_t row) { return to.row(row); });
    });
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      float* gates = inner_.row(i);
      cut(gates, f.gate.rows, *f.cutoff);
      isa_.activate(uint8_t(f.activation), nullptr, gates, ups_.row(i), uint32_t(f.gate.rows), gates);
      inner_.finish(i, isa_);
    });
  }
  void compute_with_inputs(const FeedForwardWeights& w) {
    const model::FeedForward& f = *w.model;
    const Product product[] = {{w.gate, nullptr, normed_.view(rows_)}};
    products_.run(product, [&](const Piece& piece) {
      for (uint32_t i = 0; i < piece.count; ++i) {
        const uint32_t row = piece.row + i;
        const float* inputs = token_inputs_.row(row) + *f.token_input * f.gate.rows + piece.first;
        isa_.activate(uint8_t(f.activation), nullptr, piece.values + uint64_t(i) * piece.stride, inputs, piece.rows,
                      inner_.row(row) + piece.first);
      }
    });
    finish_rows(inner_, rows_);
  }
  void add(const FeedForwardWeights& w, float scale) {
    if (w.model->to_other_streams) return add_to_others(w);
    const Product product[] = {{w.down, nullptr, inner_.view(rows_)}};
    add_product(product, w.model->down_bias, w.model->output_norm, w.model->residual_norm, scale);
  }

  // The rows of each expert are gathered, so that its weights are read once. The shared expert's product comes last.
  void compute(const MixtureWeights& w) {
    const model::Mixture& m = *w.model;
    const bool routes_apart = m.router_norm.kind != Norm::Kind::none;
    normalise_rows(routes_apart ? m.router_norm : m.norm);
    scores_.resize(uint64_t(rows_) * m.router.rows);
    const Product router[] = {{w.router, nullptr, normed_.view(rows_)}};
    products_.run(router, [&](const Piece& piece) {
      store(piece, at(m.router_bias, 0), [&](uint32_t row) { return scores_.data() + uint64_t(row) * m.router.rows; });
    });
    if (routes_apart) normalise_rows(m.norm);
    const bool apart = w.shared && has_own_input(*m.shared);
    if (apart) normalise_rows(m.shared->norm, apart_);
    choice_.pick(m, scores_, normed_, rows_);
    if (w.latent_down) {
      const Product down[] = {{w.latent_down, nullptr, normed_.view(rows_)}};
      products_.run(down,
                    [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return latent_.row(row); }); });
      finish_rows(latent_, rows_);
    }
    const Rows& read = w.latent_down ? latent_ : normed_;

    const size_t experts = w.up.size();
    gathered_.resize(std::max(gathered_.size(), experts));
    gathered_products_.clear();
    for (uint32_t e = 0; e < experts; ++e) {
      gathered_[e].clear();
      for (const uint32_t slot : choice_.slots_of[e]) gathered_[e].add(read, slot / choice_.used);
      gathered_products_.push_back(gated(w.gate[e], w.up[e], gathered_[e].view()));
    }
    if (w.shared)
      gathered_products_.push_back(gated(w.shared->gate, w.shared->up, (apart ? apart_ : normed_).view(rows_)));
    products_.run(gathered_products_, [&](const Piece& piece) {
      if (piece.product == experts)
        return activate(
            activation_of(*m.shared), piece, [&](uint32_t row) { return shared_inner_.row(row); }, no_factor);
      const std::vector<uint32_t>& slots = choice_.slots_of[piece.product];
      const uint64_t first = piece.product * w.up[0]->rows;
      // the expert of weight * x is weight * (the expert of x), up to its biases and activation
      activate(
          {m.activation, {}, at(m.gate_bias, first), at(m.up_bias, first)}, piece,
          [&](uint32_t i) { return inner_.row(slots[i]); },
          [&](uint32_t i) { return m.routing.weigh_input ? choice_.weights[slots[i]] : 1; });
    });
    finish_rows(inner_, rows_ * choice_.used);
    if (w.shared) finish_rows(shared_inner_, rows_);
  }
  void add(const MixtureWeights& w, float scale) {
    const model::Mixture& m = *w.model;
    const size_t experts = w.down.size();
    gathered_products_.clear();
    for (uint32_t e = 0; e < experts; ++e) {
      gathered_[e].clear();
      for (const uint32_t slot : choice_.slots_of[e]) gathered_[e].add(inner_, slot);
      gathered_products_.push_back({w.down[e], nullptr, gathered_[e].view()});
    }
    if (w.shared) gathered_products_.push_back({w.shared->down, nullptr, shared_inner_.view(rows_)});
    products_.run(gathered_products_, [&](const Piece& piece) {
      if (piece.product < experts)
        store(piece, at(m.down_bias, piece.product * uint64_t(model_.width)),
              [&](uint32_t i) { return out_.row(choice_.slots_of[piece.product][i]); });
      else
        store(piece, at(m.shared->down_bias, 0), [&](uint32_t row) { return shared_out_.row(row); });
    });
    if (w.latent_up) raise_latents(w);
    // Few rows are cut into columns; a norm needs whole rows.
    const bool has_norms = m.output_norm.kind != Norm::Kind::none || m.residual_norm.kind != Norm::Kind::none ||
                           m.experts_norm.kind != Norm::Kind::none ||
                           (m.shared && m.shared->output_norm.kind != Norm::Kind::none);
    const bool whole = has_norms || rows_ >= team_.threads();
    const uint32_t columns = whole ? model_.width : std::min(model_.width, 256u);
    const uint32_t parts = (model_.width + columns - 1) / columns;
    team_.run(uint64_t(rows_) * parts, [&](uint64_t item, uint32_t) {
      const uint64_t i = item / parts;
      const uint32_t first = uint32_t(item % parts) * columns, count = std::min(columns, model_.width - first);
      std::vector<float> sum(count);
      if (w.latent_up)
        std::copy_n(latent_out_.row(i) + first, count, sum.data());
      else
        sum_experts(m, i, first, count, sum.data());
      normalise(m.experts_norm, sum.data(), count, sum.data());
      if (w.shared) {
        float* out = shared_out_.row(i) + first;
        normalise(m.shared->output_norm, out, count, out);
        const float weight = choice_.shared[i];
        for (uint32_t c = 0; c < count; ++c) sum[c] += weight * out[c];
      }
      normalise(m.output_norm, sum.data(), count, sum.data());
      float* x = x_.row(i) + first;
      for (uint32_t c = 0; c < count; ++c) x[c] += scale * sum[c];
      normalise(m.residual_norm, x, count, x);
    });
  }

  // Adds some columns of what the experts of a row left, the best expert first.
  void sum_experts(const model::Mixture& m, uint64_t row, uint32_t first, uint32_t count, float* sum) {
    for (uint32_t j = 0; j < choice_.used; ++j) {
      const uint64_t slot = row * choice_.used + j;
      const float weight = m.routing.weigh_input ? 1 : choice_.weights[slot], *out = out_.row(slot) + first;
      for (uint32_t c = 0; c < count; ++c) sum[c] += weight * out[c];
    }
  }
  // The sums of experts of latents, to latent_out_.
  void raise_latents(const MixtureWeights& w) {
    const auto size = uint32_t(w.model->latent_down.rows);
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      std::fill_n(latent_.row(i), size, 0.0f);
      sum_experts(*w.model, i, 0, size, latent_.row(i));
      latent_.finish(i, isa_);
    });
    const Product up[] = {{w.latent_up, nullptr, latent_.view(rows_)}};
    products_.run(
        up, [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return latent_out_.row(row); }); });
  }

  void compute(const RecurrenceWeights& w) {
    const model::Recurrence& r = *w.model;
    normalise_rows(r.norm);
    const RowsView x = normed_.view(rows_);
    const Product all[] = {{w.mixed, nullptr, x}, {w.gate, nullptr, x}, {w.steps, nullptr, x}, {w.betas, nullptr, x}};
    products_.run(std::span(all).first(w.betas ? 4 : 3), [&](const Piece& piece) {
      Rows* const to[] = {&mixed_, &gate_, &steps_, &steps_};
      const uint32_t behind = piece.product == 3 ? r.heads : 0;  // betas are behind the steps
      store(piece, nullptr, [&](uint32_t row) { return to[piece.product]->row(row) + behind; });
    });
    recurrent_.recur(r, mixed_, gate_, steps_, recurred_);
  }
  void compute(const ShortConvolutionWeights& w) {
    normalise_rows(w.model->norm);
    const Product product[] = {{w.in, nullptr, normed_.view(rows_)}};
    products_.run(product,
                  [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return mixed_.row(row); }); });
    recurrent_.convolve(*w.model, mixed_, recurred_);
  }
  void add(const RecurrenceWeights& w, float scale) { add_recurred(w.output, *w.model, scale); }
  void add(const ShortConvolutionWeights& w, float scale) { add_recurred(w.output, *w.model, scale); }
  void add_recurred(const Weights* output, const auto& sublayer, float scale) {
    const Product product[] = {{output, nullptr, recurred_.view(rows_)}};
    add_product(product, {}, sublayer.output_norm, sublayer.residual_norm, scale);
  }

  void compute(const NextHeadWeights& w) {
    const model::NextHead& head = *w.model;
    if (batch_->predicts) {
      team_.run(rows_, [&](uint64_t i, uint32_t) {
        std::copy_n(results_.row(batch_->after[i]), model_.width, before_.row(i));
      });
    } else {
      normalise_rows(model_.norm, results_);
      recurrent_.shift(head, results_, before_);
    }
    team_.run(rows_, [&](uint64_t i, uint32_t thread) {
      float* to = joined_.row(i);
      decode_row(model_.embedding, weights_.embedding, batch_->tokens[i], to, thread);
      for (uint32_t c = 0; c < model_.width; ++c) to[c] *= model_.embedding_scale;
      normalise(head.token_norm, to, model_.width, to);
      normalise(head.hidden_norm, before_.row(i), model_.width, to + model_.width);
      joined_.finish(i, isa_);
    });
  }
  void add(const NextHeadWeights& w, float) {
    const Product product[] = {{w.join, nullptr, joined_.view(rows_)}};
    products_.run(product,
                  [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return x_.row(row); }); });
  }

  void add_to_others(const FeedForwardWeights& w) {
    const Product product[] = {{w.down, nullptr, inner_.view(rows_)}};
    products_.run(product,
                  [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return out_.row(row); }); });
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      normalise(w.model->output_norm, out_.row(i), model_.width, out_.row(i));
      streams_.add(i, out_.row(i));
    });
  }

  // AltUp: in the form that the products read, for the steps that have some.
  void compute(const AltupWeights& w) {
    if (w.model->step == model::Altup::Step::begin) normalise_rows({});
    if (w.model->step == model::Altup::Step::end)
      team_.run(rows_, [&](uint64_t i, uint32_t) { streams_.finish(i, isa_); });
  }
  void add(const AltupWeights& w, float) {
    using enum model::Altup::Step;
    const model::Altup& a = *w.model;
    for (uint32_t s = 0; s < w.projections.size(); ++s) {
      const Product product[] = {
          {w.projections[s], nullptr, a.step == begin ? normed_.view(rows_) : streams_.view(s, rows_)}};
      products_.run(product,
                    [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return out_.row(row); }); });
      team_.run(rows_, [&](uint64_t i, uint32_t) {
        if (a.step == begin) streams_.begin(s, i, x_.row(i), out_.row(i));
        if (a.step == end) streams_.add_to_mean(s, i, x_.row(i), out_.row(i));
      });
    }
    if (a.step == begin) return;
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      if (a.step == predict) streams_.predict(a, i, x_.row(i));
      if (a.step == correct) streams_.correct(a, i, x_.row(i));
      if (a.step == end) streams_.finish_mean(i, x_.row(i));
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
  RecurrentStates recurrent_;
  std::vector<KvCache> caches_;          // of each attention
  std::vector<bool> of_windows_;         // of each: whether its blocks are those of windows
  const model::Batch* batch_ = nullptr;  // of the step under way
  uint32_t rows_ = 0;
  bool computed_ = false;      // a result waits for result()
  Rows x_, normed_;            // (rows, width): the residual, and what the next products read
  Rows q_, k_, v_, attended_;  // (rows, heads * head) and so on
  Rows low_, by_head_;         // of latent attention: (rows, rank of q), and a row for each head of each row
  Rows inner_, out_;           // (rows, inner) and (rows, width); a row for each slot of a mixture
  Rows shared_inner_, shared_out_;
  Rows latent_, latent_out_;       // of experts of latents
  Rows mixed_, steps_, recurred_;  // of sublayers with a state: what goes in, and what the output matrix reads
  Rows gate_;                      // of attention and of recurrences
  Rows apart_;                     // (rows, width): what a shared expert reads that has a norm of its own
  Rows laurel_, ups_;              // (rows, rank), and (rows, inner) for gates with a cutoff
  Rows token_inputs_;              // (rows, layers * size)
  Rows results_, before_;          // of models with a NextHead: what the final norm made of rows, and of those before
  Rows joined_;                    // (rows, 2 * width): what it reads
  Streams streams_;
  ExpertChoice choice_;
  std::vector<float> scores_, logits_, states_;
  std::vector<GatheredRows> gathered_;  // of each expert, or of each head
  std::vector<Product> gathered_products_;
  std::vector<std::vector<uint8_t>> slabs_;  // of each thread
};

}  // namespace

std::unique_ptr<model::Backend> make_cpu(const model::Model& model, const model::Limits& limits,
                                         const Options& options) {
  return std::make_unique<Cpu>(model, limits, options);
}

}  // namespace heddle::cpu
