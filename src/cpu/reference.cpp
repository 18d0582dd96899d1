// The reference backend: each verb as the formulas have it, row by row.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "cpu/cpu.h"
#include "cpu/ranks.h"
#include "cpu/reference_feed_forward.h"
#include "cpu/reference_math.h"
#include "cpu/reference_states.h"
#include "cpu/reference_streams.h"

namespace heddle::cpu {
namespace {

using namespace model;
using namespace reference;

double capped(double x, float cap) { return cap == 0 ? x : cap * std::tanh(x / cap); }

// Keys and values, by block and position in it.
struct ReferenceKv {
  Vector keys, values;
  bool of_windows;  // its blocks are those of windows
};

class Reference : public Backend {
 public:
  Reference(const Model& model, const Limits& limits, Collective* ranks)
      : model_(model), limits_(limits), ranks_(ranks), recurrent_(model, limits, ranks_) {
    each_kv_cache(model, [&](const Attention& a, bool of_windows) {
      const uint64_t tokens = uint64_t(blocks_of_cache(limits, of_windows)) * limits.block_tokens;
      caches_.push_back({Vector(tokens * a.kv_heads * a.head),
                         Vector(a.values_in_keys() ? 0 : tokens * a.kv_heads * a.value_head),
                         of_windows && limits.window_blocks > 0});
    });
    const std::vector<uint32_t> numbers = kv_cache_numbers(model);
    each_attention(model, [&](const Attention& a) { cache_of_.emplace(&a, numbers[cache_of_.size()]); });
  }

  std::string describe() const override {
    return fmt::format("reference (CPU, plain f32{})", limits_.kv == KvFormat::q8 ? ", q8 KV" : "");
  }

  void begin(const Batch& batch) override {
    check(!batch.follows && batch.picking.empty(),
          "begin() needs a batch that follows no other and picks no tokens on the device");
    const size_t rows = batch.tokens.size();
    check(rows <= limits_.rows && batch.positions.size() == rows && batch.sequences.size() == rows,
          "a batch that fits");
    for (uint32_t token : batch.tokens) check(token < model_.vocabulary, "tokens of the vocabulary");
    check(batch.types.empty() || batch.types.size() == rows, "a token type for every row");
    for (uint32_t type : batch.types) check(type < token_types(model_), "types of the model");
    for (size_t i = 0; i < rows; ++i)
      check(batch.positions[i] / limits_.block_tokens < batch.blocks.at(batch.sequences[i]).size(),
            "a block for every position");
    check(!batch.predicts || (next_head(model_) && batch.after.size() == rows), "a batch that the model can predict");
    check_window_blocks(batch, limits_);
    batch_ = &batch;
    recurrent_.begin(batch);
    computed_ = false;
    states_.clear();
    x_.assign(rows, Vector(model_.width));
  }

  void embed() override {
    for (size_t i = 0; i < x_.size(); ++i) {
      decode_row(model_.embedding, batch_->tokens[i], x_[i]);
      for (float& value : x_[i]) value *= model_.embedding_scale;
      const std::span<const float> type = type_embedding(model_, batch_->types.empty() ? 0 : batch_->types[i]);
      for (size_t c = 0; c < type.size(); ++c) x_[i][c] += type[c];
      if (model_.positions) {
        Vector position(model_.width);
        decode_row(model_.positions, batch_->positions[i], position);
        add_scaled(x_[i], position, 1);
      }
      x_[i] = normalised(model_.embedding_norm, std::move(x_[i]));
    }
    if (model_.token_inputs) find_token_inputs(*model_.token_inputs);
  }

  void compute(uint32_t layer, uint32_t sublayer) override {
    std::visit(Overloaded{[&](const Attention& a) { attend(a, caches_[cache_of_.at(&a)]); },
                          [&](const FeedForward& f) {
                            normalise_rows(f.norm);
                            inner_ = gated(f, h_, token_inputs_);
                          },
                          [&](const Mixture& m) {
                            normalise_rows(m.norm);
                            mixed_ = mixture(m, x_, h_);
                          },
                          [&](const Recurrence& r) {
                            normalise_rows(r.norm);
                            recurred_ = recurrent_.recur(r, h_);
                          },
                          [&](const ShortConvolution& c) {
                            normalise_rows(c.norm);
                            recurred_ = recurrent_.convolve(c, h_);
                          },
                          [](const Altup&) {}, [&](const NextHead& head) { join(head); }},
               model_.layers[layer].sublayers[sublayer]);
  }

