// A config.json in GGUF's terms: the metadata, and every tensor of the model with its source. Bound to files it becomes
// a checkpoint; filled with random numbers, a synthetic model.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/hf/config.h"
#include "formats/metadata.h"

namespace heddle::formats::hf {

using Shape = std::vector<uint64_t>;  // the length of a row first, as in GGUF

// How the file's tensor becomes GGUF's.
struct Change {
  enum class Kind {
    none,
    interleave,  // per head, the two halves of its rows become pairs: the order for GGUF's rotation of llama
    split_qkv,   // rows (head, q/k/v, i) become (q/k/v, head, i)
    transpose,   // the file has columns where GGUF has rows
    plus_one,    // the file has weight - 1; the result is f32
    first_half,  // of the rows of each expert, where gate and up are one tensor
    second_half,
  };
  Kind kind = Kind::none;
  uint64_t heads = 0;  // of interleave and split_qkv
};

struct Wanted {
  std::string name;  // GGUF's
  Shape shape;
  std::vector<std::string> sources;  // in the file; several are stacked along the last dimension
  Change change;
  std::string fused;          // a tensor in the file that may have the experts of `sources` stacked already,
  Change fused_change;        // and its change
  std::vector<float> values;  // of a tensor that is computed from the config and in no file
};

struct Description {
  std::string architecture;
  Metadata metadata;
  std::vector<Wanted> tensors;
  // Prefixes of names in some files, and what they stand for.
  std::vector<std::pair<std::string, std::string>> prefixes;
  std::vector<std::string> unneeded;  // substrings of the names of tensors that files have and models do not need

  explicit Description(std::string_view name);
  void set(std::string_view key, Value value);  // <architecture>.<key>
  void set(std::string_view key, uint64_t value) { set(key, Value(static_cast<uint32_t>(value))); }
  void set(std::string_view key, double value) { set(key, Value(static_cast<float>(value))); }
  void add(std::string name, std::string source, Shape shape, Change change = {});
  void add(std::string name, std::vector<float> values);
};

// The tensors of one layer, whose names begin with `gguf` and `file`.
struct Layer {
  Description& to;
  std::string gguf, file;

  Layer(Description& description, std::string_view file_layers, uint64_t number);
  void weight(std::string_view name, std::string_view source, Shape shape, Change change = {});
  void bias(std::string_view name, std::string_view source, uint64_t size, Change change = {});
};

// The hyperparameters that nearly all models have.
struct Sizes {
  uint64_t vocabulary, hidden, inner, layers, heads, kv_heads, head_dim, context;
  double epsilon;
  bool tied;
};
// `defaults` are for what config does not name: kv_heads 0 stands for heads, head_dim 0 for hidden / heads.
Sizes read_sizes(Config& config, const Sizes& defaults);
void put_sizes(Description& to, const Sizes& sizes);       // all but epsilon
void put_head_length(Description& to, uint64_t head_dim);  // key_length and value_length
void put_rms_epsilon(Description& to, const Sizes& sizes);

struct Attention {
  bool interleave = false;  // q and k for llama's rotation
  bool qkv_bias = false, output_bias = false;
};
// attn_q, attn_k, attn_v, attn_output from self_attn.{q,k,v,o}_proj.
void add_attention(Layer& layer, const Sizes& sizes, const Attention& attention);
// ffn_gate, ffn_up, ffn_down from mlp.{gate,up,down}_proj.
void add_gated(Layer& layer, const Sizes& sizes, bool bias = false);
// ffn_gate_exps, ffn_up_exps, ffn_down_exps: `names` are those of gate, up and down in the file.
void add_experts(Layer& layer, const Sizes& sizes, uint64_t experts, uint64_t inner, std::string_view folder,
                 const std::vector<std::string>& names);
// token_embd, output_norm, and output where it is not tied; `always_output`: llama.cpp wants it in any case.
void add_ends(Description& to, const Sizes& sizes, Change norm = {}, bool always_output = false);

// An Error unless no layer of the model has a sliding window.
void expect_full_attention(Config& config, const Sizes& sizes);

}  // namespace heddle::formats::hf
