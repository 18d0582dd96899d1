// A GPU with interpreted kernels, and the comparison of its results with those of the reference backend.
#pragma once
#include <condition_variable>
#include <map>
#include <mutex>

#include "cpu/cpu.h"
#include "gpu/gpu.h"
#include "model/forward.h"
#include "ptx/launch_chain.h"
#include "tests/gpu/fake_gpu.h"
#include "tests/support/closeness.h"

namespace heddle::gpu {

// Memory is the interpreter's, a launch runs the kernel that the library built for its text, and launches that overlap
// are held to the rules of ptx/launch_chain.h. It has few SMs, so that grids are small. Several threads may use it,
// each with a GPU of its own in this sense: the launches of a stream are a chain, and a launch that waits for other
// ranks is interpreted together with theirs.
class InterpretedGpu : public FakeGpu {
 protected:
  void SetUp() override {
    FakeGpu::SetUp();
    control().sms = 2;
    control().allocate = [this](size_t bytes) {
      std::lock_guard lock(mutex_);
      return memory_.alloc<uint8_t>(bytes).address;
    };
    control().give_back = [this](uint64_t address) {
      std::lock_guard lock(mutex_);
      memory_.free(address);
    };
    control().on_launch = [this](const fake::LaunchRecord& launch) { interpret(launch); };
    control().on_transfer = [this] {
      std::lock_guard lock(mutex_);
      for (auto& [stream, chain] : chains_) chain.join();
    };
  }
  // For make_gpu: kernels are built when they are launched.
  static Options interpreted(Options options = {}) {
    options.preload = false;
    options.build_kernel = [](const auto& spec, const auto& target) { return kept_kernels().build(spec, target); };
    return options;
  }

  uint64_t lane_instructions_ = 0;  // so far
  uint32_t ranks_ = 1;              // that wait for each other in the kernels that do
  uint64_t meetings_ = 0;           // of such kernels, so far

 private:
  void interpret(const fake::LaunchRecord& launch) {
    std::unique_lock lock(mutex_);
    const ptx::Lowered& lowered = kept_kernels().lowered(*launch.text);
    ptx::LaunchChain& chain = chains_[launch.stream];
    const ptx::Kernel& kernel = lowered.kernel();
    const uint32_t known = kernel.shared_at_launch() ? ptx::dynamic_shared_offset(kernel) : 0;
    // races in shared memory do not depend on the plan: the tests of the kernels look for them
    const ptx::InterpretOptions options{.dynamic_shared_bytes = launch.shared - known, .races = false};
    if (kernel.name.starts_with("all_reduce")) return interpret_with_others(lock, launch, lowered, chain);
    const auto stats = chain.launch(lowered, {launch.grid[0], launch.grid[1], launch.grid[2]}, launch.args.data(),
                                    launch.args.size(), memory_, launch.overlap, options);
    lane_instructions_ += stats.lane_instructions;
  }

  // The last rank to come interprets the launches of all.
  void interpret_with_others(std::unique_lock<std::mutex>& lock, const fake::LaunchRecord& launch,
                             const ptx::Lowered& lowered, ptx::LaunchChain& chain) {
    const auto* args = reinterpret_cast<const uint8_t*>(launch.args.data());
    chain.start(lowered, launch.overlap);
    waiting_.push_back({{&lowered,
                         {launch.grid[0], launch.grid[1], launch.grid[2]},
                         {args, args + launch.args.size()},
                         {.seed = meetings_ + 1, .races = false, .chain = &chain}}});
    const uint64_t meeting = meetings_;
    if (waiting_.size() == ranks_) {
      try {
        lane_instructions_ += ptx::interpret_together(waiting_, memory_).lane_instructions;
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      waiting_.clear();
      ++meetings_;
      met_.notify_all();
    } else if (!met_.wait_for(lock, std::chrono::seconds(60), [&] { return meetings_ != meeting; })) {
      ADD_FAILURE() << "a rank did not come to a sum";
    }
    chain.finish(lowered);
  }

  ptx::Memory memory_;
  std::map<void*, ptx::LaunchChain> chains_;  // by stream
  std::vector<std::vector<ptx::QueuedLaunch>> waiting_;
  std::condition_variable met_;
  std::mutex mutex_;
};

// New tokens of a sequence.
struct NewRows {
  uint32_t sequence, count;
};

// The same batches on an interpreted GPU and on the reference backend: the results must agree.
class BesideReference {
 public:
  // `bound`: the largest difference allowed, relative to the range of a batch's logits.
  BesideReference(const model::Model& model, const model::Limits& limits, const Options& options, double bound)
      : BesideReference(model, limits, make_gpu(model, limits, options), bound) {}
  BesideReference(const model::Model& model, const model::Limits& limits, std::unique_ptr<model::Backend> backend,
                  double bound)
      : model_(model),
        limits_(limits),
        bound_(bound),
        reference_(cpu::make_reference(model, limits)),
        backend_(std::move(backend)) {}

