// What a model is once it is read, and what a device must do with it: the verbs of a forward pass. The forward pass
// calls the verbs, a backend carries them out; neither knows more of the other than this page.
#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quant/format.h"

namespace heddle::model {

// Weights as they lie in the file: `rows` rows of `cols` values. y = W x has a value per row.
struct Matrix {
  quant::Format format = quant::Format::f32;
  uint64_t rows = 0, cols = 0;
  std::span<const uint8_t> data;

  explicit operator bool() const { return rows != 0; }
  uint64_t row_bytes() const { return quant::row_bytes(format, cols); }
  Matrix part(uint64_t first, uint64_t count) const {
    return {format, count, cols, data.subspan(first * row_bytes(), count * row_bytes())};
  }
};
using Vector = std::vector<float>;  // norms and biases are small: decoded once; empty where there is none

struct Norm {
  enum class Kind : uint8_t { none, rms, layer } kind = Kind::none;
  Vector weight, bias;
  float epsilon = 0;
};

struct Rope {
  enum class Style : uint8_t {
    none,
    pairs,   // neighbours are turned: 2i and 2i + 1
    halves,  // values half of `dimensions` apart: i and i + dimensions / 2
  } style = Style::none;
  uint32_t dimensions = 0;      // of a head, from its beginning; the rest stays as it is
  std::vector<double> radians;  // per position, one per pair
  double magnitude = 1;         // of what was turned
};

struct Attention {
  Norm norm;  // of the input
  Matrix q, k, v;
  Vector q_bias, k_bias, v_bias;
  Norm q_norm, k_norm;  // before the rotation: over each head, or over all of them where the weight is that long
  Rope rope;
  uint32_t heads = 0, kv_heads = 0, head = 0, value_head = 0;
  float scale = 1;      // of the scores
  float softcap = 0;    // scores become cap * tanh(score / cap); 0: none
  uint32_t window = 0;  // a position sees itself and window - 1 before it; 0: all
  Matrix output;
  Vector output_bias;
  Norm output_norm;  // before the result is added
};

enum class Activation : uint8_t { silu, gelu, gelu_tanh };

struct Experts {  // matrices one after the other
  uint64_t count = 0;
  Matrix all;
  Matrix expert(uint64_t index) const { return all.part(index * (all.rows / count), all.rows / count); }
};

struct FeedForward {
  Norm norm;
  Activation activation = Activation::silu;
  Matrix gate, up, down;  // down(activation(gate x) * up x); without a gate, down(activation(up x))
  Vector gate_bias, up_bias, down_bias;
  // A mixture: the router picks `used` experts by softmax, and their results are added by that weight. gate, up and
  // down are then the shared expert, if there is one, which counts by the sigmoid of shared_router . x.
  Matrix router;
  Experts gate_experts, up_experts, down_experts;
  uint32_t used = 0;
  bool weights_sum_to_one = false;  // of the experts picked
  Vector shared_router;
  Norm output_norm;
};

struct Layer {
  Attention attention;
  FeedForward ffn;
  bool parallel = false;  // both read the layer's input; otherwise ffn reads what attention left
  float residual_scale = 1;
};

// How the states of a text's tokens become the one of the text, where an embedding is asked for. Numbers as in GGUF.
enum class Pooling : uint8_t {
  none,  // of each token by itself: mean, where one is asked for all the same
  mean,
  cls,   // that of the first token
  last,  // that of the last
  rank,  // a score of two texts: there is no embedding
};

struct Model {
  std::string name, architecture;
  uint32_t context = 0, width = 0, vocabulary = 0;
  Matrix embedding, positions;  // `positions`: learned ones, added
  float embedding_scale = 1;
  std::vector<Layer> layers;
  Norm norm;
  Matrix output;  // the embedding, where the two are tied
  Vector output_bias;
  float logit_scale = 1, logit_softcap = 0;
  Pooling pooling = Pooling::mean;