  void add(uint32_t layer, uint32_t sublayer) override {
    const Layer& of = model_.layers[layer];
    std::visit(Overloaded{[&](const Attention& a) {
                            std::vector<Vector> out;
                            products(a.output, a.output_bias, attended_, out);
                            add_results(a, std::move(out), of.residual_scale);
                            if (a.laurel) add_laurel(*a.laurel);
                          },
                          [&](const FeedForward& f) {
                            std::vector<Vector> out;
                            products(f.down, f.down_bias, inner_, out);
                            if (f.to_other_streams)
                              add_to_others(f, std::move(out));
                            else
                              add_results(f, std::move(out), of.residual_scale);
                          },
                          [&](const Mixture& m) { add_mixture(m, of.residual_scale); },
                          [&](const Altup& a) { streams_.update(a, x_); },
                          [&](const NextHead& head) { products(head.join, {}, joined_, x_); },
                          [&](const auto& with_state) {
                            std::vector<Vector> out;
                            products(with_state.output, {}, recurred_, out);
                            add_results(with_state, std::move(out), of.residual_scale);
                          }},
               of.sublayers[sublayer]);
    if (sublayer + 1 < of.sublayers.size() || of.output_scale == 1) return;
    for (Vector& x : x_)
      for (float& value : x) value *= of.output_scale;
  }

  void keep_states() override {
    for (uint32_t row : batch_->states) {
      const Vector state = result_of(row);
      states_.insert(states_.end(), state.begin(), state.end());
    }
  }

  void head() override {
    std::vector<Vector> rows, out;
    check(model_.output || batch_->outputs.empty(), "a model with logits, where logits are asked for");
    if (batch_->predicts) keep_results(next_head(model_)->norm);
    for (uint32_t row : batch_->outputs) rows.push_back(result_of(row));
    products(model_.output, model_.output_bias, rows, out);
    logits_.clear();
    for (const Vector& row : out)
      for (float value : row)
        logits_.push_back(static_cast<float>(capped(double(value) * model_.logit_scale, model_.logit_softcap)));
    if (!model_.output_parts.empty() && !out.empty()) {
      const Vector own = std::exchange(logits_, Vector(out.size() * model_.vocabulary));
      ranks_.gather_rows(own, out.size(), model_.output_parts, logits_);
    }
    computed_ = true;
  }
  Result result() override {
    check(std::exchange(computed_, false), "result() needs a batch that was computed");
    return {.picked = {}, .logits = logits_, .states = states_};
  }

  std::span<const float> residual() override {
    rows_.clear();
    for (const Vector& row : x_) rows_.insert(rows_.end(), row.begin(), row.end());
    return rows_;
  }
  void set_residual(std::span<const float> rows) override {
    check(rows.size() == x_.size() * model_.width, "a residual stream of all rows");
    for (size_t i = 0; i < x_.size(); ++i) {
      const auto row = rows.subspan(i * model_.width, model_.width);
      x_[i].assign(row.begin(), row.end());
    }
  }

  void copy_block(uint32_t from, uint32_t to) override { copy_blocks(false, limits_.kv_blocks, from, to); }
  void copy_window_block(uint32_t from, uint32_t to) override { copy_blocks(true, limits_.window_blocks, from, to); }
  void copy_state(uint32_t from, uint32_t to) override { recurrent_.copy(from, to); }
  bool usable() const override { return ranks_.usable(); }

