// What a model is once it is read: layers of sublayers, each with its weights and options. A new kind of sublayer is a
// further alternative of Sublayer; every backend that cannot compute it then fails to compile.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "quant/format.h"

namespace heddle::model {

// Weights as they lie in the file: `rows` rows of `cols` values. y = W x has a value per row.
struct Matrix {
  quant::Format format = quant::Format::f32;
  uint64_t rows = 0, cols = 0;
  std::span<const uint8_t> data;

  explicit operator bool() const { return rows != 0; }
  uint64_t row_bytes() const { return quant::row_bytes(format, cols); }
  Matrix slice(uint64_t first_row, uint64_t count) const {
    return {format, count, cols, data.subspan(first_row * row_bytes(), count * row_bytes())};
  }
};
using Vector = std::vector<float>;  // norms and biases are small, so they are decoded while loading; empty: absent

struct Norm {
  enum class Kind : uint8_t {
    none,
    rms,
    layer,
    scale,  // none: the values are multiplied by the weights
  } kind = Kind::none;
  Vector weight, bias;
  float epsilon = 0;
  // Of a norm over values of which this rank has a part (shard.h), rms only: the sum of their squares is that of all
  // ranks. It has a sum for each of `groups` groups of values, each of `size` values in all.
  struct Across {
    uint64_t size = 0;
    uint32_t group = 0, groups = 1;  // `group`: that of this rank's values
    bool counted = true;             // false: they are copies of values that another rank counts
  };
  std::optional<Across> across = {};
};

struct Rope {
  enum class Style : uint8_t {
    none,
    pairs,   // rotates neighbours: 2i and 2i + 1
    halves,  // rotates values half of `dimensions` apart: i and i + dimensions / 2
  } style = Style::none;
  uint32_t dimensions = 0;      // the first values of a head that are rotated; the rest stays as it is
  std::vector<double> radians;  // per position, one per pair
  double magnitude = 1;         // the rotated values are multiplied by it
  // Radians of texts longer than Model::short_text; empty: as of all.
  std::vector<double> long_radians = {};
};

// Matrices of one shape, stacked: of all experts of a mixture, or of all heads.
struct Experts {
  uint64_t count = 0;
  Matrix all;
  // Where gate and up are one stack: of the rows of each expert, `part` from `first` on. part 0: all of them.
  uint64_t first = 0, part = 0;
  Matrix expert(uint64_t index) const {
    if (!count) return {};
    const uint64_t rows = all.rows / count;
    return all.slice(index * rows + first, part ? part : rows);
  }
};

// Multi-head latent attention, absorbed: the cache has one vector per token for all heads, the latent and behind it the
// rotated part of the key. Attention::head is its length (rank + rotated), value_head is the rank, kv_heads is 1, and
// the value of a token is the latent in its key. A head's query is (plain, rotated); its plain part goes through k_up.
struct Latent {
  Matrix q_down;  // absent: q reads what the norm of the sublayer leaves; otherwise q_norm(q_down x)
  Norm q_norm;
  Matrix kv_down;  // (rank + rotated, width)
  Norm kv_norm;    // of the latent
  Experts k_up;    // of each head: (rank, plain)
  Experts v_up;    // of each head: (value, rank), before the output matrix
  uint32_t rank = 0, plain = 0, rotated = 0, value = 0;
};

// Queries are multiplied by 1 + scale * ln(1 + floor((position + offset) / length)).
struct Temperature {
  float scale = 0;  // 0: they are not
  uint32_t length = 0, offset = 0;
};

// A learned augmented residual (Laurel), beside an attention. With h, what the norm of the attention leaves, and its
// result r, the residual stream x becomes scale * (x + r + h + norm(up(down h))).
struct Laurel {
  Matrix down, up;
  Norm norm;
  float scale = 1;
};

struct Attention {
  Norm norm;       // of the input
  Matrix q, k, v;  // k and v: unset where another attention fills the cache; v may be k
  Vector q_bias, k_bias, v_bias;
  float clamp_qkv = 0;  // q, k and v are clamped to it and its negative, after their norms; 0: they are not
  // Of q and k: over each head, or over all heads where the weight is that long.
  Norm q_norm, k_norm;
  Norm v_norm;                   // over each head
  bool own_head_norms = false;   // over each head, although the weight is that of all heads
  bool norm_after_rope = false;  // otherwise before the rotation
  Rope rope;
  Temperature temperature;
  uint32_t heads = 0, kv_heads = 0, head = 0, value_head = 0;
  float scale = 1;      // of the scores
  float softcap = 0;    // scores become cap * tanh(score / cap); 0: unchanged
  Vector sinks;         // of each head: a further score in the softmax, which has no value; empty: none
  Vector slopes;        // of each head: its scores lose slope * distance (ALiBi); empty: none
  bool causal = true;   // a position sees itself and what is before it; otherwise its whole text
  uint32_t window = 0;  // a position sees itself and window - 1 before it, or without causal window / 2 on both sides;
                        // 0: all
  uint32_t chunk = 0;   // positions are in chunks of this size, and see those of their own; 0: all
  // Attentions with the same number, other than 0, have one KV cache. The first of them fills it.
  uint32_t shared_cache = 0;
  std::optional<Latent> latent;  // k and v are unset
  // What the heads leave is multiplied by sigmoid(gate x), value by value, before the output matrix; absent: it is not.
  Matrix gate;
  std::optional<Laurel> laurel;
  Matrix output;
  Vector output_bias;
  Norm output_norm;      // applied before the result is added to the residual
  Norm residual_norm;    // of the residual stream, after the result was added
  bool partial = false;  // the result is one rank's part of a sum over all ranks, before its norms (shard.h)