  // What the matrices point into.
  std::shared_ptr<const void> file;
  std::vector<std::vector<uint8_t>> made;
};

// The rows of one step: any mix of sequences, in any lengths. Positions of a sequence ascend; what lies before them is
// in its KV blocks already.
struct Batch {
  std::vector<uint32_t> tokens, positions, sequences;  // one per row; `sequences` names a block table
  std::vector<std::vector<uint32_t>> blocks;           // per sequence: which KV blocks hold its positions, in order
  std::vector<uint32_t> outputs;                       // rows whose logits are wanted, ascending
  std::vector<uint32_t> states;                        // rows whose states are wanted, ascending
};

// What the KV cache keeps of each value.
enum class KvFormat : uint8_t {
  f16,
  q8,  // int8, with an f16 scale for each 32 values of a head: sizes of heads must be multiples of 32
};

struct Limits {
  uint32_t rows = 512;         // of a batch
  uint32_t kv_blocks = 0;      // in the cache
  uint32_t block_tokens = 32;  // positions of a block
  KvFormat kv = KvFormat::f16;
};

// Bytes that a model takes on a device.
struct Memory {
  uint64_t weights = 0, kv = 0, workspace = 0;
  uint64_t total() const { return weights + kv + workspace; }
};
// Of the KV cache.
inline uint64_t kv_bytes(const Model& model, const Limits& limits) {
  uint64_t values = 0;  // of one position
  for (const Layer& layer : model.layers)
    values += uint64_t(layer.attention.kv_heads) * (layer.attention.head + layer.attention.value_head);
  values *= uint64_t(limits.kv_blocks) * limits.block_tokens;
  return limits.kv == KvFormat::f16 ? values * 2 : values / 32 * 34;
}

// How the next token of a row is picked on the device. Fields mean what those of engine::Sampling do.
struct Picking {
  float temperature = 0;
  uint32_t top_k = 0;
  float top_p = 1;
  double log_min_p = -INFINITY;
  float repetition = 1, presence = 0, frequency = 0;
  uint32_t repetition_last = 0;                    // ~0: all
  std::vector<std::pair<uint32_t, float>> biases;  // each token once
  uint64_t seed = 0, picks = 0;                    // picks: made before
  std::vector<uint32_t> text;                      // the tokens so far
  uint32_t prompt = 0;                             // how many of them are the prompt
  bool logprob = false;
};
struct Picked {
  uint32_t id;  // ~0: the logits had nothing to pick from
  float log_probability;
};

// Rows that go on by themselves: what a step picks is what the next one is fed, on the device.
class Steps {
 public:
  virtual ~Steps() = default;
  virtual void launch() = 0;                   // one more step of all rows; does not wait for it
  virtual std::span<const Picked> take() = 0;  // what the oldest step picked that was launched and not taken; waits
};

// How long a kernel took, for those who look.
struct KernelTime {
  std::string kernel, phase;
  int layer;              // -1: none
  double start, seconds;  // on the device's clock
  uint64_t bytes;         // of weights and cache
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string describe() const = 0;  // "reference (f32)"
  virtual void begin(const Batch& batch) = 0;
  virtual void embed() = 0;
  virtual void qkv(uint32_t layer) = 0;  // norm, products, biases, rotation; k and v go to the cache
  virtual void attend(uint32_t layer) = 0;
  virtual void output_add(uint32_t layer) = 0;   // product, norm, residual
  virtual void ffn_in(uint32_t layer) = 0;       // norm, gate and up, activation
  virtual void ffn_out_add(uint32_t layer) = 0;  // down, norm, residual
  // Of the rows in Batch::states, what the last layer left and the final norm made of it. Called where there are any.
  virtual void keep_states() {}
  virtual void logits() = 0;
  virtual std::span<const float> result() = 0;  // (outputs, vocabulary), until the next begin(); waits for the batch
  virtual std::span<const float> states() { return {}; }  // (states, width), the same; nothing: this backend cannot
  // Instead of result(): a token for each output, picked on the device (the texts may be left empty where no penalty
  // looks at them). Nothing: this backend, or one of these pickings, cannot; result() is still there.
  virtual std::span<const Picked> pick(std::span<const Picking>) { return {}; }

  // Of the KV cache, in all layers, from the first to the second; between two batches.
  virtual void copy_block(uint32_t from, uint32_t to) = 0;
  // False after a fault that nothing can be computed after.
  virtual bool usable() const { return true; }

  // Steps from these rows on, one per sequence; blocks must be there for all positions to come. Null: this backend, or
  // this picking, cannot: feed what was picked. The backend does nothing else until they are gone.
  virtual std::unique_ptr<Steps> steps(const Batch&, std::span<const Picking>) { return nullptr; }
  // Of the kernels since it was last asked, where the backend was told to keep them.
  virtual std::vector<KernelTime> kernel_times() { return {}; }
};

// A layer of a forward pass in the order of its verbs, for whoever has them: a backend, or what a backend records.
void run_layer(const Model& model, uint32_t i, auto& verbs) {
  verbs.qkv(i);
  verbs.attend(i);
  if (model.layers[i].parallel) verbs.ffn_in(i);  // before the residual changes
  verbs.output_add(i);
  if (!model.layers[i].parallel) verbs.ffn_in(i);
  verbs.ffn_out_add(i);
}
void run_layers(const Model& model, auto& verbs) {
  for (uint32_t i = 0; i < model.layers.size(); ++i) run_layer(model, i, verbs);
}

}  // namespace heddle::model