  std::string kv_layout() const override { return "reference"; }
  uint64_t kv_part_bytes(KvPart part) const override {
    if (part == KvPart::state) return recurrent_.slot_bytes();
    uint64_t values = 0;
    for (const ReferenceKv& cache : caches_)
      if (cache.of_windows == (part == KvPart::window))
        values += (cache.keys.size() + cache.values.size()) / blocks_of(part);
    return values * sizeof(float);
  }
  void read_kv(std::span<const KvRead> reads) override {
    for (const auto& [from, to] : reads) {
      check_kv_span(*this, limits_, from, to.size());
      if (from.part == KvPart::state) {
        recurrent_.read(from.index, to);
        continue;
      }
      uint8_t* at = to.data();
      each_part(from, [&](float* values, size_t count) {
        std::memcpy(at, values, count * sizeof(float));
        at += count * sizeof(float);
      });
    }
  }
  void write_kv(KvPlace place, std::span<const uint8_t> bytes) override {
    check_kv_span(*this, limits_, place, bytes.size());
    if (place.part == KvPart::state) return recurrent_.write(place.index, bytes);
    const uint8_t* at = bytes.data();
    each_part(place, [&](float* values, size_t count) {
      std::memcpy(values, at, count * sizeof(float));
      at += count * sizeof(float);
    });
  }

 private:
  uint32_t blocks_of(KvPart part) const { return part == KvPart::window ? limits_.window_blocks : limits_.kv_blocks; }
  // f(values, count) for the keys and values of a block in each cache that it is in.
  void each_part(KvPlace place, auto&& f) {
    for (ReferenceKv& cache : caches_) {
      if (cache.of_windows != (place.part == KvPart::window)) continue;
      for (Vector* all : {&cache.keys, &cache.values}) {
        const size_t size = all->size() / blocks_of(place.part);
        if (size) f(all->data() + place.index * size, size);
      }
    }
  }
  // What the final norm makes of a row.
  Vector result_of(uint32_t row) const {
    return next_head(model_) ? results_.at(row) : normalised(model_.norm, x_.at(row));
  }
  void keep_results(const Norm& norm) {
    results_.clear();
    for (const Vector& x : x_) results_.push_back(normalised(norm, x));
  }
  void join(const NextHead& head) {
    std::vector<Vector> before;
    if (batch_->predicts) {
      for (const uint32_t row : batch_->after) before.push_back(results_.at(row));
    } else {
      keep_results(model_.norm);
      before = recurrent_.before(head, results_);
    }
    joined_.assign(x_.size(), Vector(model_.width));
    for (size_t i = 0; i < x_.size(); ++i) {
      decode_row(model_.embedding, batch_->tokens[i], joined_[i]);
      for (float& value : joined_[i]) value *= model_.embedding_scale;
      joined_[i] = normalised(head.token_norm, std::move(joined_[i]));
      const Vector hidden = normalised(head.hidden_norm, std::move(before[i]));
      joined_[i].insert(joined_[i].end(), hidden.begin(), hidden.end());
    }
  }

  void decode_row(const Matrix& matrix, uint64_t row, Vector& out) const {
    quant::decode(matrix.format, matrix.data.data() + row * matrix.row_bytes(), matrix.cols, out.data());
  }
  void normalise_rows(const Norm& norm) {
    h_.resize(x_.size());
    for (size_t i = 0; i < x_.size(); ++i) h_[i] = normalised(norm, x_[i]);
  }
  // The residual += scale * norm(out), then the norm of the residual.
  void add_results(const auto& kind, std::vector<Vector> out, float scale) {
    if (kind.partial) sum_across_ranks(out);
    add_sums(kind, std::move(out), scale);
  }
  void sum_across_ranks(std::vector<Vector>& rows) {
    for (Vector& row : rows) ranks_.sum(row);
  }
  void add_sums(const auto& kind, std::vector<Vector> out, float scale) {
    for (size_t i = 0; i < x_.size(); ++i) {
      add_scaled(x_[i], normalised(kind.output_norm, std::move(out[i])), scale);
      x_[i] = normalised(kind.residual_norm, std::move(x_[i]));
    }
  }
  void add_to_others(const FeedForward& f, std::vector<Vector> out) {
    for (size_t i = 0; i < x_.size(); ++i) {
      streams_.add(i, normalised(f.output_norm, std::move(out[i])));
    }
  }
  void add_mixture(const Mixture& m, float scale) {
    std::vector<Vector>&experts = mixed_.experts, &shared = mixed_.shared;
    const auto add_shared = [&] {
      for (size_t i = 0; m.shared && i < x_.size(); ++i)
        add_scaled(experts[i], normalised(m.shared->output_norm, std::move(shared[i])), mixed_.weights[i]);
    };
    if (!m.adds_normalised()) add_shared();
    if (m.partial) sum_across_ranks(experts);
    if (m.adds_normalised()) {
      if (m.shared && m.shared->partial) sum_across_ranks(shared);
      for (Vector& row : experts) row = normalised(m.experts_norm, std::move(row));
      add_shared();
    }
    add_sums(m, std::move(experts), scale);
  }
  // h_ is still what the attention has read.
  void add_laurel(const Laurel& l) {
    std::vector<Vector> down, up;
    products(l.down, {}, h_, down);
    products(l.up, {}, down, up);
    for (size_t i = 0; i < x_.size(); ++i) {
      add_scaled(x_[i], h_[i], 1);
      add_scaled(x_[i], normalised(l.norm, std::move(up[i])), 1);
      for (float& value : x_[i]) value *= l.scale;
    }
  }