  bool fills_cache() const { return latent || k; }
  // Whether the values of a token are the beginning of its keys, and have no place of their own in the cache.
  bool values_in_keys() const { return latent.has_value(); }
  // Whether the product with k is also what values are made of.
  bool values_are_keys() const {
    return v && v.rows == k.rows && !v.data.empty() && v.data.data() == k.data.data() && k_bias.empty() &&
           v_bias.empty();
  }
  // Values of a token in the cache.
  uint64_t cached_values() const { return uint64_t(kv_heads) * (head + (values_in_keys() ? 0 : value_head)); }
  // What the output matrix reads.
  uint64_t output_cols() const { return uint64_t(heads) * (latent ? latent->value : value_head); }
};

enum class Activation : uint8_t {
  silu,
  gelu,
  gelu_tanh,
  relu_squared,
  // Of gpt-oss, with a gate only: gate and up are clamped to 7 (up to -7, too); gate * sigmoid(1.702 gate) * (up + 1).
  clamped_swiglu,
  // x (positive x + beta) above 0, else negative (e^min(x, epsilon) - 1 - x) + beta x. See Xielu.
  xielu,
};
struct Xielu {
  float positive = 0, negative = 0, beta = 0, epsilon = 0;
};

struct FeedForward {
  Norm norm;  // of the input
  Activation activation = Activation::silu;
  Xielu xielu;            // of that activation
  Matrix gate, up, down;  // down(activation(gate x) * up x); without a gate, down(activation(up x))
  Vector gate_bias, up_bias, down_bias;
  // Of the products g of the gate, what they have above mean(g) + cutoff * deviation(g) is activated, and 0 below.
  std::optional<float> cutoff;
  // In place of up x, which is unset then: the inputs of this number that the token has (Model::token_inputs).
  std::optional<uint32_t> token_input;
  Norm output_norm;               // applied before the result is added to the residual
  Norm residual_norm;             // of the residual stream, after the result was added
  bool to_other_streams = false;  // the result is added to the other streams (Altup), not to the residual
  bool partial = false;           // as of Attention
};

// How a mixture picks experts from the router's logits, and weighs them.
struct Routing {
  enum class Score : uint8_t {
    softmax,  // over all experts; divided by their sum, this is a softmax over those picked
    sigmoid,
    // Phi-3.5-MoE: the best, by a softmax over those near it; then the second best likewise, without the first. Near:
    // (best - logit) / max(|logit|, best) is not above `near`.
    sparsemixer,
  } score = Score::softmax;
  uint32_t used = 0;  // the largest scores
  Vector bias;        // added to the scores of the experts to pick, not to weigh, them; empty: none
  // Experts are picked from the `groups_used` best of `groups` groups alone. A group is as good as its best expert, or
  // as the sum of its best two.
  uint32_t groups = 1, groups_used = 1;
  bool groups_by_two = true;
  bool weights_sum_to_one = false;  // the weights of the experts picked are divided by their sum
  float scale = 1;                  // of the weights
  Vector scales;                    // of the weight of each expert, after that; empty: 1
  float near = 0;                   // of sparsemixer
  bool weigh_input = false;         // an expert reads weight * x; its result is not weighed
};

struct Mixture {
  Norm norm;  // of the input
  Activation activation = Activation::silu;
  Norm router_norm;  // of the input, for the router; unset: it reads what the experts read
  Matrix router;     // a logit per expert
  Vector router_bias;
  Routing routing;
  Experts gate, up, down;                // without a gate as in FeedForward
  Vector gate_bias, up_bias, down_bias;  // of all experts, one after the other; empty: none
  // Experts read latent_down x, and latent_up their weighted sum; absent: neither.
  Matrix latent_down, latent_up;
  Norm experts_norm;  // of the weighted sum, after latent_up, before the shared expert's result is added
  // Sees every token. Its input norm, where it has one, is of the input of the mixture; otherwise it reads what
  // Mixture::norm leaves. Its output norm is of its result.
  std::optional<FeedForward> shared;
  Vector shared_router;  // the shared expert's weight is sigmoid(shared_router . x); empty: 1
  Norm output_norm;      // of the sum, before it is added to the residual
  Norm residual_norm;    // of the residual stream, after the result was added
  bool partial = false;  // as of Attention
  // The experts here are those from this one on, of all that the router picks from; others are other ranks'.
  uint32_t first_expert = 0;

