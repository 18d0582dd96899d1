// The class behind make_gpu(), for the files that implement it. A batch is recorded as a plan and run; the plans of
// batches that recur are kept as graphs. A step is a batch that others can follow: it ends by picking the tokens that
// the next one starts from.
#pragma once
#include <array>
#include <map>

#include "base/workers.h"
#include "cuda/cubin_cache.h"
#include "gpu/forward.h"
#include "gpu/gpu.h"
#include "gpu/visitors.h"
#include "kernels/attention/prompt_attention.h"

namespace heddle::gpu {

// Pinned memory for what a batch sends to the device, until it has been copied.
class Staging {
 public:
  Staging(const cuda::Context& context, size_t bytes) : pinned_(context, bytes), sent_(context, cuda::Event::untimed) {}

  // Waits for the copies of the last batch.
  void begin() {
    sent_.synchronize();
    used_ = 0;
  }
  template <class T>
  void send(cuda::Stream& stream, uint64_t to, std::span<const T> data) {
    if (data.empty()) return;
    check(used_ + data.size_bytes() <= pinned_.bytes(), "staging memory for all that a batch sends");
    std::memcpy(pinned_.data() + used_, data.data(), data.size_bytes());
    cuda::write_device(stream, to, pinned_.data() + used_, data.size_bytes());
    used_ += (data.size_bytes() + 15) / 16 * 16;
  }
  void end(cuda::Stream& stream) { sent_.record(stream); }

 private:
  cuda::PinnedBuffer pinned_;
  cuda::Event sent_;
  size_t used_ = 0;
};

// Pinned memory between the cache and the host: slots of equal size, each with the copies that it is still needed for.
struct KvStaging {
  struct Slot {
    cuda::PinnedBuffer pinned;
    cuda::Event copied;
  };
  std::vector<Slot> slots;
  size_t next = 0;
  // Where the parts of a block lie, by model::KvPart.
  struct Places {
    cuda::Buffer table;  // kernels::PartPlace
    uint32_t count = 0, largest = 0;
    bool wide = true;  // all are multiples of 16
  };
  std::array<Places, 3> places;
  Workers helpers{3};  // copy between them and other memory: one thread is slower than the bus
};

class Gpu : public model::Backend {
 public:
  Gpu(const model::Model& model, const model::Limits& limits, const Options& options);
  ~Gpu() override;  // waits for the device

  std::string describe() const override;
  void begin(const model::Batch& batch) override;
  void embed() override {
    record([&] { forward_->embed(); });
  }
  void compute(uint32_t layer, uint32_t sublayer) override;
  void add(uint32_t layer, uint32_t sublayer) override;
  void keep_states() override {
    record([&] { forward_->keep_states(); });
  }
  void head() override;
  void allow(std::span<const std::span<const uint32_t>> masks) override;
  model::Result result() override;

  std::span<const float> residual() override;
  void set_residual(std::span<const float> rows) override;

  bool can_pick(const model::Picking& picking) const override;
  uint32_t max_in_flight() const override { return options_.trace ? 1 : max_steps_in_flight; }
  uint32_t max_followed_rows() const override { return options_.trace || !can_pick({}) ? 0 : max_step_rows; }
  uint32_t max_followed_changes() const override { return sizes_.changed_at_once(); }
  void copy_block(uint32_t from, uint32_t to) override;
  void copy_window_block(uint32_t from, uint32_t to) override;
  void copy_state(uint32_t from, uint32_t to) override;
  std::string kv_layout() const override { return options_.exact ? "gpu, exact" : "gpu"; }
  uint64_t kv_part_bytes(model::KvPart part) const override;
  void read_kv(std::span<const model::KvRead> reads) override;
  void write_kv(model::KvPlace place, std::span<const uint8_t> bytes) override;
  bool usable() const override { return !context_.lost() && (!ranks_ || ranks_->failure().empty()); }
  std::vector<model::KernelTime> kernel_times() override { return std::exchange(times_, {}); }

 private:
  friend class Tuner;

  // One for each number of streams up to a usual crowd of 64, in two classes of lengths. A step without one is launched
  // kernel by kernel: some 300 launches for an 8B model. Of a part of a model, one for each stretch between two
  // crossings.
  static constexpr size_t max_graphs = 128, max_graphs_of_part = 2048;

