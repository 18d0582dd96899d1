// A split is found by counting: more of a model on the GPU is always faster, so that the largest part that fits there
// is looked for, in one of the few ways to cut a model.
#include "main/device/split_choice.h"

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "main/device/device_memory.h"
#include "model/forward.h"

namespace heddle {

using model::Place;

namespace {

// Estimates for any GPU: the share of the streaming rate that the kernels of a layer reach when they are launched one
// by one, and what a layer's launches take beside that. The CPU's part takes far longer than either.
constexpr double gpu_share = 0.6, seconds_of_layer = 15e-6;
constexpr double seconds_of_crossing = 20e-6;  // of one row, both ways, with the wait for the GPU
constexpr uint32_t min_split_context = 512, usual_split_context = 2048;
constexpr uint32_t max_split_rows = 2048, min_split_rows = 64;

// The sublayer that moves to the CPU while its layer stays; -1: none.
int movable(const model::Layer& layer, bool mixtures) {
  if (layer.parallel) return -1;
  for (size_t i = 0; i < layer.sublayers.size(); ++i)
    if (mixtures ? std::holds_alternative<model::Mixture>(layer.sublayers[i])
                 : std::holds_alternative<model::FeedForward>(layer.sublayers[i]))
      return int(i);
  return -1;
}

// Layers of the first `layers` that can leave a sublayer to the CPU.
uint32_t movable_layers(const model::Model& model, uint32_t layers) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < layers; ++i) count += movable(model.layers[i], mixtures_of(model) > 0) >= 0;
  return count;
}

// Bytes of weights that one token reads.
double bytes_read(const model::Sublayer& sublayer) {
  double bytes = 0;
  for (const model::SublayerMatrix& m : model::matrices_of(sublayer))
    bytes += double(m.matrix->data.size()) * double(m.used) / double(m.experts);
  return bytes;
}
struct BytesRead {
  double gpu = 0, cpu = 0;
};
BytesRead bytes_read(const model::Model& model, const model::Placement& placement) {
  BytesRead bytes;
  (placement.head == Place::device ? bytes.gpu : bytes.cpu) += double(model.output.data.size());
  for (size_t i = 0; i < model.layers.size(); ++i)
    for (size_t s = 0; s < model.layers[i].sublayers.size(); ++s)
      (placement.sublayers[i][s] == Place::device ? bytes.gpu : bytes.cpu) += bytes_read(model.layers[i].sublayers[s]);
  return bytes;
}

std::vector<gpu::VisitingSublayer> visiting(const model::Model& model, const model::Placement& placement) {
  std::vector<gpu::VisitingSublayer> all;
  for (const auto [layer, sublayer] : model::visitors(model, placement)) all.push_back({layer, sublayer});
  return all;
}

uint32_t crossings(const model::Placement& placement) {
  uint32_t count = 0;
  Place at = Place::host;
  const auto go = [&](Place to) {
    to = to == Place::device ? Place::device : Place::host;
    count += to != at;
    at = to;
  };
  for (const std::vector<Place>& layer : placement.sublayers)
    for (const Place place : layer) go(place);
  go(placement.head);
  return count;
}

class Chooser {
 public:
  Chooser(const model::Model& model, const DeviceOptions& options, const SplitRoom& room, const SplitRates& rates,
          const model::Model* draft)
      : model_(model),
        options_(options),
        room_(room),
        rates_(rates),
        draft_(draft),
        layers_(uint32_t(model.layers.size())) {}

  SplitChoice choose() {
    expect_splittable(model_, options_);
    // Visits make prompts faster, but not every GPU has room for them. A row's result depends on whether it was
    // visited.
    for (const bool visits : {true, false}) {
      if (visits && (options_.deterministic || options_.exact)) continue;
      visits_ = visits;
      for (context_ = first_context();; context_ = std::max(min_split_context, context_ / 2)) {
        rows_ = choose_rows();
        if (std::optional<SplitChoice> found = best()) return finished(*found);
        if (options_.context != 0 || context_ <= min_split_context) break;
      }
    }
    refuse();
  }

 private:
  // A context that was not asked for takes up to an eighth of the GPU's memory: what it takes, layers do not get.
  uint32_t first_context() const {
    if (options_.context != 0) return model_.context;
    model::Limits block{.kv_blocks = 1};
    block.kv = options_.kv;
    const uint64_t blocks = room_.gpu_bytes / 8 / std::max<uint64_t>(1, model::kv_bytes(model_, block));
    const uint64_t tokens = std::max<uint64_t>(blocks * block.block_tokens, usual_split_context);
    return uint32_t(std::min<uint64_t>(tokens, model_.context));
  }