  // Whether the results of the experts and of the shared one are normalised before they are added. With ranks, each is
  // then summed by itself, where it is partial; otherwise the two are added first, and summed once.
  bool adds_normalised() const {
    return experts_norm.kind != Norm::Kind::none || (shared && shared->output_norm.kind != Norm::Kind::none);
  }
};

// A causal convolution of each channel with its last inputs; before the first token they are 0.
struct Convolution {
  uint32_t width = 0;  // inputs that a result reads, the newest included
  Vector weight;       // (channels, width), of the oldest input first
  Vector bias;         // of each channel; empty: none

  uint64_t channels() const { return width ? weight.size() / width : 0; }
};

// Heads with a state of fixed size instead of a cache: the SSD of Mamba-2, and the gated delta net. Queries, keys and
// values pass through the convolution and SiLU. A head's state S, (key, value), becomes decay S + k u^T with each row,
// and the row's result is S^T q. The step is softplus(steps x + step_bias) within its limits, decay = e^(rate step).
//   ssd:   u = step v; the result gets skip v.
//   delta: u = sigmoid(betas x) (v - decay S^T k); q and k are divided by their lengths, and q by sqrt(key).
// The results are normalised and multiplied by SiLU(gate x) before the output matrix, in the order that gate_first
// says.
struct Recurrence {
  enum class Rule : uint8_t { ssd, delta } rule = Rule::ssd;
  Norm norm;     // of the input
  Matrix mixed;  // what the convolution reads; ssd: values, keys, queries; delta: queries, keys, values
  Convolution convolution;
  Matrix gate;   // (heads * value, width)
  Matrix steps;  // (heads, width)
  Vector step_bias;
  float min_step = 0, max_step = INFINITY;
  Vector rates;  // of each head, below 0
  Matrix betas;  // of delta: (heads, width)
  Vector skip;   // of ssd, of each head
  uint32_t heads = 0, key_heads = 0, key = 0, value = 0;
  bool tiled = false;      // head h has the key head h % key_heads; otherwise neighbours share one
  Norm gated_norm;         // weights of all heads; kind none: they are only multiplied
  uint32_t norm_size = 0;  // values that are normalised together
  bool gate_first = false;
  Matrix output;
  Norm output_norm, residual_norm;  // as of Attention
  bool partial = false;             // as of Attention