  // All sequences have these tokens, of which no expert of a mixture is chosen by a hair; otherwise tokens of their
  // own.
  void use_text(const std::vector<uint32_t>& ids) { text_ = ids; }

  enum Outputs { all, last };  // of each sequence
  model::Batch batch_of(const std::vector<NewRows>& rows, Outputs outputs) {
    model::Batch batch;
    for (const NewRows& one : rows) {
      for (uint32_t i = 0; i < one.count; ++i) {
        const uint32_t position = length_[one.sequence]++;
        if (outputs == all || i + 1 == one.count) batch.outputs.push_back(uint32_t(batch.tokens.size()));
        batch.tokens.push_back(text_.empty() ? (one.sequence * 31 + position * 17 + 5) % model_.vocabulary
                                             : text_[position % text_.size()]);
        batch.positions.push_back(position);
        batch.sequences.push_back(uint32_t(batch.blocks.size()));
      }
      batch.blocks.push_back(blocks_of(one.sequence));
      if (model::has_states(model_)) batch.slots.push_back(slot_of(one.sequence));
    }
    return batch;
  }

  // Computes the rows on both and compares.
  void feed(const std::vector<NewRows>& rows, Outputs outputs = all) { compare(batch_of(rows, outputs)); }
  void compare(const model::Batch& batch) {
    model::forward(model_, *reference_, batch);
    model::forward(model_, *backend_, batch);
    const model::Result right = reference_->result(), found = backend_->result();
    expect_near("logits", right.logits, found.logits);
    expect_near("states", right.states, found.states);
  }
  // The same for rows of which some are far more sensitive to rounding than others: a quarter of the bound
  // holds for the root of the mean square over all rows. One wrong row among 100 is off by ten times as much.
  void feed_many(const std::vector<NewRows>& rows) {
    const model::Batch batch = batch_of(rows, all);
    model::forward(model_, *reference_, batch);
    model::forward(model_, *backend_, batch);
    const std::span<const float> right = reference_->result().logits, found = backend_->result().logits;
    EXPECT_LE(test::root_mean_square({right.begin(), right.end()}, {found.begin(), found.end()}), bound_ / 4);
  }
  // A row of each sequence, and `more` batches that follow: the backend must pick the reference's most likely token, or
  // one as near to it as the bound allows. The logits of rows in `for_host` go to the host and are compared. With
  // `constrained`, every row but the first may pick one token of five.
  void pick(const std::vector<uint32_t>& sequences, uint32_t more, const std::vector<bool>& for_host = {},
            bool constrained = false) {
    std::vector<NewRows> rows;
    for (uint32_t sequence : sequences) rows.push_back({sequence, 1});
    model::Batch batch = batch_of(rows, all);
    batch.picking.assign(rows.size(), model::Picking());
    for (size_t i = 0; i < for_host.size(); ++i)
      if (for_host[i]) batch.picking[i].reset();
    const auto allowed = [&](uint32_t step, size_t row, size_t token) {
      return !constrained || row == 0 || (token + row * 3 + step) % 5 == 0;
    };
    std::vector<size_t> masked;  // rows
    for (size_t i = 1; constrained && i < rows.size(); ++i)
      if (batch.picking[i]) {
        batch.picking[i]->constrained = true;
        masked.push_back(i);
      }
    for (uint32_t step = 0; step <= more; ++step) {
      const model::Batch next{.follows = true};
      model::forward(model_, *backend_, step ? next : batch);
      if (masked.empty()) continue;
      std::vector<std::vector<uint32_t>> masks;
      for (const size_t row : masked) {
        std::vector<uint32_t>& mask = masks.emplace_back((model_.vocabulary + 31) / 32);
        for (uint32_t token = 0; token < model_.vocabulary; ++token)
          if (allowed(step, row, token)) mask[token / 32] |= 1u << token % 32;
      }
      backend_->allow(std::vector<std::span<const uint32_t>>(masks.begin(), masks.end()));
    }
    batch.picking.clear();
    for (uint32_t step = 0; step <= more; ++step) {
      const model::Result found = backend_->result();
      model::forward(model_, *reference_, batch);
      const std::span<const float> right = reference_->result().logits;
      size_t at_host = 0;
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto row = right.subspan(i * model_.vocabulary, model_.vocabulary);
        ASSERT_NE(found.picked[i].has_value(), i < for_host.size() && for_host[i]);
        if (!found.picked[i]) {
          expect_near("logits", row, found.logits.subspan(at_host++ * model_.vocabulary, model_.vocabulary));
          continue;
        }
        const uint32_t id = found.picked[i]->id;
        ASSERT_LT(id, model_.vocabulary);
        const auto [low, high] = std::minmax_element(row.begin(), row.end());
        float best = *low;
        for (size_t token = 0; token < row.size(); ++token)
          if (allowed(step, i, token)) best = std::max(best, row[token]);
        EXPECT_TRUE(allowed(step, i, id)) << "step " << step << ", row " << i;
        EXPECT_GE(row[id], best - 2 * bound_ * (*high - *low)) << "step " << step << ", row " << i;
        batch.tokens[i] = id;
        ++batch.positions[i];
      }
      EXPECT_EQ(found.logits.size(), at_host * model_.vocabulary);
    }
    for (uint32_t sequence : sequences) length_[sequence] += more;
  }