  void find_token_inputs(const TokenInputs& t) {
    products(t.projection, {}, x_, token_inputs_);
    Vector embedding(t.count());
    for (size_t i = 0; i < x_.size(); ++i) {
      normalise_heads(t.norm, token_inputs_[i], t.size, false);
      decode_row(t.embedding, batch_->tokens[i], embedding);
      add_scaled(token_inputs_[i], embedding, t.embedding_scale);
      for (float& value : token_inputs_[i]) value *= t.scale;
    }
  }

  uint64_t slot_of(const ReferenceKv& cache, uint32_t sequence, uint32_t position) const {
    const auto& tables = cache.of_windows ? batch_->window_blocks : batch_->blocks;
    const uint32_t block = tables[sequence][position / limits_.block_tokens];
    check(block != no_block, "a block for every position that is seen");
    return uint64_t(block) * limits_.block_tokens + position % limits_.block_tokens;
  }
  void copy_blocks(bool of_windows, uint32_t count, uint32_t from, uint32_t to) {
    check(from < count && to < count, "blocks of the cache");
    if (from == to) return;
    for (ReferenceKv& cache : caches_) {
      if (cache.of_windows != of_windows) continue;
      for (Vector* all : {&cache.keys, &cache.values}) {
        const size_t size = all->size() / count;
        std::copy_n(all->begin() + long(from * size), size, all->begin() + long(to * size));
      }
    }
  }

  // q, k and v of all rows, k and v to the cache, then each head of each row.
  void attend(const Attention& a, ReferenceKv& cache) {
    normalise_rows(a.norm);
    std::vector<Vector> k, v;
    if (a.latent) {
      project_latent(a, k);
    } else {
      project(a, k, v);
    }
    for (size_t i = 0; i < x_.size(); ++i) {
      const Temperature& t = a.temperature;
      if (t.scale != 0) {
        const double steps = std::floor(double(batch_->positions[i] + t.offset) / t.length);
        for (float& value : q_[i]) value = static_cast<float>(value * (1 + double(t.scale) * std::log(1 + steps)));
      }
      if (!a.fills_cache()) continue;
      const uint64_t slot = slot_of(cache, batch_->sequences[i], batch_->positions[i]);
      if (limits_.kv == KvFormat::q8) as_kept(k[i], a.head);
      std::copy(k[i].begin(), k[i].end(), cache.keys.begin() + long(slot * k[i].size()));
      if (a.values_in_keys()) continue;
      if (limits_.kv == KvFormat::q8) as_kept(v[i], a.value_head);
      std::copy(v[i].begin(), v[i].end(), cache.values.begin() + long(slot * v[i].size()));
    }
    find_ends();
    attended_.assign(x_.size(), Vector(uint64_t(a.heads) * a.value_head));
    uint64_t positions = 1;
    for (const uint32_t end : ends_) positions = std::max(positions, uint64_t(end) + 1);
    parallel_for(x_.size() * a.heads, threads_for(x_.size() * a.heads * positions * (a.head + a.value_head)),
                 [&](size_t item) { attend_head(a, cache, item / a.heads, uint32_t(item % a.heads)); });
    if (a.latent) raise_values(a);
    if (a.gate) gate_attended(a);
  }
  void gate_attended(const Attention& a) {
    std::vector<Vector> gates;
    products(a.gate, {}, h_, gates);
    for (size_t i = 0; i < x_.size(); ++i)
      for (size_t c = 0; c < gates[i].size(); ++c)
        attended_[i][c] = static_cast<float>(attended_[i][c] * sigmoid(gates[i][c]));
  }