  uint32_t key_head(uint32_t head) const { return tiled ? head % key_heads : head / (heads / key_heads); }
  uint64_t values() const { return uint64_t(heads) * value; }
  uint64_t keys() const { return uint64_t(key_heads) * key; }
  // Where they begin among what the convolution leaves.
  uint64_t queries_at() const { return rule == Rule::delta ? 0 : values() + keys(); }
  uint64_t keys_at() const { return rule == Rule::delta ? keys() : values(); }
  uint64_t values_at() const { return rule == Rule::delta ? 2 * keys() : 0; }
};
constexpr float delta_epsilon = 1e-6f;  // added to the square of the length of q and k

// LFM2's: with (b, c, v) = in x, the result is output (c * convolution(b * v)).
struct ShortConvolution {
  Norm norm;  // of the input
  Matrix in;  // (3 * channels, width)
  Convolution convolution;
  Matrix output;
  Norm output_norm, residual_norm;  // as of Attention
  bool partial = false;             // as of Attention
};

// A step of alternating updates (AltUp): beside the residual stream x there are `others` more. Other sublayers neither
// read nor change those, but for FeedForward::to_other_streams.
//   begin    other i = P_i x, scaled to the length of x
//   predict  with s = (x, others) and c = coefficients tanh(router norm(x)): s_i += sum of c_ij s_j. Then x is kept.
//   correct  with y, what the sublayers made of the x that predict kept: s_i += (1 + c_i) (y - x)
//   end      x = the mean of x and of P_i other i, each scaled to the length of x
struct Altup {
  enum class Step : uint8_t { begin, predict, correct, end } step = Step::begin;
  uint32_t others = 0;
  Experts projections;  // of begin and end: P_i, (width, width)
  // Of the other two.
  Norm norm;
  Vector router;        // (streams, width)
  Vector coefficients;  // (streams, streams, streams) for predict, (streams, streams) for correct

  uint32_t streams() const { return others + 1; }
};
constexpr float altup_min_square = 1e-5f;  // the mean square that the length of P x is taken from is no smaller

// The head for multi-token prediction (MTP, nextn): with token t + 1 it predicts token t + 2. It is the last layer of a
// model that has one, and this its first sublayer. What the layers before it left is the model's result and goes on to
// the output matrix; here the residual stream becomes join (token_norm(e), hidden_norm(h)), with e the embedding of the
// row's token, and h the result of the row before it: 0 before the first, and kept as a recurrent state. In a batch
// that predicts (Batch::predicts) that layer is computed alone, and `norm` of what it leaves is its result.
struct NextHead {
  Norm token_norm, hidden_norm;
  Matrix join;  // (width, 2 * width)
  Norm norm;
};

// Reads the residual stream, computes, and adds to it.
using Sublayer = std::variant<Attention, FeedForward, Mixture, Recurrence, ShortConvolution, Altup, NextHead>;

// std::visit(Overloaded{[](const Attention&) {}, ...}, sublayer): one function per kind, and none may be missing.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

// Whether the result of a sublayer is one rank's part of a sum.
inline bool is_partial(const Sublayer& sublayer) {
  return std::visit(Overloaded{[](const Altup&) { return false; }, [](const NextHead&) { return false; },
                               [](const auto& kind) { return kind.partial; }},
                    sublayer);
}

struct Layer {
  std::vector<Sublayer> sublayers;
  // All sublayers read the layer's input; otherwise each reads what the one before it left. A backend keeps the results
  // in scratch of their own until they are added, which has room for one attention, one sublayer with a state, and one
  // feed-forward or mixture.
  bool parallel = false;
  float residual_scale = 1;
  float output_scale = 1;  // of the residual stream, after the last sublayer