  // What the kernels that pick, and their arguments, depend on.
  struct PickKind {
    uint32_t changed = 0;  // rows with biases or penalties
    bool logprob = false, tops = false;
    uint32_t masked = 0;  // rows that are constrained
  };
  // compute() or add() of a sublayer.
  struct Verb {
    bool adds;
    uint32_t layer, sublayer;
    auto operator<=>(const Verb&) const = default;
  };
  // Batches with equal keys run the same graph.
  struct GraphKey {
    uint32_t rows = 0;
    LengthClass length = LengthClass::up_to_short;
    bool step = false, predicts = false;
    bool changes_logits = false, logprob = false, tops = false;  // of steps only, which pick in the graph
    bool masked = false;                                         // of steps only, which pick after it
    std::vector<Verb> verbs{};                                   // of parts only
    auto operator<=>(const GraphKey&) const = default;
  };
  struct KeptGraph {
    cuda::Graph graph;
    uint64_t used = 0;  // when, by graph_uses_
  };
  // The outputs that get their logits at once: all of a batch, or as many as fit on the device.
  struct OutputRange {
    size_t first = 0, count = 0;
    std::optional<uint32_t> row{};  // of the first output, if their rows are consecutive
  };

  // The model is a part of one (model/split.h): rows come from another backend and go to it, so that batches do not
  // follow one another, and a batch is a graph for each stretch between two crossings.
  bool is_part() const { return !model_.embedding; }
  bool is_visit(uint32_t layer, uint32_t sublayer) const {
    return visitors_ && rows_.count > 0 && visitors_->visits(layer, sublayer);
  }
  std::string describe_device() const;
  void expect_room();
  void check_batch(const model::Batch& batch) const;
  // Launches that are to be no graph are run while the next are recorded: the device does not wait for the last of
  // them.
  void record(auto&& launches) {
    end_stretches();
    if (replay_ || rows_.count == 0) return;
    launches();
    if (!keep_ && !options_.trace) run_recorded();
  }

  // --- backend.cpp
  void head_of_step();
  void fetch_step(uint64_t step);
  void head_of_batch();
  OutputRange compute_logits(size_t first_output);
  void pick_outputs(OutputRange range);  // of these logits, and of all outputs behind them
  OutputRange outputs_from(size_t first) const;
  // Run what was recorded, launch by launch; or the graph of key_, if there is one.
  void run();
  void run_recorded();  // of a plan that is not complete yet
  void run_kept();
  void run_traced();
  void run_traced_so_far();  // what was recorded, where kernels are timed: the next launches depend on more than it
  void keep_graph(const GraphKey& key);  // of what was run launch by launch
  void run_stretch();                    // what stretch_ has
  void end_stretches();                  // the rest of the batch is launched kernel by kernel

  // --- transfers.cpp
  void send(const model::Batch& batch);  // sets rows_ and step_
  void send_turns(bool long_text);       // what attentions rotate by, if the batch before had others
  bool is_step(const model::Batch& batch, const Rows& rows) const;
  void send_runs(const model::Batch& batch, Rows& rows);
  void copy_results(const model::Batch& batch);
  void send_text_lengths(const model::Batch& batch, std::span<const kernels::PromptTile> tiles);
  // Sends the block tables that changed: up to the last position of the batch, or whole.
  void send_tables(const model::Batch& batch, const Rows& rows, bool whole);
  void send_tables(const model::Batch& batch, const Rows& rows, bool whole, bool of_windows);
  void copy_blocks(bool of_windows, uint32_t from, uint32_t to);
  void send_picking(std::span<const std::optional<model::Picking>> pickings);
  void send_text(const model::Picking& picking, uint32_t place);
  void send_masks(uint32_t count);                                 // the next of masks_
  void fetch_picks(size_t slot, uint64_t picked, size_t outputs);  // to a slot of the ring
  void fetch_logits(const OutputRange& range);                     // of the outputs that are not picked on the device
  void wait_for_logits();
  void read_states();