  void project(const Attention& a, std::vector<Vector>& k, std::vector<Vector>& v) {
    products(a.q, a.q_bias, h_, q_);
    if (a.fills_cache()) {
      products(a.k, a.k_bias, h_, k);
      products(a.v, a.v_bias, h_, v);
    }
    k.resize(x_.size());
    v.resize(x_.size());
    const auto rotate_both = [&] {
      for (size_t i = 0; i < x_.size(); ++i) {
        rotate(a.rope, batch_->long_text, q_[i], a.head, batch_->positions[i]);
        rotate(a.rope, batch_->long_text, k[i], a.head, batch_->positions[i]);
      }
    };
    if (a.norm_after_rope) rotate_both();
    normalise_rows_of_heads(a.q_norm, q_, a);
    normalise_rows_of_heads(a.k_norm, k, a);
    for (size_t i = 0; i < x_.size(); ++i) {
      normalise_heads(a.v_norm, v[i], a.value_head, false);
      if (a.clamp_qkv != 0)
        for (Vector* row : {&q_[i], &k[i], &v[i]})
          for (float& value : *row) value = std::clamp(value, -a.clamp_qkv, a.clamp_qkv);
    }
    if (!a.norm_after_rope) rotate_both();
  }
  void normalise_rows_of_heads(const Norm& norm, std::vector<Vector>& rows, const Attention& a) {
    if (norm.across) return normalise_across(norm, rows, ranks_);
    for (Vector& row : rows) normalise_heads(norm, row, a.head, a.own_head_norms);
  }

  // The queries of all heads in the terms of the cache, and what it keeps of each row.
  void project_latent(const Attention& a, std::vector<Vector>& k) {
    const Latent& l = *a.latent;
    const uint32_t whole = l.plain + l.rotated;
    std::vector<Vector> q;
    if (l.q_down) {
      std::vector<Vector> down;
      products(l.q_down, {}, h_, down);
      for (Vector& row : down) row = normalised(l.q_norm, std::move(row));
      products(a.q, {}, down, q);
    } else {
      products(a.q, {}, h_, q);
    }
    products(l.kv_down, {}, h_, k);
    q_.assign(x_.size(), Vector(uint64_t(a.heads) * a.head));
    for (size_t i = 0; i < x_.size(); ++i) {
      const Vector latent = normalised(l.kv_norm, Vector(k[i].begin(), k[i].begin() + l.rank));
      std::copy(latent.begin(), latent.end(), k[i].begin());
      rotate(a.rope, batch_->long_text, k[i], a.head, batch_->positions[i], l.rank);
      rotate(a.rope, batch_->long_text, q[i], whole, batch_->positions[i], l.plain);
      for (uint32_t h = 0; h < a.heads; ++h) {
        const Vector up = product(l.k_up.expert(h), q[i].data() + uint64_t(h) * whole);
        float* to = q_[i].data() + uint64_t(h) * a.head;
        std::copy(up.begin(), up.end(), to);
        std::copy_n(q[i].data() + uint64_t(h) * whole + l.plain, l.rotated, to + l.rank);
      }
    }
  }
  // From latents to the values of each head.
  void raise_values(const Attention& a) {
    const Latent& l = *a.latent;
    for (Vector& row : attended_) {
      Vector raised;
      for (uint32_t h = 0; h < a.heads; ++h) {
        const Vector up = product(l.v_up.expert(h), row.data() + uint64_t(h) * l.rank);
        raised.insert(raised.end(), up.begin(), up.end());
      }
      row = std::move(raised);
    }
  }

