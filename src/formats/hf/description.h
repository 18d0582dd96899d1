// A config.json in GGUF's terms: the metadata, and every tensor of the model with its source. Bound to files it becomes
// a checkpoint; filled with random numbers, a synthetic model.
#pragma once
#include <cstdint>
#include <optional>
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
    split_qkv,   // per head of k, the rows of its heads of q, of k and of v: all of q, then all of k, then all of v
    q_of_qkv,    // of such rows, those of q, interleaved,
    k_of_qkv,    // those of k, interleaved,
    v_of_qkv,    // those of v
    transpose,   // the file has columns where GGUF has rows
    plus_one,    // the file has weight - 1; the result is f32
    first_half,  // of the rows of each expert, where gate and up are one tensor; of its values, where it has a bias
    second_half,
    even,  // likewise, where the rows of gate and up alternate
    odd,
    top_half,  // of the rows of a matrix
    bottom_half,
    gather,          // some runs of the file's rows, one after the other
    gather_columns,  // likewise of columns
    decay,           // -e^x; the result is f32. Runs as in gather, where there are any
    flat,            // the file has one dimension
    latent_keys,     // each head has the rows of its keys, which GGUF has transposed, and then those of its values
    latent_values,   // the other rows
  };
  Kind kind = Kind::none;
  uint64_t heads = 0;    // of interleave; of the others, heads of k
  uint64_t queries = 1;  // heads of q for each head of k
  uint64_t other = 0;    // of latent_keys and latent_values: how many rows of each head are not taken
  // Of gather, gather_columns and decay: which rows or columns, of how many.
  struct Run {
    uint64_t first, count;
  };
  std::vector<Run> runs = {};
  uint64_t all = 0;
  // Rows are multiplied by a number: these many by the first, and so on, in the order of GGUF; the result is
  // f32. Empty: none is.
  struct Scale {
    uint64_t rows;
    double by;
  };
  std::vector<Scale> scales = {};
  // Stacks of matrices that some files have transposed: which it is, the shape says, and where both fit, this.
  enum class Lies : uint8_t { in_rows, rather_in_rows, rather_in_columns } lies = Lies::in_rows;
};

struct Wanted {
  std::string name;  // GGUF's
  Shape shape;
  std::vector<std::string> sources;  // in the file; several are stacked along the last dimension
  Change change;
  std::string otherwise;      // in the file, where the one source is not
  std::string fused;          // a tensor in the file that may have the experts of `sources` stacked already,
  Change fused_change;        // and its change
  std::vector<float> values;  // of a tensor that is computed from the config and in no file
  // Where the file's tensor has more rows: the first one, and how many it has. Where it has fewer, the others are 0.
  struct Rows {
    uint64_t first = 0, all = 0;
  };
  std::optional<Rows> rows = {};
};

struct Description {
  std::string architecture;
  Metadata metadata;
  std::vector<Wanted> tensors;
  // Prefixes of names in some files, and what they stand for.
  std::vector<std::pair<std::string, std::string>> prefixes;
  std::vector<std::string> unneeded;  // substrings of the names of tensors that files have and models do not need
  std::vector<std::string> warnings;  // for the user
  // Keys of metadata, and the tensors of one value each in the file that are their list.
  std::vector<std::pair<std::string, std::vector<std::string>>> lists;
  bool text_only = false;  // the class has more than the model described: pictures, sound
  // The tensors of the head for multi-token prediction, a layer more. Files have all of them or none.
  std::vector<Wanted> next_head;

  explicit Description(std::string_view name);
  void set(std::string_view key, Value value);  // <architecture>.<key>
  void set(std::string_view key, uint64_t value) { set(key, Value(static_cast<uint32_t>(value))); }
  void set(std::string_view key, double value) { set(key, Value(static_cast<float>(value))); }
  void add(std::string name, std::string source, Shape shape, Change change = {});
  void add(std::string name, std::vector<float> values);
  // The model has its next_head: its tensors are wanted, and the metadata counts its layer.
  void take_next_head();
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
// `defaults` are for what config does not name: kv_heads 0 stands for heads, head_dim 0 for hidden / heads. inner 0:
// the class reads intermediate_size.
Sizes read_sizes(Config& config, const Sizes& defaults);
void put_sizes(Description& to, const Sizes& sizes);       // all but epsilon
void put_head_length(Description& to, uint64_t head_dim);  // key_length and value_length
void put_rms_epsilon(Description& to, const Sizes& sizes);
void put_epsilon(Description& to, double epsilon);  // of a LayerNorm

struct Attention {
  bool interleave = false;  // q and k for llama's rotation
  bool qkv_bias = false, output_bias = false;
};
// attn_q, attn_k, attn_v, attn_output from self_attn.{q,k,v,o}_proj.
void add_attention(Layer& layer, const Sizes& sizes, const Attention& attention);
// ffn_gate, ffn_up, ffn_down from mlp.{gate,up,down}_proj.
void add_gated(Layer& layer, const Sizes& sizes, bool bias = false);
// ffn_up, ffn_down from `up`, `down`.
void add_plain(Layer& layer, const Sizes& sizes, std::string_view up, std::string_view down, bool bias);
// ffn_gate_exps, ffn_up_exps, ffn_down_exps: `names` are those of gate, up and down in the file.
void add_experts(Layer& layer, const Sizes& sizes, uint64_t experts, uint64_t inner, std::string_view folder,
                 const std::vector<std::string>& names);
// Weight and bias of a norm.
void add_norm(Layer& layer, std::string_view name, std::string_view source, uint64_t size, bool bias,
              Change change = {});
// output, where it is not tied to `embedding`, a name in the file; `always`: llama.cpp wants it in any case.
void add_output(Description& to, const Sizes& sizes, const std::string& embedding, bool always = false);
// token_embd, output_norm, output.
void add_ends(Description& to, const Sizes& sizes, Change norm = {}, bool always_output = false);

// layer_types, or what `key` is, of `layers` layers, each one of `allowed`; empty where config has none.
std::vector<std::string> read_layer_types(Config& config, std::string_view key, uint64_t layers,
                                          std::initializer_list<std::string_view> allowed);
// Which layers have a sliding window: what layer_types says, or `usual`, one per layer, where config has none.
std::vector<bool> read_window_layers(Config& config, const Sizes& sizes, std::vector<bool> usual);
// True in every layer but each `period`th.
std::vector<bool> all_but_each(uint64_t period, const Sizes& sizes);
// Which layers are rotated: no_rope_layers, or all but each no_rope_layer_interval-th, usually the fourth.
std::vector<bool> read_rotated_layers(Config& config, const Sizes& sizes);
// attention.clamp_kqv from clip_qkv, where that is there.
void put_clip(Description& to, Config& config);
// attention.sliding_window, and its pattern where that is not every layer but each `usual_period`th (0: every layer).
// Nothing where no layer has a window, unless `always`: in some architectures the window says more.
void put_windows(Description& to, uint64_t window, const std::vector<bool>& layers, uint64_t usual_period,
                 bool always = false);
// An Error unless no layer of the model has a sliding window.
void expect_full_attention(Config& config, const Sizes& sizes);
// The windows of Qwen: use_sliding_window, sliding_window, max_window_layers, layer_types.
void put_optional_windows(Description& to, Config& config, const Sizes& sizes);

}  // namespace heddle::formats::hf
