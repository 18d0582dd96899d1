// The fast backend: what its files share. Each verb is a few phases of the team.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cpu/attention.h"
#include "cpu/cpu.h"
#include "cpu/layers.h"
#include "cpu/products.h"
#include "cpu/ranks.h"
#include "cpu/states.h"
#include "cpu/streams.h"
#include "cpu/weights.h"

namespace heddle::cpu {

class Cpu : public model::Backend {
 public:
  Cpu(const model::Model& model, const model::Limits& limits, const Options& options)
      : model_(model),
        limits_(limits),
        isa_(choose_isa(options.isa)),
        exact_(options.exact),
        repacked_(options.repack),
        ranks_(options.ranks),
        team_(options.threads, options.root),
        weights_(model, isa_, options, team_),
        products_(isa_, team_, weights_.all(), limits.rows),
        attend_(isa_, team_, limits),
        rotations_(model),
        recurrent_(isa_, team_, ranks_, model, limits) {
    make_caches();
    make_rows();
  }

  std::string describe() const override;
  bool computes_rows_in_groups() const override { return true; }
  void begin(const model::Batch& batch) override;
  void embed() override;
  void compute(uint32_t layer, uint32_t sublayer) override;
  void add(uint32_t layer, uint32_t sublayer) override;
  void keep_states() override;
  void head() override;
  model::Result result() override;

  std::span<const float> residual() override { return {x_.row(0), uint64_t(rows_) * model_.width}; }
  void set_residual(std::span<const float> rows) override;
  void copy_block(uint32_t from, uint32_t to) override;
  void copy_window_block(uint32_t from, uint32_t to) override;
  void copy_state(uint32_t from, uint32_t to) override { recurrent_.copy(from, to); }
  std::string kv_layout() const override { return exact_ ? "cpu, exact" : "cpu"; }
  uint64_t kv_part_bytes(model::KvPart part) const override;
  void read_kv(std::span<const model::KvRead> reads) override;
  void write_kv(model::KvPlace place, std::span<const uint8_t> bytes) override;
  bool usable() const override { return ranks_.usable(); }

 private:
  void make_caches();
  // f(cache) for each cache with such blocks, once where attentions share one.
  void each_cache(model::KvPart part, auto&& f) const {
    for (size_t i = 0; i < caches_.size(); ++i) {
      const auto is_same = [&](const KvCache& other) { return other.is_in_memory_of(caches_[i]); };
      if (of_windows_[i] == (part == model::KvPart::window) &&
          std::none_of(caches_.begin(), caches_.begin() + long(i), is_same))
        f(const_cast<KvCache&>(caches_[i]));
    }
  }
  // Rows for the largest sublayer of each kind, in the forms that their weights need.
  void make_rows();

  // A row of an embedding: from the file, or from its tile where it was packed.
  void decode_row(const model::Matrix& matrix, const Weights* packed, uint64_t row, float* out, uint32_t thread);

  // What the final norm makes of a row.
  void put_result(uint32_t row, float* to);

  void normalise_rows(const model::Norm& norm) { normalise_rows(norm, normed_); }
  void normalise_rows(const model::Norm& norm, Rows& to);
  // Whether a shared expert reads what a norm of its own leaves.
  static bool has_own_input(const model::FeedForward& shared) { return shared.norm.kind != model::Norm::Kind::none; }
  void find_token_inputs(const model::TokenInputs& t);
  void finish_rows(Rows& rows, uint32_t count);

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

