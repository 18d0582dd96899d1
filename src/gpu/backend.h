// The backend itself, for the files that make it up: verbs are recorded as a plan, and the plan of a step that comes
// again is kept as a graph.
#pragma once
#include <array>
#include <map>
#include <optional>

#include "cuda/cubin_cache.h"
#include "gpu/gpu.h"
#include "gpu/phases.h"
#include "gpu/staging.h"
#include "kernels/attention/prompt_attention.h"

namespace heddle::gpu {

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
  void head() override;
  model::Result result() override;

  bool can_pick(const model::Picking& picking) const override;
  uint32_t max_in_flight() const override { return options_.trace ? 1 : kept_steps; }
  uint32_t max_followed_rows() const override { return options_.trace || !can_pick({}) ? 0 : few_rows; }
  void copy_block(uint32_t from, uint32_t to) override;
  bool usable() const override { return !context_.lost(); }

  ~Gpu() override;  // waits for what is under way

  std::vector<model::KernelTime> kernel_times() override { return std::exchange(times_, {}); }

 private:
  using Key = std::array<uint32_t, 3>;  // rows, class of length, kind
  friend class Tuner;

  void expect_room();
  void check_batch(const model::Batch& batch) const;

  // The batch to the device. Sets rows_ and step_.
  void send(const model::Batch& batch);
  // Whether it is a step: a batch that others can follow, because it ends with what the next one begins with.
  bool is_step(const model::Batch& batch, const Rows& rows) const;
  // Of each row's sequence, or of each sequence: the blocks up to its last position, or all. What is there already is
  // not sent again.
  void send_tables(const model::Batch& batch, const Rows& rows, bool whole);

  // How rows are picked, as far as kernels and their arguments differ by it.
  struct PickKind {
    bool changing = false, logprob = false;  // changing: some row has biases or penalties
    bool penalties = false;                  // some row has these, which look at the text
  };
  PickKind kind_of(std::span<const std::optional<model::Picking>> pickings) const;
  // `texts`: those are sent too. Rows without a picking get the default one.
  void send_picking(std::span<const std::optional<model::Picking>> pickings, bool texts);
  // A token for each of `rows` rows of logits, by the parameters on the device.
  void record_pick(uint32_t rows, uint64_t logits, uint64_t picked, const PickKind& kind, bool texts);
  void record_advance(uint32_t rows);  // what was picked becomes the input of the next step

  // What the phases have recorded: launched one by one, or as the graph of key_.
  void run();
  void run_graph();

  // Logits are computed for some outputs at a time, where there are more than the device has room for.
  struct Part {
    size_t first = 0, count = 0;    // of the outputs
    std::optional<uint32_t> row{};  // the first one's, where their rows follow each other and `product` takes them
  };
  Part part_from(size_t first) const;
  void head_of_step();
  void head_of_batch();
  bool picks(size_t output) const { return !picks_.empty() && picks_[output]; }  // on the device
  void pick(const Part& part);                                                   // what is to be picked of it
  void fetch(const Part& part);                                                  // its other logits, towards the host
  void keep_fetched();  // waits for them, and makes room for more
  void read_states();

  // Assembles the kernels of the usual steps on all cores, before the first of them is asked for.
  void load_kernels();
  std::vector<uint32_t> kinds_of_layers();
  void load_attention(const DeviceAttention& attention);
  void load_prompts(const std::vector<uint32_t>& layers);
  void record_step(uint32_t rows, uint32_t longest);

  const model::Model& model_;
  const model::Limits limits_;
  const Options options_;
  cuda::Context context_;
  cuda::CubinCache cache_;
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

  const model::Batch* batch_ = nullptr;  // until its last verb
  Rows rows_;
  PickKind kind_;
  std::vector<uint32_t> wanted_states_;
  bool step_ = false;                  // others can follow this batch,
  uint32_t max_steps_ = 0;             // this one included, so many: every row has a block for them
  uint64_t launched_ = 0, taken_ = 0;  // batches since the last that followed none
  Key key_{};
  bool keep_ = false;              // this batch's plan becomes a graph
  cuda::Graph* replay_ = nullptr;  // and is one already
  std::map<Key, cuda::Graph> graphs_;

  cuda::PinnedBuffer fetched_, picked_;  // picked_ of steps: a ring, (kept_steps, few_rows)
  size_t fetched_rows_ = 0;              // of logits, on their way to fetched_
  std::vector<cuda::Event> arrived_;     // of each step in the ring
  std::vector<std::optional<model::Picked>> picks_;
  std::vector<float> logits_, states_;
  std::vector<model::KernelTime> times_;
  double traced_ = 0;
};

}  // namespace heddle::gpu
