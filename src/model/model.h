// What a model is once it is read: layers of sublayers, each with its weights and options. A new kind of sublayer is a
// further alternative of Sublayer; every backend that cannot compute it then fails to compile.
#pragma once
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
  enum class Kind : uint8_t { none, rms, layer } kind = Kind::none;
  Vector weight, bias;
  float epsilon = 0;
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
};

struct Attention {
  Norm norm;  // of the input
  Matrix q, k, v;
  Vector q_bias, k_bias, v_bias;
  Norm q_norm, k_norm;  // before the rotation: over each head, or over all heads where the weight is that long
  Rope rope;
  uint32_t heads = 0, kv_heads = 0, head = 0, value_head = 0;
  float scale = 1;      // of the scores
  float softcap = 0;    // scores become cap * tanh(score / cap); 0: unchanged
  uint32_t window = 0;  // a position sees itself and window - 1 before it; 0: all before it
  Matrix output;
  Vector output_bias;
  Norm output_norm;  // applied before the result is added to the residual
};

enum class Activation : uint8_t { silu, gelu, gelu_tanh };

struct FeedForward {
  Norm norm;  // of the input
  Activation activation = Activation::silu;
  Matrix gate, up, down;  // down(activation(gate x) * up x); without a gate, down(activation(up x))
  Vector gate_bias, up_bias, down_bias;
  Norm output_norm;  // applied before the result is added to the residual
};

// How a mixture picks experts from the router's scores: softmax over all, then the `used` largest.
struct Routing {
  uint32_t used = 0;
  bool weights_sum_to_one = false;  // the weights of the experts picked are divided by their sum
};

// The matrices of all experts, stacked.
struct Experts {
  uint64_t count = 0;
  Matrix all;
  Matrix expert(uint64_t index) const {
    return count ? all.slice(index * (all.rows / count), all.rows / count) : Matrix();
  }
};

struct Mixture {
  Norm norm;  // of the input
  Activation activation = Activation::silu;
  Matrix router;  // a score per expert
  Routing routing;
  Experts gate, up, down;             // without a gate as in FeedForward
  std::optional<FeedForward> shared;  // sees every token; its norms are unset: it reads what the experts read
  Vector shared_router;               // the shared expert's weight is sigmoid(shared_router . x); empty: 1
  Norm output_norm;                   // of the weighted sum, before it is added to the residual
};

// Reads the residual stream, computes, and adds to it.
using Sublayer = std::variant<Attention, FeedForward, Mixture>;

// std::visit(Overloaded{[](const Attention&) {}, ...}, sublayer): one function per kind, and none may be missing.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

struct Layer {
  std::vector<Sublayer> sublayers;
  // All sublayers read the layer's input; otherwise each reads what the one before it left. A backend keeps the results
  // in scratch of their own until they are added, which has room for one attention and one feed-forward or mixture.
  bool parallel = false;
  float residual_scale = 1;

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

// How the states of a text's tokens become the text's embedding. Numbered as in GGUF.
enum class Pooling : uint8_t {
  none,  // the model has one state per token; pooled by mean when an embedding is requested all the same
  mean,
  cls,   // the state of the first token
  last,  // the state of the last token
  rank,  // a score of two texts: there is no embedding
};

struct Model {
  std::string name, architecture;
  uint32_t context = 0, width = 0, vocabulary = 0;
  Matrix embedding, positions;  // `positions`: learned ones, added to the embedding
  float embedding_scale = 1;
  std::vector<Layer> layers;
  Norm norm;
  Matrix output;  // the embedding, where the two are tied
  Vector output_bias;
  float logit_scale = 1, logit_softcap = 0;
  Pooling pooling = Pooling::mean;

  // What the matrices point into: the file, or memory for tensors that had to be converted.
  std::shared_ptr<const void> file;
  std::vector<std::vector<uint8_t>> storage;
};

// f(attention) for every attention of the model, in the order of a forward pass.
void each_attention(const Model& model, auto&& f) {
  for (const Layer& layer : model.layers)
    for (const Sublayer& sublayer : layer.sublayers)
      if (const Attention* attention = std::get_if<Attention>(&sublayer)) f(*attention);
}

// One matrix of a sublayer. Where it is a stack of experts, a token is multiplied by `used` of the `experts` in it.
struct SublayerMatrix {
  const Matrix* matrix;
  uint64_t used = 1, experts = 1;
};
// The matrices that a sublayer has.
inline std::vector<SublayerMatrix> matrices_of(const Attention& a) { return {{&a.q}, {&a.k}, {&a.v}, {&a.output}}; }
inline std::vector<SublayerMatrix> matrices_of(const FeedForward& f) {
  std::vector<SublayerMatrix> all{{&f.up}, {&f.down}};
  if (f.gate) all.push_back({&f.gate});
  return all;
}
inline std::vector<SublayerMatrix> matrices_of(const Mixture& m) {
  std::vector<SublayerMatrix> all{{&m.router}};
  for (const Experts* experts : {&m.gate, &m.up, &m.down})
    if (experts->count) all.push_back({&experts->all, m.routing.used, experts->count});
  if (m.shared)
    for (const SublayerMatrix& matrix : matrices_of(*m.shared)) all.push_back(matrix);
  return all;
}
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