  // The fastest of the cuts that may be taken.
  std::optional<SplitChoice> best() {
    if (options_.gpu_layers || options_.cpu_experts) return as_asked();
    std::optional<SplitChoice> best;
    const auto consider = [&](const std::optional<SplitChoice>& other, double handicap) {
      if (other && (!best || other->seconds * handicap < best->seconds)) best = other;
    };
    const uint32_t moves = movable_layers(model_, layers_);
    for (const bool head : {true, false}) consider(fewest_moved(layers_, head, moves), 1);
    // Attention stays with its KV cache: where the CPU has whole layers, it computes their attention also for prompts.
    // That is worth a quarter of the speed of single tokens.
    if (mixtures_of(model_) == 0 || !best) consider(max_layers(0), 1.25);
    if (!best && mixtures_of(model_)) consider(max_layers(all_layers), 1);
    return best;
  }

  std::optional<SplitChoice> as_asked() {
    const uint32_t layers = options_.gpu_layers.value_or(layers_), moves = movable_layers(model_, layers);
    std::optional<SplitChoice> best;
    for (const bool head : {true, false}) {
      if (head && layers < layers_) continue;  // the head goes where the last layer is
      std::optional<SplitChoice> found;
      if (options_.cpu_experts)
        found = counted({layers, std::min(*options_.cpu_experts, moves), head});
      else
        found = counted({layers, 0, head});
      if (found && (!best || found->seconds < best->seconds)) best = found;
    }
    return best;
  }

