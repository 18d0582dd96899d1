// Loading a model, and running one batch after another.
#include "gpu/backend.h"

#include <algorithm>

#include "base/error.h"
#include "base/memory.h"
#include "kernels/attention/prompt_attention.h"
#include "kernels/sample/sample.h"
#include "kernels/state/state_run.h"

namespace heddle::gpu {

using model::Batch;
using model::Limits;
using model::Memory;
using model::Model;

namespace {

constexpr uint32_t max_fetched_rows = 64;  // of logits, in pinned memory at once: 33 MB of a vocabulary of 128256

Memory memory_of(DeviceModel& described, const Model& model, const Limits& limits, const WorkSizes& sizes,
                 const Options& options) {
  // the stage of the upload is freed before the cache is allocated
  const uint64_t work = sizes.bytes() + Visitors::bytes(described, options.visiting) +
                        (options.ranks.group ? RankSums::bytes(options.ranks.group->ranks(), model.width) : 0);
  const uint64_t stage = described.largest_source();
  const uint64_t kv = KvCache::bytes(model, limits), states = StateCache::bytes(model, limits);
  return {.weights = described.bytes(),
          .kv = kv,
          .states = states,
          .workspace = std::max(work, stage > kv + states ? stage - kv - states : 0)};
}

cuda::Context capable_context(uint32_t device) {
  cuda::Context context(device);
  expect_capable(context.info());
  return context;
}

// Whether the model is one of several ranks' (model/shard.h).
bool has_parts_of_sums(const Model& model) {
  const auto partial = [](const auto& kind) {
    if constexpr (requires { kind.partial; }) return kind.partial;
    return false;
  };
  for (const model::Layer& layer : model.layers)
    for (const model::Sublayer& sublayer : layer.sublayers)
      if (std::visit(partial, sublayer)) return true;
  return !model.output_parts.empty();
}

void expect_supported(const Model& model, const Options& options) {
  if (has_parts_of_sums(model) && !options.ranks.group)
    throw Error("{}: one rank's part of a model cannot run without the other ranks", model.name);
  for (const model::Layer& layer : model.layers)
    for (const model::Sublayer& sublayer : layer.sublayers)
      if (const auto* a = std::get_if<model::Attention>(&sublayer))
        if (a->norm_after_rope && (a->q_norm.across || a->k_norm.across))
          throw Error("{}: norms over the values of several ranks after a rotation cannot run on the GPU", model.name);
  if (options.exact && options.deterministic)
    throw Error("on a GPU activations are either exact (f32) or deterministic (f16 on the matrix units), not both");
  for (const model::Layer& layer : model.layers)
    if (layer.parallel && layer.find<model::Mixture>())
      throw Error("{}: a mixture beside attention cannot run on the GPU", model.name);
}

}  // namespace

Gpu::Gpu(const Model& model, const Limits& limits, const Options& options)
    : model_(model),
      limits_(limits),
      both_directions_(!model::is_causal(model)),
      options_(options),
      context_(capable_context(options.device)),
      cubins_(cuda::CubinCache::from_environment()),
      library_(context_, &cubins_, options.build_kernel),
      tuning_(cubins_.is_on() ? tuning_file(cubins_.folder().parent_path(), context_.info()) : std::filesystem::path(),
              limits_of(context_.info())),
      stream_(context_),
      sizes_(model, limits, context_.info().sms, can_group_experts(options),
             can_expand_latents(context_.info(), options), can_chunk_states(context_.info(), options)),
      weights_(describe_weights(model, options.visiting)),
      recorder_(library_, can_chain(context_.info())) {
  expect_supported(model, options);
  expect_room();
  // before the upload, which may take longer on one rank than others wait for it
  if (options.ranks.group) ranks_.emplace(context_, options.ranks, model.width);
  upload(weights_, library_, stream_, options.progress);
  if (!options.visiting.empty()) visitors_.emplace(weights_, options.visiting, library_);
  work_.emplace(context_, sizes_);
  model::each_kv_cache(model, [&](const model::Attention& a, bool of_windows) {
    caches_.emplace_back(context_, a, limits, of_windows);
  });
  StateCache::each(model, [&](const model::Sublayer& sublayer) {
    state_caches_.emplace_back(context_, sublayer, limits.state_slots);
  });
  forward_.emplace(Resources{model_, limits_, options_, weights_, sizes_, *work_, caches_, state_caches_, tuning_,
                             recorder_, ranks_ ? &*ranks_ : nullptr});
  if (options.preload) {
    if (options.on_assembling) options.on_assembling();
    load_kernels();
  }
  const size_t rows = sizes_.rows;
  staging_.emplace(context_, rows * (10 * 16 + sizeof(kernels::PromptTile) + sizeof(kernels::StateRun)) +
                                 rows * (sizes_.table_stride * 4ull + 16) * (sizes_.windows ? 2 : 1) +
                                 sizes_.picked_at_once() * sizeof(kernels::SampleRow) + work_->texts.bytes() +
                                 work_->biases.bytes() + sizes_.changed_at_once() * 16 + work_->masks.bytes() + 4096);
  picked_ = cuda::PinnedBuffer(
      context_, std::max<size_t>(max_steps_in_flight * sizes_.picked_at_once(), rows) * sizeof(kernels::Sampled));
  tops_ = cuda::PinnedBuffer(context_, picked_.bytes() * max_top_tokens);
  for (uint32_t i = 0; i < max_steps_in_flight; ++i) arrived_.emplace_back(context_, cuda::Event::untimed);
  if (is_part()) {
    crossing_ = cuda::PinnedBuffer(context_, rows * sizes_.width * 4);
    crossed_.emplace(context_, cuda::Event::untimed);
  }
  const size_t fetched_rows = std::min(max_fetched_rows, sizes_.picked_at_once());
  constexpr size_t max_state_rows = 1024;
  fetched_ = cuda::PinnedBuffer(
      context_, std::max<size_t>(fetched_rows * sizes_.vocabulary, std::min(rows, max_state_rows) * sizes_.width) * 4);
}

Gpu::~Gpu() {
  try {
    stream_.synchronize();
  } catch (const std::exception&) {  // a lost context: there is nothing to wait for
  }
}

std::string Gpu::describe_device() const {
  const cuda::DeviceInfo& info = context_.info();
  return fmt::format("cuda:{} {} (sm_{}, {} SMs)", info.ordinal, info.name, info.sm, info.sms);
}

std::string Gpu::describe() const {
  return fmt::format("{}, {} activations{}{}{}", describe_device(), options_.exact ? "f32" : "int8 and f16",
                     limits_.kv == model::KvFormat::q8 ? ", KV cache of q8" : "",
                     options_.deterministic ? ", deterministic" : "", ranks_ ? ", " + ranks_->describe() : "");
}

void Gpu::expect_room() {
  const Memory needed = memory_of(weights_, model_, limits_, sizes_, options_);
  const uint64_t free = context_.memory().free;
  if (needed.total() <= free) return;
  throw Error("{}: too little memory on {}: expected {} to be free (weights {}, KV cache {}, workspace {}), found {}",
              model_.name, describe_device(), bytes_text(double(needed.total())), bytes_text(double(needed.weights)),
              bytes_text(double(needed.kv)), bytes_text(double(needed.workspace)), bytes_text(double(free)));
}

// --- a batch --------------------------------------------------------------------------------------------------------
void Gpu::check_batch(const Batch& batch) const {
  const size_t rows = batch.tokens.size();
  check(rows <= limits_.rows && batch.positions.size() == rows && batch.sequences.size() == rows, "a batch that fits");
  for (uint32_t token : batch.tokens) check(token < model_.vocabulary, "tokens of the vocabulary");
  for (uint32_t row : batch.states) check(row < rows, "states of rows");
  for (size_t i = 0; i < rows; ++i)
    check(batch.positions[i] / limits_.block_tokens < batch.blocks.at(batch.sequences[i]).size(),
          "a block for every position");
  check(!sizes_.windows || batch.window_blocks.size() == batch.blocks.size(), "a block table of windows, if any are");
  if (batch.predicts) {
    check(sizes_.next_head && batch.after.size() == rows && batch.states.empty() && batch.outputs.size() == rows,
          "a batch that the model can predict");
    for (uint32_t row : batch.after) check(row < limits_.rows, "rows of the batch before");
  } else if (sizes_.states) {
    check(batch.slots.size() == batch.blocks.size(), "a slot for every sequence");
    for (uint32_t slot : batch.slots) check(slot < limits_.state_slots, "slots of states");
  }
  check(batch.picking.empty() || batch.picking.size() == batch.outputs.size(), "a picking for every output, or none");
  for (const auto& picking : batch.picking) {
    if (!picking) continue;
    check(can_pick(*picking), "a picking that the device can do");
    check(!picking->has_penalties() || !picking->text.empty(), "a text for the penalties");
  }
}

void Gpu::begin(const Batch& batch) {
  run_stretch();
  batch_ = &batch;
  if (batch.follows) {
    check(step_ && launched_ > 0 && !held_ && batch.predicts == rows_.predicts, "a batch that can be followed");
    check(launched_ < max_steps_, "a block for every position to come");
    check(launched_ - taken_ < max_steps_in_flight, "room for the result of one more batch");
    ++rows_.longest;
  } else {
    step_ = false;  // if something is thrown below, there is nothing to follow
    held_.reset();
    check_batch(batch);
    launched_ = taken_ = 0;
    fetched_rows_ = 0;
    logits_.clear();
    wanted_states_ = batch.states;
    kind_ = kind_of(batch.picking);
    picks_.clear();
    wanted_tops_.clear();
    for (const auto& picking : batch.picking) {
      picks_.push_back(picking ? std::optional(model::Picked{}) : std::nullopt);
      wanted_tops_.push_back(picking ? picking->top : 0);
    }
    send(batch);
    predicted_ = batch.predicts;
    const bool recurs = options_.graphs && !options_.trace && rows_.each_own && rows_.row_tables && rows_.count > 0 &&
                        rows_.count <= max_logit_rows && batch.states.empty();
    keep_ = recurs && !is_part() && batch.outputs.size() == rows_.count;
    stretches_ = recurs && is_part();
  }
  key_ = {.rows = rows_.count,
          .length = length_class(rows_.longest),
          .step = step_,
          .predicts = rows_.predicts,
          .changes_logits = step_ && kind_.changed > 0,
          .logprob = step_ && kind_.logprob,
          .tops = step_ && kind_.tops,
          .masked = step_ && kind_.masked > 0};
  const auto found = keep_ ? graphs_.find(key_) : graphs_.end();
  replay_ = found != graphs_.end() ? &found->second.graph : nullptr;
  if (replay_) {
    found->second.used = ++graph_uses_;
    return;
  }
  run_launches_ = 0;
  Rows recorded = rows_;
  if (keep_ || step_) recorded.longest = forward_->longest_of(key_.length);
  forward_->begin(recorded);
}

// A kernel reads its first weights before it waits for the one before it: after a wait for weights it may not start
// early.
void Gpu::compute(uint32_t layer, uint32_t sublayer) {
  const bool visit = is_visit(layer, sublayer);
  if (stretches_ && !visit) return stretch_.push_back({false, layer, sublayer});
  if (visit) {
    end_stretches();
    visitors_->bring(layer, sublayer, stream_);
    recorder_.start_next_alone();
  }
  record([&] { forward_->compute(layer, sublayer); });
}

void Gpu::add(uint32_t layer, uint32_t sublayer) {
  if (stretches_) return stretch_.push_back({true, layer, sublayer});
  const bool visit = is_visit(layer, sublayer);
  if (visit) {
    visitors_->wait_for_all(stream_);
    recorder_.start_next_alone();
  }
  record([&] { forward_->add(layer, sublayer); });
  if (!visit) return;
  run_traced_so_far();
  visitors_->leave(stream_);
}

void Gpu::head() {
  end_stretches();
  if (rows_.count > 0) step_ ? head_of_step() : head_of_batch();
  ++launched_;
  if (step_ || !held_) batch_ = nullptr;
  if (rows_.count > 0 && keep_ && !replay_) keep_graph(key_);
}

// Launched after the rest of the batch, on the same stream, so that the device computes until the masks are known.
void Gpu::allow(std::span<const std::span<const uint32_t>> masks) {
  check(held_.has_value() && masks.size() == kind_.masked, "masks for a batch that waits for them");
  masks_ = masks;
  const OutputRange range = *std::exchange(held_, std::nullopt);
  if (!step_) {
    pick_outputs(range);
    batch_ = nullptr;
    return;
  }
  staging_->begin();
  send_masks(kind_.masked);
  staging_->end(stream_);
  record_pick(rows_.count, work_->logits.address(), 0, kind_);
  record_advance(rows_.count);
  run();
  fetch_step(launched_ - 1);
}

void Gpu::head_of_step() {
  if (!replay_) {
    forward_->logits(0, rows_.count, 0);
    if (!kind_.masked) {
      record_pick(rows_.count, work_->logits.address(), 0, kind_);
      record_advance(rows_.count);
    }
  }
  keep_ ? run_kept() : run();
  if (kind_.masked)
    held_ = OutputRange{0, rows_.count};
  else
    fetch_step(launched_);
}

void Gpu::fetch_step(uint64_t step) {
  const size_t slot = step % max_steps_in_flight;
  fetch_picks(slot, work_->history.address() + slot * rows_.count * sizeof(kernels::Sampled), rows_.count);
  arrived_[slot].record(stream_);
}

void Gpu::head_of_batch() {
  if (batch_->outputs.empty()) return run();
  const OutputRange range = compute_logits(0);
  if (kind_.masked)
    held_ = range;
  else
    pick_outputs(range);
}

Gpu::OutputRange Gpu::compute_logits(size_t first_output) {
  const OutputRange range = keep_ ? OutputRange{0, batch_->outputs.size(), 0} : outputs_from(first_output);
  if (!replay_) forward_->logits(uint32_t(range.first), uint32_t(range.count), range.row);
  keep_ ? run_kept() : run();
  return range;
}

void Gpu::pick_outputs(OutputRange range) {
  const size_t outputs = batch_->outputs.size();
  while (true) {
    forward_->begin(rows_);
    pick(range);
    fetch_logits(range);
    if (range.first + range.count == outputs) break;
    range = compute_logits(range.first + range.count);
  }
  if (!picks_.empty()) fetch_picks(0, work_->picked.address(), outputs);
}

// As many outputs as there is room for; where the head does not gather rows, only consecutive ones.
Gpu::OutputRange Gpu::outputs_from(size_t first) const {
  const std::vector<uint32_t>& outputs = batch_->outputs;
  OutputRange range{first, std::min<size_t>(max_logit_rows, outputs.size() - first)};
  if (forward_->paths().gathers(outputs.size())) return range;
  range.row = outputs[first];
  size_t count = 1;
  while (count < range.count && outputs[first + count] == *range.row + count) ++count;
  range.count = count;
  return range;
}

void Gpu::copy_block(uint32_t from, uint32_t to) {
  check(from < limits_.kv_blocks && to < limits_.kv_blocks, "blocks of the cache");
  copy_blocks(false, from, to);
}

void Gpu::copy_window_block(uint32_t from, uint32_t to) {
  check(from < limits_.window_blocks && to < limits_.window_blocks, "blocks of windows");
  copy_blocks(true, from, to);
}

void Gpu::copy_blocks(bool of_windows, uint32_t from, uint32_t to) {
  if (from == to) return;
  run_stretch();
  for (const KvCache& cache : caches_)
    if (cache.of_windows() == of_windows) cache.copy_block(stream_, from, to);
}

void Gpu::copy_state(uint32_t from, uint32_t to) {
  check(from < limits_.state_slots && to < limits_.state_slots, "slots of states");
  if (from == to) return;
  run_stretch();
  for (const StateCache& states : state_caches_) states.copy(stream_, from, to);
}

// --- running what was recorded --------------------------------------------------------------------------------------
// The first batch of its kind is run launch by launch, and made a graph while the device computes it.
void Gpu::run_kept() {
  if (replay_) return replay_->launch(stream_);
  recorder_.plan.run(stream_);
  ran_ = std::move(recorder_.plan);
  recorder_.begin();
}

// The one that gives way was last used many batches ago, and is no longer in flight.
void Gpu::keep_graph(const GraphKey& key) {
  if (graphs_.size() >= (is_part() ? max_graphs_of_part : max_graphs))
    graphs_.erase(std::min_element(graphs_.begin(), graphs_.end(),
                                   [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  KeptGraph& kept = graphs_[key] = {ran_.graph(context_), ++graph_uses_};
  ran_ = {};
  kept.graph.upload(stream_);
}

void Gpu::run_stretch() {
  if (stretch_.empty()) return;
  GraphKey key = key_;
  key.verbs = std::exchange(stretch_, {});
  if (const auto found = graphs_.find(key); found != graphs_.end()) {
    found->second.used = ++graph_uses_;
    return found->second.graph.launch(stream_);
  }
  Rows recorded = rows_;
  recorded.longest = forward_->longest_of(key.length);
  forward_->begin(recorded);
  for (const Verb& verb : key.verbs)
    verb.adds ? forward_->add(verb.layer, verb.sublayer) : forward_->compute(verb.layer, verb.sublayer);
  recorder_.plan.run(stream_);
  ran_ = std::move(recorder_.plan);
  recorder_.begin();
  keep_graph(key);
}

void Gpu::end_stretches() {
  if (!std::exchange(stretches_, false)) return;
  run_stretch();
  forward_->begin(rows_);
  run_launches_ = 0;
}

void Gpu::run_recorded() {
  recorder_.plan.run(stream_, run_launches_);
  run_launches_ = recorder_.plan.size();
}

void Gpu::run() {
  options_.trace ? run_traced() : run_recorded();
  recorder_.begin();
  run_launches_ = 0;
}

void Gpu::run_traced_so_far() {
  if (!options_.trace) return;
  run();
  forward_->begin(rows_);
}

// Each step by itself, between two events.
void Gpu::run_traced() {
  cuda::Plan& plan = recorder_.plan;
  std::vector<cuda::Event> events;
  for (size_t i = 0; i <= plan.size(); ++i) events.emplace_back(context_, cuda::Event::timed);
  events[0].record(stream_);
  for (size_t i = 0; i < plan.size(); ++i) {
    plan.run_alone(stream_, i);
    events[i + 1].record(stream_);
  }
  stream_.synchronize();
  for (size_t i = 0; i < plan.size(); ++i) {
    const LaunchNote& note = recorder_.notes[i];
    times_.push_back({note.kernel, note.phase, note.layer, traced_ + events[i].milliseconds_since(events[0]) * 1e-3,
                      events[i + 1].milliseconds_since(events[i]) * 1e-3, note.bytes});
  }
  traced_ += events.back().milliseconds_since(events[0]) * 1e-3;
}

std::unique_ptr<model::Backend> make_gpu(const Model& model, const Limits& limits, const Options& options) {
  return std::make_unique<Gpu>(model, limits, options);
}

Memory memory_needed(const Model& model, const Limits& limits, const cuda::DeviceInfo& device, const Options& options) {
  DeviceModel described = describe_weights(model, options.visiting);
  return memory_of(described, model, limits,
                   WorkSizes(model, limits, device.sms, can_group_experts(options), can_expand_latents(device, options),
                             can_chunk_states(device, options)),
                   options);
}

}  // namespace heddle::gpu