  // The residual += scale * norm(product + bias), then the norm of the residual. `of` is the sublayer.
  void add_product(std::span<const Product> product, const model::Vector& bias, const auto& of, float scale) {
    add_product(product, bias, of.output_norm, of.residual_norm, of.partial, scale);
  }
  void add_product(std::span<const Product> product, const model::Vector& bias, const model::Norm& norm,
                   const model::Norm& residual_norm, bool partial, float scale);
  // Of the first `rows` rows, which have as many columns as the residual stream.
  void sum_across_ranks(Rows& rows) {
    check(rows.cols() == model_.width, "rows of the residual stream");
    ranks_.sum({rows.row(0), uint64_t(rows_) * model_.width});
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

  void compute(const AttentionWeights& w);
  const model::BlockTables& tables_of(const AttentionWeights& w) const;

  // A block has neighbouring positions of a head in one cache line: many rows are dealt out by heads, 32 rows at a
  // time.
  void write_cache(const AttentionWeights& w);

  // q, k and v of all rows.
  void project(const AttentionWeights& w);

  // Latent attention: what the cache keeps of each row (k_), and the queries in its terms.
  void project_latent(const AttentionWeights& w);
  // From the latents in by_head_ to the values of each head.
  void raise_values(const AttentionWeights& w);
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

  void add(const AttentionWeights& w, float scale);
  void project_laurel(const AttentionWeights& w);
  // normed_ is still what the attention has read.
  void add_laurel(const AttentionWeights& w);

  void compute(const FeedForwardWeights& w);
  // Whole rows of the gate are needed before any of it is activated.
  void compute_cut(const FeedForwardWeights& w);
  void compute_with_inputs(const FeedForwardWeights& w);
  void add(const FeedForwardWeights& w, float scale);

  // The rows of each expert are gathered, so that its weights are read once. The shared expert's product comes last.
  void compute(const MixtureWeights& w);
  void add(const MixtureWeights& w, float scale);

  // Adds some columns of what the experts of a row left, the best expert first.
  void sum_experts(const model::Mixture& m, uint64_t row, uint32_t first, uint32_t count, float* sum);
  // The sums of experts of latents, to latent_out_.
  void raise_latents(const MixtureWeights& w);

  void compute(const RecurrenceWeights& w);

  void compute(const ShortConvolutionWeights& w);
  void add(const RecurrenceWeights& w, float scale) { add_recurred(w.output, *w.model, scale); }
  void add(const ShortConvolutionWeights& w, float scale) { add_recurred(w.output, *w.model, scale); }
  void add_recurred(const Weights* output, const auto& sublayer, float scale) {
    const Product product[] = {{output, nullptr, recurred_.view(rows_)}};
    add_product(product, {}, sublayer, scale);
  }

  void compute(const NextHeadWeights& w);
  void add(const NextHeadWeights& w, float);
  void add_to_others(const FeedForwardWeights& w);

  // AltUp: in the form that the products read, for the steps that have some.
  void compute(const AltupWeights& w);
  void add(const AltupWeights& w, float);

  const model::Model& model_;
  model::Limits limits_;
  const Isa& isa_;
  bool exact_, repacked_;
  Ranks ranks_;
  Team team_;
  ModelWeights weights_;
  Products products_;
  Attend attend_;
  Rotations rotations_;
  RecurrentStates recurrent_;
  std::vector<KvCache> caches_;          // of each attention
  std::vector<bool> of_windows_;         // of each: whether its blocks are those of windows
  const model::Batch* batch_ = nullptr;  // of the step under way
  std::optional<RunsOn> node_;           // where the thread that computes it runs
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
  Rows partial_;                   // (rows, width), of models cut for ranks: what they sum
  Rows results_, before_;          // of models with a NextHead: what the final norm made of rows, and of those before
  Rows joined_;                    // (rows, 2 * width): what it reads
  Streams streams_;
  ExpertChoice choice_;
  std::vector<float> scores_, logits_, states_;
  std::vector<float> own_logits_;  // with ranks: (outputs, rows of this one's part of the output matrix)
  Squares squares_;
  std::vector<GatheredRows> gathered_;  // of each expert, or of each head
  std::vector<Product> gathered_products_, next_products_;
  std::vector<std::vector<uint8_t>> slabs_;  // of each thread
};

}  // namespace heddle::cpu
