// Loading, and one batch after the other.
#include "gpu/backend.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/memory.h"
#include "gpu/upload.h"
#include "kernels/sample/sample.h"

namespace heddle::gpu {

using model::Batch;
using model::Limits;
using model::Memory;
using model::Model;

namespace {

// Of the keys or of the values of a layer; q8: all int8, then all scales.
uint64_t cache_bytes(const Limits& limits, uint32_t kv_heads, uint32_t head) {
  const uint64_t values = uint64_t(limits.kv_blocks) * limits.block_tokens * kv_heads * head;
  return limits.kv == model::KvFormat::q8 ? values / 32 * 34 : values * 2;
}

Memory count(DeviceModel& described, const Model& model, const Limits& limits, const WorkSizes& sizes) {
  // the stage of the upload is gone before the cache is made
  const uint64_t work = sizes.bytes(), stage = upload_bytes(described);
  uint64_t kv = 0;
  model::each_attention(model, [&](const model::Attention& a) {
    for (uint32_t head : {a.head, a.value_head}) kv += allocated(cache_bytes(limits, a.kv_heads, head));
  });
  return {described.bytes(), kv, std::max(work, stage > kv ? stage - kv : 0)};
}

}  // namespace

Gpu::Gpu(const Model& model, const Limits& limits, const Options& options)
    : model_(model),
      limits_(limits),
      options_(options),
      context_(options.device),
      cache_(cuda::CubinCache::from_environment()),
      library_((expect_capable(context_.info()), context_), &cache_, options.on_kernel),
      tuning_(cache_.is_on() ? tuning_file(cache_.folder().parent_path(), context_.info()) : std::filesystem::path()),
      stream_(context_),
      sizes_(model, limits, context_.info().sms),
      weights_(describe_weights(model)) {
  if (options.exact && options.deterministic)
    throw Error("on a GPU activations are either exact (f32) or deterministic (f16 on the matrix units), not both");
  for (const model::Layer& layer : model.layers)
    if (layer.parallel && layer.find<model::Mixture>())
      throw Error("{}: a mixture beside attention cannot run on the GPU", model.name);
  model::each_attention(model, [&](const model::Attention& a) {
    for (uint32_t head : {a.head, a.value_head})
      if (limits.kv == model::KvFormat::q8 && head % 32)
        throw Error("{}: a KV cache of q8 has a scale for each 32 values, but this model's heads have {}", model.name,
                    head);
  });
  expect_room();
  upload(weights_, library_, stream_, options.progress);
  work_.emplace(context_, sizes_);
  model::each_attention(model, [&](const model::Attention& a) {
    // zeros: kernels may read, and leave out, what no token has written
    keys_.emplace_back(context_, cache_bytes(limits, a.kv_heads, a.head)).fill(0);
    values_.emplace_back(context_, cache_bytes(limits, a.kv_heads, a.value_head)).fill(0);
  });
  phases_.emplace(model, limits_, weights_, *work_, sizes_, keys_, values_, library_, tuning_, options.exact,
                  options.deterministic);
  if (options.preload) load_kernels();
  const size_t rows = sizes_.rows;
  staging_.emplace(context_, rows * (5 * 16 + sizeof(kernels::PromptTile)) + rows * (sizes_.table_stride * 4ull + 16) +
                                 sizes_.picked_at_once() * sizeof(kernels::SampleRow) + work_->texts.bytes() +
                                 work_->biases.bytes() + 4096);
  picked_ = cuda::PinnedBuffer(context_, std::max<size_t>(kept_steps * few_rows, rows) * sizeof(kernels::Sampled));
  for (uint32_t i = 0; i < kept_steps; ++i) arrived_.emplace_back(context_, cuda::Event::untimed);
  fetched_ = cuda::PinnedBuffer(context_, std::max(work_->logits.bytes(), sizes_.width * size_t(4)));
}

// The first of each kind: all others have the same kernels.
std::vector<uint32_t> Gpu::kinds_of_layers() {
  std::vector<uint32_t> firsts;
  std::set<std::string> seen;
  for (uint32_t i = 0; i < model_.layers.size(); ++i) {
    DeviceLayer& layer = weights_.layers[i];
    std::string kind = fmt::format("{}", model_.layers[i].parallel);
    for (const DeviceSublayer& sublayer : layer.sublayers) {
      kind += fmt::format(" | {}", sublayer.index());
      if (const auto* device = std::get_if<DeviceAttention>(&sublayer)) {
        const model::Attention& a = *device->model;
        kind += fmt::format(" {} {} {} {} {} {} {}", a.head, a.value_head, a.heads, a.kv_heads, a.window,
                            a.softcap != 0, device->rotary);
      }
    }
    for (const DeviceNorm* norm : layer.norms()) kind += fmt::format(" {} {}", int(norm->kind), norm->bias.empty());
    for (const Weights* w : layer.all())
      kind += fmt::format(" {} {}x{} {}", int(w->shape.format), w->shape.rows, w->shape.cols, w->bias.empty());
    if (seen.insert(kind).second) firsts.push_back(i);
  }
  return firsts;
}

// Attention has other shapes for other numbers of streams and tiles of prompts, and for other lengths.
void Gpu::load_attention(const DeviceAttention& attention) {
  if (options_.deterministic || options_.exact) return;  // one shape; or few rows
  // from so many streams on the shape is the same
  const uint32_t kv_heads = std::max(attention.model->kv_heads, 1u);
  const uint32_t most = std::min(std::max(some_rows, 2 * context_.info().sms / kv_heads), sizes_.rows);
  // where cluster_choice and prompt_splits change their minds
  for (uint32_t longest : {1u, 129u, 257u, 513u, short_length + 1, 2048u, 4096u, middle_length + 1}) {
    if (longest > std::min(sizes_.context, model_.context)) continue;
    for (uint32_t streams = 1; streams <= most; ++streams) {
      Rows rows{.count = streams,
                .each_own = true,
                .single = streams,
                .longest_single = longest,
                .row_tables = streams <= some_rows,
                .longest = longest};
      phases_->begin(rows);
      phases_->attend(attention);
      if (streams == sizes_.rows) continue;
      rows.count = rows.tiles = streams + 1, rows.each_own = false;
      for (bool row_tables : {true, false})
        rows.row_tables = row_tables, phases_->begin(rows), phases_->attend(attention);
    }
    for (uint32_t tiles : {1u, 2u, 4u, 8u}) {
      phases_->begin({.count = 2, .longest = longest, .tiles = tiles});
      phases_->attend(attention);
    }
  }
}

// Products of many rows have other shapes for other numbers of them, by sixteens.
void Gpu::load_prompts(const std::vector<uint32_t>& layers) {
  const uint32_t most = options_.exact ? std::min(sizes_.rows, few_rows + 1) : sizes_.rows;
  for (uint32_t rows = most; rows > 0; rows = (rows - 1) / 16 * 16) {
    if (rows <= some_rows && rows < most) return;
    phases_->begin({.count = rows,
                    .row_tables = options_.deterministic,
                    .longest = rows,
                    .tiles = 1,
                    .sequences = std::vector<uint32_t>(rows)});
    phases_->embed();
    for (uint32_t i : layers) model::run_layer(model_, i, *phases_);
    phases_->logits(0, 1, 0);
  }
}

void Gpu::record_step(uint32_t rows, uint32_t longest) {
  phases_->begin({.count = rows, .each_own = true, .row_tables = true, .longest = phases_->attention_class(longest)});
  phases_->embed();
  model::run_layers(model_, *phases_);
  phases_->logits(0, rows, 0);
  record_pick(rows, 0, 0, {}, true);
  record_advance(rows);
}

void Gpu::load_kernels() {
  std::vector<kernels::AnySpec> all;
  phases_->wanted = &all;
  for (uint32_t longest : {1u, short_length + 1, middle_length + 1})
    if (longest <= std::min(sizes_.context, model_.context)) record_step(1, longest);
  // the shapes of products that batches of several sequences take
  for (uint32_t rows : {product_rows, product_rows + 1, 16u, 32u})
    if (!options_.exact && rows <= sizes_.rows) {
      record_step(rows, 1);
      if (rows > product_rows) phases_->logits(0, rows, {});  // of rows here and there
    }
  for (uint32_t rows = 1; rows <= sizes_.picked_at_once(); ++rows)
    for (bool logprob : {false, true}) record_pick(rows, 0, 0, {.logprob = logprob}, false);
  const std::vector<uint32_t> layers = kinds_of_layers();
  for (uint32_t layer : layers)
    for (const DeviceSublayer& sublayer : weights_.layers[layer].sublayers)
      if (const auto* attention = std::get_if<DeviceAttention>(&sublayer)) load_attention(*attention);
  load_prompts(layers);
  phases_->keep_states();
  phases_->wanted = nullptr;
  library_.load(all);
}

void Gpu::check_batch(const Batch& batch) const {
  const size_t rows = batch.tokens.size();
  check(rows <= limits_.rows && batch.positions.size() == rows && batch.sequences.size() == rows, "a batch that fits");
  for (uint32_t token : batch.tokens) check(token < model_.vocabulary, "tokens of the vocabulary");
  for (uint32_t row : batch.states) check(row < rows, "states of rows");
  for (size_t i = 0; i < rows; ++i)
    check(batch.positions[i] / limits_.block_tokens < batch.blocks.at(batch.sequences[i]).size(),
          "a block for every position");
  check(batch.picking.empty() || batch.picking.size() == batch.outputs.size(), "a picking for every output, or none");
  for (const auto& picking : batch.picking) {
    if (!picking) continue;
    check(can_pick(*picking), "a picking that the device can do");
    check(!picking->has_penalties() || !picking->text.empty(), "a text for the penalties");
  }
}

void Gpu::begin(const Batch& batch) {
  batch_ = &batch;
  if (batch.follows) {
    check(step_ && launched_ > 0, "a batch that can be followed");
    check(launched_ < max_steps_, "a block for every position to come");
    check(launched_ - taken_ < kept_steps, "results are taken before so many batches more are begun");
    ++rows_.longest;
  } else {
    step_ = false;  // where something is thrown below, there is nothing to follow
    check_batch(batch);
    launched_ = taken_ = 0;
    fetched_rows_ = 0;
    logits_.clear();
    wanted_states_ = batch.states;
    kind_ = kind_of(batch.picking);
    picks_.clear();
    for (const auto& picking : batch.picking) picks_.push_back(picking ? std::optional(model::Picked{}) : std::nullopt);
    send(batch);
    keep_ = options_.graphs && !options_.trace && rows_.each_own && rows_.row_tables && rows_.count > 0 &&
            rows_.count <= logit_rows && batch.outputs.size() == rows_.count && batch.states.empty();
  }
  key_ = {rows_.count, phases_->attention_class(rows_.longest),
          step_ ? 1u + (kind_.changing ? 2u : 0u) + (kind_.logprob ? 4u : 0u) : 0u};
  const auto found = keep_ ? graphs_.find(key_) : graphs_.end();
  replay_ = found != graphs_.end() ? &found->second : nullptr;
  if (replay_) return;
  Rows recorded = rows_;
  if (keep_ || step_) recorded.longest = key_[1];
  phases_->begin(recorded);
}

void Gpu::head() {
  if (rows_.count > 0) step_ ? head_of_step() : head_of_batch();
  ++launched_;
  batch_ = nullptr;
}

void Gpu::head_of_step() {
  if (!replay_) {
    phases_->logits(0, rows_.count, 0);
    record_pick(rows_.count, work_->logits.address(), work_->picked.address(), kind_, true);
    record_advance(rows_.count);
  }
  keep_ ? run_graph() : run();
  const size_t slot = launched_ % kept_steps, bytes = rows_.count * sizeof(kernels::Sampled);
  cuda::read_device(stream_, picked_.data() + slot * few_rows * sizeof(kernels::Sampled),
                    work_->history.address() + slot * bytes, bytes);
  arrived_[slot].record(stream_);
}

void Gpu::head_of_batch() {
  const size_t outputs = batch_->outputs.size();
  if (outputs == 0) run();
  for (size_t first = 0; first < outputs;) {
    const Part part = keep_ ? Part{0, outputs, 0} : part_from(first);
    if (!replay_) phases_->logits(uint32_t(part.first), uint32_t(part.count), part.row);
    keep_ ? run_graph() : run();
    phases_->begin(rows_);
    pick(part);
    fetch(part);
    first += part.count;
  }
  if (!picks_.empty())
    cuda::read_device(stream_, picked_.data(), work_->picked.address(), outputs * sizeof(kernels::Sampled));
}

// As many at once as there is room for, and those that `product` does as far as they follow each other.
Gpu::Part Gpu::part_from(size_t first) const {
  const std::vector<uint32_t>& outputs = batch_->outputs;
  Part part{first, std::min<size_t>(logit_rows, outputs.size() - first)};
  if (!options_.exact && outputs.size() > product_rows) return part;
  part.row = outputs[first];
  size_t run = 1;
  while (run < std::min<size_t>(part.count, few_rows) && outputs[first + run] == *part.row + run) ++run;
  part.count = run;
  return part;
}

void Gpu::copy_block(uint32_t from, uint32_t to) {
  check(from < limits_.kv_blocks && to < limits_.kv_blocks, "blocks of the cache");
  if (from == to) return;
  for (size_t i = 0; i < keys_.size(); ++i)
    for (const cuda::Buffer* cache : {&keys_[i], &values_[i]}) {
      auto copy = [&](uint64_t start, uint64_t bytes) {
        const uint64_t block = bytes / limits_.kv_blocks;
        cuda::copy_device(stream_, start + to * block, start + from * block, block);
      };
      const uint64_t all = cache->bytes(), values = limits_.kv == model::KvFormat::q8 ? all / 34 * 32 : all;
      copy(cache->address(), values);
      if (values < all) copy(cache->address() + values, all - values);
    }
}

Gpu::~Gpu() {
  try {
    stream_.synchronize();
  } catch (const std::exception&) {  // a lost context: there is nothing to wait for
  }
}

void Gpu::expect_room() {
  const Memory needed = count(weights_, model_, limits_, sizes_);
  const uint64_t free = context_.memory().free;
  if (needed.total() <= free) return;
  throw Error("{}: too little memory on {}: expected {} to be free (weights {}, KV cache {}, workspace {}), found {}",
              model_.name, describe_device(), bytes_text(double(needed.total())), bytes_text(double(needed.weights)),
              bytes_text(double(needed.kv)), bytes_text(double(needed.workspace)), bytes_text(double(free)));
}

void Gpu::run_graph() {
  if (!replay_) {
    replay_ = &graphs_.emplace(key_, phases_->plan.graph(context_)).first->second;
    replay_->upload(stream_);
  }
  replay_->launch(stream_);
}

void Gpu::run() {
  if (!options_.trace) return phases_->plan.run(stream_);
  cuda::Plan& plan = phases_->plan;
  std::vector<cuda::Event> events;
  for (size_t i = 0; i <= plan.size(); ++i) events.emplace_back(context_, cuda::Event::timed);
  events[0].record(stream_);
  for (size_t i = 0; i < plan.size(); ++i) {
    cuda::Launch one = plan.launch_at(i);
    one.after_previous_starts = false;
    cuda::launch(stream_, one);
    events[i + 1].record(stream_);
  }
  stream_.synchronize();
  for (size_t i = 0; i < plan.size(); ++i) {
    const LaunchNote& note = phases_->notes[i];
    times_.push_back({note.kernel, note.phase, note.layer, traced_ + events[i].milliseconds_since(events[0]) * 1e-3,
                      events[i + 1].milliseconds_since(events[i]) * 1e-3, note.bytes});
  }
  traced_ += events.back().milliseconds_since(events[0]) * 1e-3;
}

void expect_capable(const cuda::DeviceInfo& device) {
  if (device.sm < 90)
    throw Error("cuda:{} {} has compute capability {}.{}, but models run on 9.0 and later so far", device.ordinal,
                device.name, device.sm / 10, device.sm % 10);
  constexpr uint32_t shared = 227 * 1024;
  if (device.shared_per_block_optin < shared)
    throw Error("cuda:{} {} has {} bytes of shared memory for a block, but models want {} so far", device.ordinal,
                device.name, device.shared_per_block_optin, shared);
}

std::unique_ptr<model::Backend> make_gpu(const Model& model, const Limits& limits, const Options& options) {
  return std::make_unique<Gpu>(model, limits, options);
}

Memory memory_needed(const Model& model, const Limits& limits, const cuda::DeviceInfo& device, const Options&) {
  DeviceModel described = describe_weights(model);
  return count(described, model, limits, WorkSizes(model, limits, device.sms));
}

}  // namespace heddle::gpu