  // The last position of each sequence in the batch.
  void find_ends() {
    ends_.assign(batch_->blocks.size(), 0);
    for (size_t i = 0; i < x_.size(); ++i) {
      uint32_t& end = ends_[batch_->sequences[i]];
      end = std::max(end, batch_->positions[i]);
    }
  }
  // The positions that a row sees, both included.
  std::pair<uint32_t, uint32_t> seen(const Attention& a, size_t row) const {
    const uint32_t position = batch_->positions[row];
    uint32_t first = 0, last = position;
    if (a.causal) {
      if (a.window && position >= a.window) first = position - a.window + 1;
    } else {
      last = ends_[batch_->sequences[row]];
      if (a.window && position > a.window / 2) first = position - a.window / 2;
      if (a.window) last = std::min(last, position + a.window / 2);
    }
    if (a.chunk) {
      first = std::max(first, position / a.chunk * a.chunk);
      last = std::min(last, position / a.chunk * a.chunk + a.chunk - 1);
    }
    return {first, last};
  }

  void attend_head(const Attention& a, const ReferenceKv& cache, size_t row, uint32_t head) {
    const uint32_t kv = head / (a.heads / a.kv_heads), position = batch_->positions[row];
    const auto [first, last] = seen(a, row);
    const float* q = q_[row].data() + uint64_t(head) * a.head;
    const auto key = [&](uint32_t p) {
      return cache.keys.data() + (slot_of(cache, batch_->sequences[row], p) * a.kv_heads + kv) * a.head;
    };
    std::vector<double> scores;
    for (uint32_t p = first; p <= last; ++p) {
      const float* k = key(p);
      double sum = 0;
      for (uint32_t i = 0; i < a.head; ++i) sum += double(q[i]) * k[i];
      double score = capped(sum * a.scale, a.softcap);
      if (!a.slopes.empty()) score -= double(a.slopes[head]) * std::abs(double(position) - p);
      scores.push_back(score);
    }
    if (!a.sinks.empty()) scores.push_back(a.sinks[head]);
    softmax(scores);
    std::vector<double> sum(a.value_head);
    for (uint32_t p = first; p <= last; ++p) {
      const float* v =
          a.values_in_keys()
              ? key(p)
              : cache.values.data() + (slot_of(cache, batch_->sequences[row], p) * a.kv_heads + kv) * a.value_head;
      for (uint32_t i = 0; i < a.value_head; ++i) sum[i] += scores[p - first] * v[i];
    }
    float* out = attended_[row].data() + uint64_t(head) * a.value_head;
    for (uint32_t i = 0; i < a.value_head; ++i) out[i] = static_cast<float>(sum[i]);
  }

  const Model& model_;
  Limits limits_;
  Ranks ranks_;
  const Batch* batch_ = nullptr;  // of the step under way
  std::vector<ReferenceKv> caches_;
  std::map<const Attention*, uint32_t> cache_of_;  // index in caches_
  ReferenceStates recurrent_;
  std::vector<Vector> x_, h_, q_, attended_, inner_, recurred_;  // by row; x_ is the residual
  MixtureResult mixed_;
  std::vector<Vector> token_inputs_;  // by row
  std::vector<Vector> joined_;        // by row: what NextHead::join reads
  std::vector<Vector> results_;       // by row, of models with a NextHead: see result_of()
  ReferenceStreams streams_;
  std::vector<uint32_t> ends_;     // of each sequence: its last position
  Vector logits_, states_, rows_;  // rows_: see residual()
  bool computed_ = false;          // a result waits for result()
};

}  // namespace

std::unique_ptr<Backend> make_reference(const Model& model, const Limits& limits) {
  return std::make_unique<Reference>(model, limits, nullptr);
}

std::unique_ptr<Backend> make_reference_rank(const Model& model, const Limits& limits, Collective& ranks) {
  return std::make_unique<Reference>(model, limits, &ranks);
}

}  // namespace heddle::cpu