  std::optional<SplitChoice> fewest_moved(uint32_t layers, bool head, uint32_t moves) {
    if (const auto all = counted({layers, 0, head})) return all;  // without room for visits
    if (moves == 0 || !counted({layers, moves, head})) return std::nullopt;
    uint32_t low = 1, high = moves;  // high fits
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      counted({layers, middle, head}) ? high = middle : low = middle + 1;
    }
    return counted({layers, high, head});
  }
  // `moved`: of all layers on the GPU.
  std::optional<SplitChoice> max_layers(uint32_t moved) {
    uint32_t low = 0, high = layers_;  // low fits, or is 0
    const auto cut = [&](uint32_t layers) {
      return SplitCut{layers, std::min(moved, movable_layers(model_, layers)), false};
    };
    while (low < high) {
      const uint32_t middle = (low + high + 1) / 2;
      counted(cut(middle)) ? low = middle : high = middle - 1;
    }
    return low ? counted(cut(low)) : std::nullopt;
  }

  // The cut with what it takes and how fast it should be, if it fits.
  std::optional<SplitChoice> counted(SplitCut cut) {
    cut.visits = visits_;
    SplitChoice choice{.cut = cut, .placement = placement_of(model_, cut), .context = context_};
    const model::Model cpu = part_of(model_, choice.placement, Place::host);
    choice.limits = limits(rows_);
    choice.on_gpu = gpu_memory_of(model_, cut, options_, choice.limits, room_.gpu);
    choice.on_cpu = memory_for(cpu, options_, choice.limits);
    if (choice.on_gpu.total() + draft_bytes(choice.limits) > room_.gpu_bytes) return refused(choice);
    if (room_.cpu_bytes && choice.on_cpu.total() > room_.cpu_bytes) return refused(choice);
    const BytesRead bytes = bytes_read(model_, choice.placement);
    choice.seconds = bytes.gpu / (rates_.gpu * gpu_share) + cut.gpu_layers * seconds_of_layer + bytes.cpu / rates_.cpu +
                     crossings(choice.placement) * seconds_of_crossing / 2;
    return choice;
  }
  std::nullopt_t refused(const SplitChoice& choice) {
    if (!smallest_ || choice.on_gpu.total() < smallest_->on_gpu.total()) smallest_ = choice;
    return std::nullopt;
  }
  // Rows of a batch, of which the workspace takes up to a twelfth of the memory: prompts want large batches, but layers
  // need room. Counted with the first and the last layer, as if both were on the GPU: a whole model takes longer.
  uint32_t choose_rows() const {
    if (room_.rows) return room_.rows;
    model::Model ends = part_of(model_, model::Placement::first_layers(model_, layers_), Place::device);
    if (layers_ > 2) ends.layers.erase(ends.layers.begin() + 1, ends.layers.end() - 1);
    uint32_t rows = max_split_rows;
    for (; rows > min_split_rows; rows /= 2)
      if (memory_for(ends, options_, limits(rows), &room_.gpu).workspace <= room_.gpu_bytes / 12) break;
    return rows;
  }
  model::Limits limits(uint32_t rows) const {
    DeviceOptions options = options_;
    const uint32_t cache = options.cache_tokens;
    options.cache_tokens = std::min(cache, context_);
    model::Limits limits = limits_for(model_, options, context_, rows);
    if (cache > context_ && model::is_causal(model_))
      limits.kv_blocks = (cache + limits.block_tokens - 1) / limits.block_tokens;
    limits.state_slots = state_slots_for(options, limits.kv_blocks);
    limits.window_blocks = window_blocks_for(model_, options, limits);
    return limits;
  }
  uint64_t draft_bytes(const model::Limits& limits) const {
    return draft_ ? memory_for(*draft_, options_, draft_limits(limits), &room_.gpu).total() : 0;
  }

  SplitChoice finished(SplitChoice choice) const {
    const uint32_t threads = options_.threads ? options_.threads : uint32_t(hardware_threads());
    const std::string gpu = fmt::format("cuda:{}", room_.gpu.ordinal);
    const std::string cpu = fmt::format("{} CPU threads", threads);
    const SplitCut& cut = choice.cut;
    const char* sublayers = mixtures_of(model_) ? "experts" : "feed-forward";
    if (cut.gpu_layers < layers_)
      choice.text =
          fmt::format("{} of {} layers on {}, {} on {}", cut.gpu_layers, layers_, gpu, layers_ - cut.gpu_layers, cpu);
    else if (cut.moved)
      choice.text = fmt::format("{} of {} layers on {}, the {} of {} on {}", layers_ - cut.moved, layers_, gpu,
                                sublayers, cut.moved, cpu);
    else
      choice.text = fmt::format("{} of {} layers on {}, the embedding{} on {}", layers_, layers_, gpu,
                                cut.head_on_gpu ? "" : " and the head", cpu);
    if (cut.gpu_layers < layers_ && cut.moved)
      choice.text += fmt::format(", with the {} of {} more", sublayers, cut.moved);
    choice.text += fmt::format(", about {:.{}f} tok/s", 1 / choice.seconds, choice.seconds > 0.1 ? 1 : 0);
    return choice;
  }

  [[noreturn]] void refuse() const {
    const auto text = [](uint64_t bytes) { return bytes_text(double(bytes)); };
    const SplitChoice& least = *smallest_;
    const std::string where = fmt::format("cuda:{} {}", room_.gpu.ordinal, room_.gpu.name);
    const uint64_t draft = draft_bytes(least.limits), needed = least.on_gpu.total() + draft;
    if (needed <= room_.gpu_bytes)
      throw DoesNotSplit(
          "{}: too little memory for what {} has no room for: expected {} to be available on the CPU, found {}",
          model_.name, where, text(least.on_cpu.total()), text(room_.cpu_bytes));
    std::string what = fmt::format("{} of {} layers", least.cut.gpu_layers, layers_);
    if (least.cut.moved)
      what += fmt::format(" without the {} of {}", mixtures_of(model_) ? "experts" : "feed-forward", least.cut.moved);
    throw DoesNotSplit(
        "{}: too little memory on {} for {}: expected {} to be free (weights {}, KV cache of {} tokens {}, workspace "
        "{}{}), found {}",
        model_.name, where, what, text(needed), text(least.on_gpu.weights),
        uint64_t(least.limits.kv_blocks) * least.limits.block_tokens, text(least.on_gpu.kv),
        text(least.on_gpu.workspace), draft ? ", draft " + text(draft) : "", text(room_.gpu_bytes));
  }

  const model::Model& model_;
  const DeviceOptions& options_;
  const SplitRoom& room_;
  const SplitRates& rates_;
  const model::Model* draft_;
  const uint32_t layers_;
  uint32_t context_ = 0, rows_ = 0;
  bool visits_ = false;
  std::optional<SplitChoice> smallest_;  // of those that do not fit
};

// The first layers: enough that a token reads more than the caches of most CPUs hold, or of a mixture, of which a token
// reads little, that several tokens do.
model::Model sample_of(const model::Model& model) {
  constexpr double max_read = 400e6, max_bytes = 1.5e9;
  model::Model sample = part_of(model, model::Placement::first_layers(model, 0), Place::host);
  sample.output = {};
  sample.output_bias.clear();
  double read = 0, bytes = 0;
  for (size_t i = 0; i < sample.layers.size(); ++i) {
    for (const model::Sublayer& sublayer : sample.layers[i].sublayers) read += bytes_read(sublayer);
    for (const model::SublayerMatrix& m : model::matrices_of(sample.layers[i])) bytes += double(m.matrix->data.size());
    if (read < max_read && bytes < max_bytes) continue;
    sample.layers.resize(i + 1);
    break;
  }
  return sample;
}

}  // namespace