  // A sequence becomes what another is: its blocks and its state.
  void copy(uint32_t from, uint32_t to) {
    const std::vector<uint32_t> source = blocks_of(from), target = blocks_of(to);
    for (model::Backend* backend : {reference_.get(), backend_.get()}) {
      for (size_t i = 0; i < source.size(); ++i) backend->copy_block(source[i], target[i]);
      if (model::has_states(model_)) backend->copy_state(slot_of(from), slot_of(to));
    }
    length_[to] = length_[from];
  }

  model::Backend& backend() { return *backend_; }

 private:
  uint32_t slot_of(uint32_t sequence) const { return limits_.state_slots - 1 - sequence; }
  // Blocks of its own in descending order, so that neither a block nor its place in the table follows the position.
  std::vector<uint32_t> blocks_of(uint32_t sequence) const {
    const uint32_t each = (model_.context + limits_.block_tokens - 1) / limits_.block_tokens;
    check((sequence + 1) * each <= limits_.kv_blocks, "blocks for every sequence");
    std::vector<uint32_t> blocks;
    for (uint32_t i = 0; i < each; ++i) blocks.push_back((sequence + 1) * each - 1 - i);
    return blocks;
  }
  void expect_near(const char* what, std::span<const float> right, std::span<const float> found) const {
    const std::vector<float> a(right.begin(), right.end()), b(found.begin(), found.end());
    if (!a.empty() || !b.empty()) {
      EXPECT_LE(test::worst(a, b), bound_) << what;
    }
  }

  const model::Model& model_;
  model::Limits limits_;
  std::vector<uint32_t> text_;
  double bound_;
  std::unique_ptr<model::Backend> reference_, backend_;
  std::map<uint32_t, uint32_t> length_;  // of each sequence
};

}  // namespace heddle::gpu
