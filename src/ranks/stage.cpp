// All work of a batch is done by begin(), which knows all of it; the verbs after it have nothing left to do. The last
// stage sends its results when all micro-batches are computed: before that, rank 0 may be sending, too.
#include "ranks/stage.h"

#include <algorithm>

namespace heddle::ranks {
namespace {

constexpr uint32_t micro_batches_per_stage = 4;  // the first and the last wait for 1 / 4 of a batch in all

class StageBackend : public model::Backend {
 public:
  StageBackend(const model::Model& part, std::unique_ptr<model::Backend> own, model::Collective& all,
               const StageOptions& options)
      : part_(part), own_(std::move(own)), all_(all), options_(options) {
    check(options.stages > 1 && all.ranks() % options.stages == 0, "as many ranks in every stage");
    each_ = all.ranks() / options.stages;
    stage_ = all.rank() / each_;
    model::each_attention(part, [&](const model::Attention& a) { in_one_ |= !a.causal; });
  }

  std::string describe() const override {
    return fmt::format("{} in a pipeline of {} stages", own_->describe(), options_.stages);
  }

  void begin(const model::Batch& batch) override {
    check(!batch.follows && !batch.predicts, "a batch of a pipeline, which follows no other");
    if (due_) receive_result();
    logits_.clear();
    states_.clear();
    outputs_ = batch.outputs.size();
    state_rows_ = batch.states.size();
    const uint32_t rows = uint32_t(batch.tokens.size());
    const uint32_t most = in_one_ ? 1 : micro_batches_per_stage * options_.stages;
    for (const model::Batch& micro : cut_into_micro_batches(batch, std::clamp(rows / options_.min_rows, 1u, most)))
      compute_micro(micro);
    if (is_last() && all_.rank() % each_ == 0 && all_.rank() != 0) {
      all_.send(0, logits_);
      all_.send(0, states_);
    }
    due_ = all_.rank() == 0;
  }
  model::Result result() override {
    if (due_) receive_result();
    return {.picked = {}, .logits = logits_, .states = states_};
  }

  // begin() has done it
  void embed() override {}
  void compute(uint32_t, uint32_t) override {}
  void add(uint32_t, uint32_t) override {}
  void head() override {}

  void copy_block(uint32_t from, uint32_t to) override { own_->copy_block(from, to); }
  void copy_window_block(uint32_t from, uint32_t to) override { own_->copy_window_block(from, to); }
  void copy_state(uint32_t from, uint32_t to) override {
    if (model::has_states(part_)) own_->copy_state(from, to);
  }
  std::string kv_layout() const override { return own_->kv_layout(); }
  uint64_t kv_part_bytes(model::KvPart part) const override { return own_->kv_part_bytes(part); }
  void read_kv(std::span<const model::KvRead> reads) override { own_->read_kv(reads); }
  void write_kv(model::KvPlace place, std::span<const uint8_t> bytes) override { own_->write_kv(place, bytes); }
  bool usable() const override { return own_->usable(); }

 private:
  bool is_first() const { return stage_ == 0; }
  bool is_last() const { return stage_ + 1 == options_.stages; }

  void compute_micro(const model::Batch& micro) {
    model::Batch mine = micro;
    if (!is_last()) {
      mine.outputs.clear();
      mine.states.clear();
    }
    mine.picking.clear();
    residual_.resize(mine.tokens.size() * part_.width);
    if (!is_first()) all_.receive(all_.rank() - each_, residual_);
    own_->begin(mine);
    if (is_first())
      own_->embed();
    else
      own_->set_residual(residual_);
    model::run_layers(part_, *own_);
    if (!is_last()) return all_.send(all_.rank() + each_, own_->residual());
    if (!mine.states.empty()) own_->keep_states();
    own_->head();
    const model::Result result = own_->result();
    logits_.insert(logits_.end(), result.logits.begin(), result.logits.end());
    states_.insert(states_.end(), result.states.begin(), result.states.end());
  }
  void receive_result() {
    due_ = false;
    const uint32_t from = (options_.stages - 1) * each_;
    logits_.resize(outputs_ * part_.vocabulary);
    states_.resize(state_rows_ * part_.width);
    all_.receive(from, logits_);
    all_.receive(from, states_);
  }

  const model::Model& part_;
  std::unique_ptr<model::Backend> own_;
  model::Collective& all_;
  const StageOptions options_;
  uint32_t each_ = 1, stage_ = 0;        // ranks of a stage; which this one is
  bool in_one_ = false;                  // a text must be computed in one batch
  std::vector<float> residual_;          // (rows of a micro-batch, width)
  std::vector<float> logits_, states_;   // (outputs, vocabulary), (states, width)
  size_t outputs_ = 0, state_rows_ = 0;  // of the last batch
  bool due_ = false;                     // its results are still to be received
};

}  // namespace

std::vector<model::Batch> cut_into_micro_batches(const model::Batch& batch, uint32_t count) {
  if (count <= 1) return {batch};
  std::vector<model::Batch> all;
  const size_t rows = batch.tokens.size();
  for (uint32_t number = 0; number < count; ++number) {
    const size_t first = rows * number / count, end = rows * (number + 1) / count;
    if (first == end) continue;
    model::Batch& micro = all.emplace_back();
    micro.long_text = batch.long_text;
    std::vector<uint32_t> sequence_here(batch.blocks.size(), ~0u);
    for (size_t row = first; row < end; ++row) {
      micro.tokens.push_back(batch.tokens[row]);
      micro.positions.push_back(batch.positions[row]);
      if (!batch.types.empty()) micro.types.push_back(batch.types[row]);
      const uint32_t sequence = batch.sequences[row];
      if (sequence_here[sequence] == ~0u) {
        sequence_here[sequence] = uint32_t(micro.blocks.size());
        micro.blocks.push_back(batch.blocks[sequence]);
        if (!batch.window_blocks.empty()) micro.window_blocks.push_back(batch.window_blocks[sequence]);
        if (!batch.slots.empty()) micro.slots.push_back(batch.slots[sequence]);
      }
      micro.sequences.push_back(sequence_here[sequence]);
    }
    const auto rows_of = [&](const std::vector<uint32_t>& from, std::vector<uint32_t>& to) {
      for (const uint32_t row : from)
        if (row >= first && row < end) to.push_back(uint32_t(row - first));
    };
    rows_of(batch.outputs, micro.outputs);
    rows_of(batch.states, micro.states);
  }
  return all;
}

std::unique_ptr<model::Backend> make_stage(const model::Model& part, std::unique_ptr<model::Backend> own,
                                           model::Collective& all, const StageOptions& options) {
  return std::make_unique<StageBackend>(part, std::move(own), all, options);
}

}  // namespace heddle::ranks