  // --- kv_bytes.cpp
  // f(address, bytes) for each contiguous part of what a place keeps.
  void each_kv_part(model::KvPlace place, auto&& f) const;
  size_t kv_staging_slots();  // of which each has the bytes of any place
  const KvStaging::Places& kv_places(model::KvPart part);
  void move_kv(model::KvPlace place, std::byte* pinned, bool to_host);

  // --- pick.cpp
  PickKind kind_of(std::span<const std::optional<model::Picking>> pickings) const;
  bool picks(size_t output) const { return !picks_.empty() && picks_[output]; }  // on the device
  void pick(const OutputRange& range);
  // A token for each of `rows` rows of logits, by the parameters on the device: outputs from `first` on.
  void record_pick(uint32_t rows, uint64_t logits, size_t first, const PickKind& kind);
  void record_advance(uint32_t rows);  // the tokens picked become the input of the next step

  // --- load_kernels.cpp
  void load_kernels();
  void list_step(uint32_t rows, uint32_t longest);
  void list_embedding();
  void list_logits(uint32_t outputs, std::optional<uint32_t> from_row);
  void list_attention(const DeviceAttention& attention);
  void list_prompts(const std::vector<uint32_t>& layers);
  void list_experts(const std::vector<uint32_t>& layers);

  const model::Model& model_;
  const model::Limits limits_;
  const bool both_directions_;  // some attention sees both directions
  const Options options_;
  cuda::Context context_;
  cuda::CubinCache cubins_;
  Library library_;
  Tuning tuning_;
  cuda::Stream stream_;
  WorkSizes sizes_;
  DeviceModel weights_;
  std::optional<Visitors> visitors_;
  std::optional<RankSums> ranks_;
  std::optional<Work> work_;
  std::vector<KvCache> caches_;           // by DeviceAttention::cache
  std::vector<StateCache> state_caches_;  // by DeviceRecurrence::state
  Recorder recorder_;
  std::optional<Forward> forward_;
  std::optional<Staging> staging_;
  KvStaging kv_staging_;                       // empty until bytes of the cache are read or written
  model::BlockTables tables_, window_tables_;  // as they are on the device

  const model::Batch* batch_ = nullptr;  // until its last verb
  Rows rows_;
  PickKind kind_;
  std::vector<uint32_t> wanted_states_;
  bool step_ = false;                                 // the batch is a step
  bool predicted_ = false;                            // the last batch did, with what is in work.before
  bool long_text_ = false;                            // what attentions rotate by now
  std::optional<OutputRange> held_;                   // outputs with logits, which are picked from when the masks come
  std::span<const std::span<const uint32_t>> masks_;  // that were not sent yet
  uint32_t max_steps_ = 0;                            // that every row has KV blocks for, this one included
  uint64_t launched_ = 0, taken_ = 0;  // batches and results, counted from the last batch that did not follow another
  GraphKey key_{};
  bool keep_ = false;              // the plan is kept as a graph
  bool stretches_ = false;         // of parts: the sublayers between two crossings are
  std::vector<Verb> stretch_;      // of those, what the next graph computes
  cuda::Graph* replay_ = nullptr;  // that graph, once it exists
  cuda::Plan ran_;                 // of a batch that is kept, until it is a graph
  size_t run_launches_ = 0;        // of the plan that is recorded
  std::map<GraphKey, KeptGraph> graphs_;
  uint64_t graph_uses_ = 0;

  cuda::PinnedBuffer crossing_;          // of parts: the residual stream, (rows, width)
  std::optional<cuda::Event> crossed_;   // crossing_ has been copied
  cuda::PinnedBuffer fetched_, picked_;  // picked_ of steps: a ring, (max_steps_in_flight, picked_at_once)
  cuda::PinnedBuffer tops_;              // the same, with max_top_tokens each
  size_t fetched_rows_ = 0;              // rows of logits that are being copied to fetched_
  std::vector<cuda::Event> arrived_;     // of each step in the ring
  std::vector<std::optional<model::Picked>> picks_;
  std::vector<uint32_t> wanted_tops_;  // of each output
  std::vector<float> logits_, states_;
  std::vector<model::KernelTime> times_;
  double traced_ = 0;  // seconds of the device's clock so far
};

}  // namespace heddle::gpu