  // The first sublayer of a kind; null where there is none.
  template <class Kind>
  const Kind* find() const {
    for (const Sublayer& sublayer : sublayers)
      if (const Kind* found = std::get_if<Kind>(&sublayer)) return found;
    return nullptr;
  }
  template <class Kind>
  Kind* find() {
    return const_cast<Kind*>(std::as_const(*this).template find<Kind>());
  }
  // The same, for layers that must have one.
  template <class Kind>
  const Kind& get() const {
    const Kind* found = find<Kind>();
    check(found != nullptr, "a sublayer of this kind");
    return *found;
  }
  template <class Kind>
  Kind& get() {
    return const_cast<Kind&>(std::as_const(*this).template get<Kind>());
  }
};

// What the layers read of a token beside the residual stream (per-layer embeddings): for the embedding x of token t,
//   scale * (norm(projection x) + embedding_scale * embedding[t]), in slices of `size` values, each with a norm.
struct TokenInputs {
  uint32_t size = 0;
  Matrix embedding;   // (vocabulary, slices * size)
  Matrix projection;  // (slices * size, width)
  Norm norm;          // over each slice
  float embedding_scale = 1, scale = 1;
  uint32_t count() const { return uint32_t(projection.rows); }
};

// How the states of a text's tokens become the text's embedding. Numbered as in GGUF.
enum class Pooling : uint8_t {
  none,  // the model has one state per token; pooled by mean when an embedding is requested all the same
  mean,
  cls,   // the state of the first token
  last,  // the state of the last token
  rank,  // a score of two texts: there is no embedding
};

// A product after pooling: activation(weight x + bias). Few and small, so they are decoded while loading, and computed
// on the host.
struct Dense {
  enum class Activation : uint8_t { identity, tanh, gelu, relu, silu } activation = Activation::identity;
  uint32_t rows = 0, cols = 0;
  Vector weight;  // (rows, cols)
  Vector bias;
};

// How the states of two texts, as one sequence, become a score of each label.
struct Classifier {
  Pooling pooling = Pooling::cls;  // cls, mean or last
  std::optional<Dense> dense;
  Norm norm;  // of what the dense product leaves
  Dense output;
  std::vector<std::string> labels;  // empty: without names
};

struct Model {
  std::string name, architecture;
  uint32_t context = 0, width = 0, vocabulary = 0;
  uint32_t short_text = 0;      // longer texts are rotated by Rope::long_radians; 0: all texts are rotated alike
  Matrix embedding, positions;  // `positions`: learned ones, added to the embedding
  Vector type_embeddings;       // (token types, width), added to the embedding; empty: there are no types
  Norm embedding_norm;          // of the sum
  float embedding_scale = 1;
  std::optional<TokenInputs> token_inputs;
  std::vector<Layer> layers;
  Norm norm;
  Matrix output;  // the embedding, where the two are tied; absent: the model has no logits
  // Rows of the output matrix that each rank has (shard.h), of which `output` are this one's; empty: it has all.
  std::vector<uint64_t> output_parts;
  Vector output_bias;
  float logit_scale = 1, logit_softcap = 0;
  Pooling pooling = Pooling::mean;
  std::vector<Dense> dense;              // of the pooled state, one after the other
  std::optional<Classifier> classifier;  // of rerankers

