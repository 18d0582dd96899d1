// A forward pass as launches in a plan: records the verbs of model::Backend for the rows of a batch, and runs nothing.
#pragma once
#include "gpu/paths.h"
#include "kernels/attention/kv_cache.h"
#include "kernels/mixture/mixture.h"
#include "kernels/product/wgmma_product.h"

namespace heddle::gpu {

class Forward {
 public:
  explicit Forward(const Resources& resources) : r_(resources), paths_(r_) {}
  Forward(const Forward&) = delete;  // paths refer to its resources

  // A new plan, for these rows.
  void begin(const Rows& rows);
  void embed();
  void compute(uint32_t layer, uint32_t sublayer);
  void add(uint32_t layer, uint32_t sublayer);
  void keep_states();  // of all rows, to work.result, or with a NextHead to work.results
  // The logits of `count` outputs, to work.logits: of the rows from `from_row` on, or of those that work.outputs names
  // from `first` on.
  void logits(uint32_t first, uint32_t count, std::optional<uint32_t> from_row);

  void attend(const DeviceAttention& attention);  // the phase of compute() whose kernels depend on the lengths
  // The longest sequence of a class, for which graphs of that class are recorded.
  uint32_t longest_of(LengthClass length) const;
  const Paths& paths() const { return paths_; }

 private:
  // A norm that the product before it begins, and the one after it ends (kernels/product/late_norm.h), saves a launch.
  // For few rows only: with more, writing the rows in that order takes as long. Not with Options::deterministic, by
  // which the number of rows must not matter.
  struct Place {
    uint32_t layer, sublayer;
  };
  std::optional<Place> after(Place at) const;  // the sublayer that follows this one
  // How the sublayer after this one takes rows of a late norm; none: it cannot, or this one cannot begin it.
  std::optional<Path::Forms> late_forms_after(Place at) const;
  uint32_t late_norms_after(Place at) const;  // one after the other
  // The input of the sublayer that is computed: the residual stream through its norm.
  Input normed(const DeviceNorm& norm);
  // The norm that its product begins, if it does.
  const LateNorm* begin_late_norm();

  void compute(const DeviceAttention& a);
  void compute(const DeviceFeedForward& f);
  void compute(const DeviceMixture& m);
  void compute(const DeviceRecurrence& r);
  void compute(const DeviceShortConvolution& c);
  void compute(const DeviceAltup& a);
  void compute(const DeviceNextHead& h);
  void add(const DeviceAttention& a, float scale);
  void add(const DeviceFeedForward& f, float scale);
  void add(const DeviceMixture& m, float scale);
  void add(const DeviceRecurrence& r, float scale);
  void add(const DeviceShortConvolution& c, float scale);
  void add(const DeviceAltup& a, float scale);
  void add(const DeviceNextHead& h, float scale);

  // Beside the residual stream (streams.cpp).
  void find_token_inputs(const DeviceTokenInputs& inputs);
  void add_laurel(const DeviceAttention& a);
  void add_to_others(const DeviceFeedForward& f);
  uint64_t other_stream(uint32_t i) const;

  Input residual(const DeviceNorm& norm, uint32_t first_row = 0) const;  // the residual stream, through a norm
  Input last_rows(uint32_t first_row);                                   // what the output matrix reads
  // y = scale * the rows of a table, or with `add` y += that.
  void look_up(const Weights& table, uint64_t ids, float scale, uint64_t y, bool add);
  void route(const DeviceMixture& m);
  bool groups(const DeviceMixture& m) const;  // rows by expert
  void add_experts(const DeviceMixture& m, float scale, uint32_t first_row, uint32_t count);
  void add_grouped_experts(const DeviceMixture& m, float scale);
  template <class Spec>
  void add_grouped_experts(const DeviceMixture& m, float scale, const Spec& in, const Spec& down);
  template <class Spec>
  void grouped_product(const Spec& spec, const Weights& w, uint64_t y, uint32_t stride, uint32_t slots);
  void add_shared(const DeviceMixture& m, float scale, uint32_t first_row, uint32_t count);
  // What the experts read, and where their sum goes.
  Input expert_input(const DeviceMixture& m, uint32_t first_row = 0) const;
  struct ExpertSum {
    uint64_t y;
    uint32_t cols;
    bool add;  // to what is there
    float scale;
    bool shared;  // with the shared expert's result
  };
  ExpertSum expert_sum(const DeviceMixture& m, float scale) const;
  void finish_mixture(const DeviceMixture& m, float scale);
  kernels::Mix::Args mix_args(const DeviceMixture& m, float scale, uint32_t first_row, uint32_t count) const;

  // Of sublayers with a state.
  struct Convolved {
    uint64_t y, x;
    uint32_t y_stride, x_stride;
    bool silu, gates;
  };
  void convolve(const model::Convolution& c, const DeviceConvolution& weights, uint32_t state, const Convolved& rows);
  template <class Args>
  void set_runs(Args& args) const;
  uint32_t parts_of_runs() const;
  void recur(const model::Recurrence& m, kernels::Recurrence::Args args);
  void gate_attended(const DeviceAttention& a);

  // Of latent attention: rows of a batch, and the prompt that they are if its latents become keys and values.
  struct LatentRows {
    uint32_t first, count;
    const LongPrompt* prompt = nullptr;
  };
  void compute_latent(const DeviceAttention& a);
  std::vector<LatentRows> divide_latent(const model::Attention& a) const;
  void queries_of(const DeviceAttention& a, const Path::Queries& q, uint64_t kv, const LatentRows& rows);
  void attend_latents(const DeviceAttention& a, const LatentRows& rows);
  void attend_expanded(const DeviceAttention& a, const Path::Queries& q, const LongPrompt& prompt);
  uint32_t expanded_heads(const model::Attention& a, const LongPrompt& prompt) const;  // at once
  uint32_t latent_splits(const model::Attention& a, uint32_t rows) const;
  HalfForm attended_form(const DeviceAttention& attention) const;
  kernels::AttentionArgs attention_args(const DeviceAttention& attention) const;
  uint64_t cache_bytes(const model::Attention& a) const;  // that attention reads
  void attend_newest(const DeviceAttention& attention, const AttentionPath& path);
  void attend_prompts(const DeviceAttention& attention, const AttentionPath& path);
  void attend_any(const DeviceAttention& attention);

  const Resources r_;
  Paths paths_;
  Rows rows_;
  Path* path_ = nullptr;  // of these rows
  Place at_{};            // the sublayer that is computed or added
  float after_ = 1;       // what the norm before the residual stream then multiplies it by
  LateNorm late_;         // the last one that was begun
  // How many late norms there were, where more may follow.
  std::optional<uint32_t> late_norms_;
};

}  // namespace heddle::gpu
