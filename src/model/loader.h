// Reads a checkpoint as the line of its architecture says: what the files of the loader share.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/rope_frequencies.h"
#include "model/architectures.h"
#include "model/load.h"
#include "model/load_gemma.h"
#include "model/load_pooled.h"
#include "model/load_states.h"
#include "model/reader.h"

namespace heddle::model {

// Larger numbers than any model has, and small enough for the 32-bit indices of the backends' inner loops.
constexpr uint32_t max_context = INT32_MAX, max_layers = 4096, max_experts = 4096;
constexpr uint32_t max_heads = 4096, max_head = 1 << 16;
constexpr float latent_epsilon = 1e-6f;  // of the norms of latents, whatever that of the others is

class Loader {
 public:
  Loader(const formats::Checkpoint& checkpoint, const LoadOptions& options, Model& model)
      : arch_(architecture_named(checkpoint.architecture(), checkpoint.path.string())),
        read_(checkpoint, model.storage),
        options_(options),
        model_(model) {}

  void load();

 private:
  // Layers at the end that predict a token beyond the next one are no part of the model itself.
  void skip_predicting_layers();
  void add_next_head();
  void read_ends();
  void read_pooling();
  void read_activation();
  void read_windows();
  void read_latent();
  void read_ropes();
  Rope make_rope(uint32_t dimensions, double base, const RopeScaling& scaling, double magnitude) const;
  void read_experts();
  void read_temperature();
  void read_scales();

  // The kernels of all backends have weights, and of layer norms biases: those that a file has not are 1 and 0.
  Norm norm(const std::string& name, uint64_t size);
  Vector bias(Has has, const std::string& name, uint64_t size);
  void add_layers(uint32_t index);
  Sublayer state(const std::string& blk);
  Sublayer mixture_or_feed_forward(const std::string& blk, uint32_t index);
  Attention attention(const std::string& blk, uint32_t index);
  uint32_t score_head() const { return latent_ ? latent_->plain + latent_->rotated : head_; }

  // `fills_cache`: with k and v.
  void read_projections(Attention& to, const std::string& blk, bool fills_cache);
  void read_queries(Attention& to, const std::string& blk);
  Norm own_head_norm(const std::string& name, uint32_t heads);
  void read_latent_projections(Attention& to, const std::string& blk);

  // As the paper has them: powers of 2^(-alibi / n) for n = the power of two below; further heads have every second
  // power of half that step.
  Vector slopes(uint32_t heads) const;

  std::string ffn_norm_name(const std::string& blk) const { return blk + std::string(arch_.ffn_norm); }
  // Whether the feed-forward has the input norm of the attention.
  bool shares_norm(const std::string& blk) const;
  Norm ffn_norm(const std::string& blk);
  Norm ffn_output_norm(const std::string& blk);
  Mixture mixture(const std::string& blk, uint32_t index);
  // The dense feed-forward, as the shared expert; the experts have a norm of their own, and the router another.
  void put_dense_beside(Mixture& to, const std::string& blk, uint32_t index);
  // (experts, size) in the file.
  Vector expert_bias(const std::string& name, uint64_t size);
  FeedForward feed_forward(const std::string& blk, uint32_t index);

  const Architecture& arch_;
  Reader read_;
  const LoadOptions& options_;
  Model& model_;
  uint32_t trained_ = 0, layers_ = 0, head_ = 0, value_head_ = 0;
  uint32_t window_head_ = 0, window_value_head_ = 0;  // of layers with a window, where theirs are others
  uint32_t experts_ = 0, expert_inner_ = 0, shared_inner_ = 0, latent_experts_ = 0, q_rank_ = 0, original_ = 0;
  std::vector<uint32_t> heads_, kv_heads_, inner_, windows_;
  float epsilon_ = 0, residual_scale_ = 1, attention_scale_ = 0, attention_softcap_ = 0, clamp_qkv_ = 0;
  double latent_scale_ = 1, alibi_ = 0;
  bool parallel_ = false, causal_ = true, has_windows_ = false;
  bool predicts_ = false;                            // with a NextHead
  std::optional<std::vector<bool>> rotated_layers_;  // unset: as the architecture says
  PooledReader pooled_;
  StateReader states_;
  GemmaReader gemma_;
  Activation activation_ = Activation::silu;
  std::vector<Xielu> xielu_;  // of each layer
  Routing routing_;
  Temperature temperature_;
  std::optional<Latent> latent_;  // its sizes
  Rope rope_, window_rope_;
};

}  // namespace heddle::model