  // What the matrices point into: the file, or memory for tensors that had to be converted.
  std::shared_ptr<const void> file;
  std::vector<std::vector<uint8_t>> storage;
};

// Whether no token sees later ones: a text can be computed in several batches.
inline bool is_causal(const Model& model) {
  for (const Layer& layer : model.layers)
    if (const Attention* attention = layer.find<Attention>(); attention && !attention->causal) return false;
  return true;
}
// A causal model with logits: it can generate text.
inline bool generates(const Model& model) { return is_causal(model) && model.output; }
inline uint32_t token_types(const Model& model) {
  return model.type_embeddings.empty() ? 1 : uint32_t(model.type_embeddings.size() / model.width);
}
// What a token of this type adds to the embedding; empty: nothing.
inline std::span<const float> type_embedding(const Model& model, uint32_t type) {
  if (model.type_embeddings.empty()) return {};
  return std::span(model.type_embeddings).subspan(uint64_t(type) * model.width, model.width);
}
// Values of an embedding.
inline uint32_t embedding_width(const Model& model) {
  return model.dense.empty() ? model.width : model.dense.back().rows;
}

// f(attention) for every attention of the model, in the order of a forward pass.
void each_attention(const Model& model, auto&& f) {
  for (const Layer& layer : model.layers)
    for (const Sublayer& sublayer : layer.sublayers)
      if (const Attention* attention = std::get_if<Attention>(&sublayer)) f(*attention);
}

// The head for multi-token prediction; null where there is none.
inline const NextHead* next_head(const Model& model) {
  return model.layers.empty() ? nullptr : model.layers.back().find<NextHead>();
}
// Layers without that of such a head.
inline uint32_t own_layers(const Model& model) { return uint32_t(model.layers.size()) - (next_head(model) ? 1 : 0); }

// Values of the recurrent state of a sequence: the last inputs of the convolution, then the states of all heads.
inline uint64_t state_values(const Convolution& c) { return c.width ? (c.width - 1) * c.channels() : 0; }
inline uint64_t state_values(const Sublayer& sublayer) {
  return std::visit(Overloaded{[](const Recurrence& r) { return state_values(r.convolution) + r.values() * r.key; },
                               [](const ShortConvolution& c) { return state_values(c.convolution); },
                               [](const NextHead& h) { return h.join.rows; }, [](const auto&) { return uint64_t(0); }},
                    sublayer);
}
// Bytes of the recurrent states of a sequence, in f32.
inline uint64_t state_bytes(const Model& model) {
  uint64_t values = 0;
  for (const Layer& layer : model.layers)
    for (const Sublayer& sublayer : layer.sublayers) values += state_values(sublayer);
  return values * sizeof(float);
}
inline bool has_states(const Model& model) { return state_bytes(model) != 0; }

// One matrix of a sublayer. Where it is a stack of experts, a token is multiplied by `used` of the `experts` in it; in
// a stack of heads, by all.
struct SublayerMatrix {
  const Matrix* matrix;
  uint64_t used = 1, experts = 1;
};
// The matrices that a sublayer has.
inline std::vector<SublayerMatrix> matrices_of(const Attention& a) {
  if (!a.latent) {
    std::vector<SublayerMatrix> all{{&a.q}};
    if (a.k) all.push_back({&a.k});
    if (a.v && (a.v.data.empty() || a.v.data.data() != a.k.data.data())) all.push_back({&a.v});
    all.push_back({&a.output});
    if (a.gate) all.push_back({&a.gate});
    if (a.laurel) all.insert(all.end(), {{&a.laurel->down}, {&a.laurel->up}});
    return all;
  }
  const Latent& l = *a.latent;
  std::vector<SublayerMatrix> all{
      {&a.q}, {&l.kv_down}, {&l.k_up.all, a.heads, a.heads}, {&l.v_up.all, a.heads, a.heads}, {&a.output}};
  if (l.q_down) all.push_back({&l.q_down});
  return all;
}
inline std::vector<SublayerMatrix> matrices_of(const FeedForward& f) {
  std::vector<SublayerMatrix> all{{&f.down}};
  if (f.up) all.push_back({&f.up});
  if (f.gate) all.push_back({&f.gate});
  return all;
}
inline std::vector<SublayerMatrix> matrices_of(const Mixture& m) {
  std::vector<SublayerMatrix> all{{&m.router}};
  if (m.latent_down) all.insert(all.end(), {{&m.latent_down}, {&m.latent_up}});
  for (const Experts* experts : {&m.gate, &m.up, &m.down})
    if (experts->count && !(experts == &m.up && m.gate.part))  // one stack with the gate
      all.push_back({&experts->all, std::min<uint64_t>(m.routing.used, experts->count), experts->count});
  if (m.shared)
    for (const SublayerMatrix& matrix : matrices_of(*m.shared)) all.push_back(matrix);
  return all;
}
inline std::vector<SublayerMatrix> matrices_of(const Recurrence& r) {
  std::vector<SublayerMatrix> all{{&r.mixed}, {&r.gate}, {&r.steps}, {&r.output}};
  if (r.betas) all.push_back({&r.betas});
  return all;
}
inline std::vector<SublayerMatrix> matrices_of(const ShortConvolution& c) { return {{&c.in}, {&c.output}}; }
inline std::vector<SublayerMatrix> matrices_of(const Altup& a) {
  if (!a.projections.count) return {};
  return {{&a.projections.all, a.projections.count, a.projections.count}};
}
inline std::vector<SublayerMatrix> matrices_of(const NextHead& h) { return {{&h.join}}; }
inline std::vector<SublayerMatrix> matrices_of(const Sublayer& sublayer) {
  return std::visit([](const auto& kind) { return matrices_of(kind); }, sublayer);
}
inline std::vector<SublayerMatrix> matrices_of(const Layer& layer) {
  std::vector<SublayerMatrix> all;
  for (const Sublayer& sublayer : layer.sublayers)
    for (const SublayerMatrix& matrix : matrices_of(sublayer)) all.push_back(matrix);
  return all;
}

}  // namespace heddle::model