void expect_splittable(const model::Model& model, const DeviceOptions& options) {
  const size_t layers = model::own_layers(model);
  if (options.mtp && asks_for_split(options))
    throw Error(
        "--mtp: expected neither --gpu-layers nor --cpu-experts with it: the head needs all layers on one device");
  if (options.gpu_layers && *options.gpu_layers > layers)
    throw Error("--gpu-layers: expected up to {}, as many as {} has, found {}", layers, model.name,
                *options.gpu_layers);
  if (!options.cpu_experts) return;
  const uint32_t mixtures = mixtures_of(model);
  if (mixtures == 0) throw Error("--cpu-experts: {} has no experts", model.name);
  if (*options.cpu_experts != all_layers && *options.cpu_experts > mixtures)
    throw Error("--cpu-experts: expected up to {}, as many layers of {} have experts, found {}", mixtures, model.name,
                *options.cpu_experts);
}

uint32_t mixtures_of(const model::Model& model) {
  return uint32_t(std::count_if(model.layers.begin(), model.layers.end(),
                                [](const model::Layer& layer) { return layer.find<model::Mixture>() != nullptr; }));
}

model::Placement placement_of(const model::Model& model, const SplitCut& cut) {
  model::Placement placement = model::Placement::first_layers(model, cut.gpu_layers);
  if (cut.head_on_gpu) placement.head = Place::device;
  const bool mixtures = mixtures_of(model) > 0;
  uint32_t moved = 0;
  for (uint32_t i = cut.gpu_layers; i-- > 0 && moved < cut.moved;)
    if (const int sublayer = movable(model.layers[i], mixtures); sublayer >= 0) {
      placement.sublayers[i][size_t(sublayer)] = Place::host;
      ++moved;
    }
  for (size_t i = 0; cut.visits && i < model.layers.size(); ++i)
    for (size_t s = 0; s < model.layers[i].sublayers.size(); ++s)
      if (placement.sublayers[i][s] == Place::host && !model.layers[i].parallel &&
          !std::holds_alternative<model::Attention>(model.layers[i].sublayers[s]))
        placement.sublayers[i][s] = Place::visiting;
  return placement;
}

SplitChoice choose_split(const model::Model& model, const DeviceOptions& options, const SplitRoom& room,
                         const SplitRates& rates, const model::Model* draft) {
  return Chooser(model, options, room, rates, draft).choose();
}

std::unique_ptr<model::Backend> make_split_backend(const model::Model& model, const model::Placement& placement,
                                                   const model::Limits& limits, const gpu::Options& on_gpu,
                                                   const cpu::Options& on_cpu) {
  gpu::Options with = on_gpu;
  with.visiting = visiting(model, placement);
  return model::make_split(
      model, placement, [&](const model::Model& part) { return gpu::make_gpu(part, limits, with); },
      [&](const model::Model& part) { return cpu::make_cpu(part, limits, on_cpu); }, {.max_rows = limits.rows});
}

model::Memory gpu_memory_of(const model::Model& model, const SplitCut& cut, const DeviceOptions& options,
                            const model::Limits& limits, const cuda::DeviceInfo& gpu) {
  const model::Placement placement = placement_of(model, cut);
  return gpu::memory_needed(part_of(model, placement, Place::device), limits, gpu,
                            {.device = gpu.ordinal,
                             .exact = options.exact,
                             .deterministic = options.deterministic,
                             .visiting = visiting(model, placement)});
}

SplitRates measure_rates(const model::Model& model, const DeviceOptions& options, const cuda::Context& gpu) {
  constexpr uint32_t first = 4;  // tokens that wake the threads
  constexpr uint32_t least = 24, most = 200;
  constexpr double enough = 0.2;  // seconds
  const model::Model sample = sample_of(model);
  const auto backend = cpu::make_cpu(sample, {.rows = 1, .kv_blocks = 1},
                                     {.threads = options.threads, .isa = options.isa, .exact = options.exact});
  std::vector<double> steps;
  const auto start = Clock::now();
  for (uint32_t i = 0; i < first + most; ++i) {
    if (steps.size() >= least && seconds_since(start) > enough) break;
    const uint32_t token = (i + 1) * 7919 % model.vocabulary;
    const model::Batch batch{.tokens = {token}, .positions = {i % 16}, .sequences = {0}, .blocks = {{0}}};
    const auto begin = Clock::now();
    backend->begin(batch);
    backend->embed();
    model::run_layers(sample, *backend);
    if (i >= first) steps.push_back(seconds_since(begin));
  }
  std::nth_element(steps.begin(), steps.begin() + steps.size() / 2, steps.end());
  double bytes = 0;
  for (const model::Layer& layer : sample.layers)
    for (const model::Sublayer& sublayer : layer.sublayers) bytes += bytes_read(sublayer);
  return {.gpu = gpu::read_bandwidth(gpu), .cpu = bytes / steps[steps.size() / 2]};
}

uint64_t usable_on_gpu(const DeviceOptions& options, uint64_t free) {
  return usable_memory(options.gpu_memory ? std::min(options.gpu_memory, free) : free);
}

}  // namespace heddle
