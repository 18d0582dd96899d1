// The backend itself, for the files that make it up: verbs are recorded as a plan, and the plan of a step that comes
// again is kept as a graph.
#pragma once
#include <array>
#include <map>
#include <optional>

#include "cuda/cache.h"
#include "gpu/gpu.h"
#include "gpu/phases.h"
#include "gpu/staging.h"
#include "kernels/attention/prompt_attention.h"

namespace heddle::gpu {

class GpuSteps;
class Tuner;

class Gpu : public model::Backend {
 public:
  Gpu(const model::Model& model, const model::Limits& limits, const Options& options);

  std::string describe_device() const {
    const cuda::DeviceInfo& info = context_.info();
    return fmt::format("cuda:{} {} (sm_{}, {} SMs)", info.ordinal, info.name, info.sm, info.sms);
  }
  std::string describe() const override {
    return fmt::format("{}, {} activations{}{}", describe_device(), options_.exact ? "f32" : "int8 and f16",
                       limits_.kv == model::KvFormat::q8 ? ", KV cache of q8" : "",
                       options_.deterministic ? ", deterministic" : "");
  }

  void begin(const model::Batch& batch) override;

  void embed() override {
    if (!replay_ && rows_.count) phases_->embed();
  }
  void compute(uint32_t layer, uint32_t sublayer) override {
    if (!replay_ && rows_.count) phases_->compute(layer, sublayer);
  }
  void add(uint32_t layer, uint32_t sublayer) override {
    if (!replay_ && rows_.count) phases_->add(layer, sublayer);
  }

  void keep_states() override {
    if (rows_.count) phases_->keep_states();
  }
  void logits() override;

  std::span<const float> result() override;
  std::span<const float> states() override;
  std::span<const model::Picked> pick(std::span<const model::Picking> pickings) override;
  void copy_block(uint32_t from, uint32_t to) override;
  bool usable() const override { return !context_.lost(); }

  std::unique_ptr<model::Steps> steps(const model::Batch& batch, std::span<const model::Picking> picking) override;

  ~Gpu() override;  // waits for what is under way

  std::vector<model::KernelTime> kernel_times() override { return std::exchange(times_, {}); }

 private:
  using Key = std::array<uint32_t, 3>;  // rows, class of length, kind
  friend class GpuSteps;
  friend class Tuner;

  void expect_room();
  void check_batch(const model::Batch& batch) const;

  // The batch to the device, and what kind of rows it has.
  Rows send(const model::Batch& batch, std::span<const model::Picking> picking = {});

  // Of each row's sequence, or of each sequence: the blocks up to its last position, or all. What is there already is
  // not sent again.
  void send_tables(const model::Batch& batch, const Rows& rows, bool whole);

  // How a row is picked, as far as kernels and their arguments differ by it.
  struct PickKind {
    bool changing = false, logprob = false;  // changing: some row has biases or penalties
    bool penalties = false;                  // some row has these, which look at the text
  };
  // Nothing: one of them cannot be done here.
  std::optional<PickKind> kind_of(std::span<const model::Picking> pickings) const;
  // `texts`: what was said so far is sent too.
  void send_picking(std::span<const model::Picking> picking, bool texts);
  // A token for each of `rows` rows of logits, by the parameters on the device.
  void record_pick(uint32_t rows, uint64_t logits, uint64_t picked, const PickKind& kind, bool texts);

  // What the phases have recorded.
  void run();

  // Logits are computed for some outputs at a time, where there are more than the device has room for.
  struct Part {
    size_t first = 0, count = 0;    // of the outputs
    std::optional<uint32_t> row{};  // the first one's, where their rows follow each other and `product` takes them
  };
  Part part_from(size_t first) const;
  void compute_part(const Part& part);
  // f(part) for all outputs, with the part's logits on the device.
  void each_part(auto&& f) {
    for (size_t first = 0; first < outputs_.size();) {
      const Part part = keep_ ? there_ : part_from(first);
      check(part.count > 0, "logits before what is made of them");
      if (part.first != there_.first || there_.count == 0) compute_part(part);
      f(part);
      first += part.count;
    }
  }

  // Assembles the kernels of the usual steps on all cores, before the first of them is asked for.
  void load_kernels();
  std::vector<uint32_t> kinds_of_layers();
  void load_attention(const DeviceAttention& attention);
  void load_prompts(const std::vector<uint32_t>& layers);
  void record_step(uint32_t rows, uint32_t longest, const PickKind& kind);
  // The graph of a step that picks by itself.
  cuda::Graph& step_graph(uint32_t rows, uint32_t longest, const PickKind& kind);

  const model::Model& model_;
  const model::Limits limits_;
  const Options options_;
  cuda::Context context_;
  cuda::Cache cache_;
  Library library_;
  Tuning tuning_;
  cuda::Stream stream_;
  WorkSizes sizes_;
  DeviceModel weights_;
  std::optional<Work> work_;
  std::vector<cuda::Buffer> keys_, values_;  // of each attention
  std::optional<Phases> phases_;
  std::optional<Staging> staging_;
  std::vector<std::vector<uint32_t>> tables_;  // as they are on the device

  Rows rows_;
  std::vector<uint32_t> outputs_, wanted_states_;
  Key key_{};
  bool keep_ = false;              // this step's plan becomes a graph
  cuda::Graph* replay_ = nullptr;  // and is one already
  std::map<Key, cuda::Graph> graphs_;

  cuda::PinnedBuffer logits_, picked_;
  std::vector<cuda::Event> arrived_;
  Part there_;  // whose logits are on the device; count 0: none
  bool fetched_ = false;
  std::vector<float> result_, states_;
  std::vector<model::Picked> picks_;
  std::vector<model::KernelTime> times_;
  double traced_ = 0;
};

// See model::Steps. The graph writes what it picked into a ring, from which it is copied to the host.
class GpuSteps : public model::Steps {
 public:
  // `most`: steps for which every row has a block.
  GpuSteps(Gpu& gpu, uint32_t rows, uint32_t longest, uint32_t most, const Gpu::PickKind& kind);
  ~GpuSteps() override;
  void launch() override;
  std::span<const model::Picked> take() override;

 private:
  Gpu& gpu_;
  uint32_t rows_, longest_, most_;
  Gpu::PickKind kind_;
  uint64_t launched_ = 0, taken_ = 0;
  std::vector<model::Picked> last_;
};

}  // namespace heddle::gpu
