// Everything is counted before weights are read or memory is allocated.
#include "main/device/device_memory.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "cpu/cpu.h"
#include "gpu/gpu.h"
#include "model/session.h"

namespace heddle {
namespace {

// Texts in a batch of an encoder, each of which leaves a part of its last block unused: texts of 8 tokens fill a batch.
uint32_t texts_at_once(uint32_t rows) { return std::max(64u, rows / 8); }
constexpr uint32_t min_context = 512;  // a context is not cut below this unless asked for
constexpr uint32_t tokens_of_slot = 512, min_slots = 4, max_slots_of_one = 16, max_slots = 128;
constexpr uint32_t text_tokens = 4096, min_texts = 4;  // of texts with a window

uint32_t blocks_for(uint64_t tokens) {
  const uint32_t block = model::Limits().block_tokens;
  return uint32_t(std::min<uint64_t>((tokens + block - 1) / block, UINT32_MAX / block));
}

// Of a model and its draft, which may be null.
uint64_t bytes_for(const model::Model& model, const model::Model* draft, const DeviceOptions& options,
                   const model::Limits& limits, const cuda::DeviceInfo* gpu) {
  const uint64_t own = memory_for(model, options, limits, gpu).total();
  return draft ? own + memory_for(*draft, options, draft_limits(limits), gpu).total() : own;
}

// The largest number from `low` on, up to `high`, with which the limits need no more than is available.
uint32_t largest_that_fits(uint32_t low, uint32_t high, const std::function<bool(uint32_t)>& fits) {
  while (low < high) {
    const uint32_t middle = low + (high - low + 1) / 2;
    if (fits(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

// With as many of the requested KV blocks as fit; with `more_windows`, as many blocks of windows as fit then.
model::Limits widened(const model::Model& model, const DeviceOptions& options, model::Limits limits, uint64_t available,
                      const cuda::DeviceInfo* gpu, const model::Model* draft, bool more_windows) {
  if (!model::is_causal(model)) return limits;
  const auto with_blocks = [&](uint32_t blocks) {
    limits.kv_blocks = blocks;
    limits.state_slots = state_slots_for(options, blocks);
    limits.window_blocks = window_blocks_for(model, options, limits);
    return limits;
  };
  const auto fits = [&](const model::Limits& each) {
    return available == 0 || bytes_for(model, draft, options, each, gpu) <= available;  // 0: unknown
  };
  const uint32_t low = limits.kv_blocks, high = std::max(low, blocks_for(options.cache_tokens));
  limits = with_blocks(largest_that_fits(low, high, [&](uint32_t blocks) { return fits(with_blocks(blocks)); }));
  if (limits.window_blocks == 0 || !more_windows) return limits;
  limits.window_blocks = largest_that_fits(limits.window_blocks, limits.kv_blocks, [&](uint32_t blocks) {
    model::Limits more = limits;
    more.window_blocks = blocks;
    return fits(more);
  });
  if (limits.window_blocks == limits.kv_blocks) limits.window_blocks = 0;
  return limits;
}

// Tokens of the KV cache of a server, and of that of its draft, which may be null.
uint32_t tokens_for_many(const model::Model& model, const model::Model* draft, uint64_t available,
                         const DeviceOptions& options, bool gpu) {
  model::Limits context{.rows = cpu_rows(options), .kv_blocks = blocks_for(model.context), .kv = options.kv};
  context.window_blocks = window_blocks_for(model, options, context);
  const auto bytes_of_token = [](const model::Model& each, const model::Limits& limits) {
    return model::kv_bytes(each, limits) / (uint64_t(limits.kv_blocks) * limits.block_tokens) +
           model::state_bytes(each) / tokens_of_slot;
  };
  const uint64_t token = std::max<uint64_t>(
      1, bytes_of_token(model, context) + (draft ? bytes_of_token(*draft, draft_limits(context)) : 0));
  uint64_t tokens = model.context * uint64_t(gpu ? 256 : 8);
  if (!gpu) tokens = std::min(tokens, available / 4 / token);
  return uint32_t(std::clamp<uint64_t>(tokens, model.context, INT32_MAX));
}

}  // namespace

uint32_t state_slots_for(const DeviceOptions& options, uint32_t kv_blocks) {
  const uint64_t tokens = uint64_t(kv_blocks) * model::Limits().block_tokens;
  const uint32_t most = options.many || options.cache_tokens > 0 ? max_slots : max_slots_of_one;
  const uint32_t least = std::max(min_slots, 2 * options.at_once);  // each sequence runs, and has a snapshot
  return uint32_t(std::clamp<uint64_t>(tokens / tokens_of_slot, least, std::max(least, most)));
}

uint32_t window_blocks_for(const model::Model& model, const DeviceOptions& options, const model::Limits& limits) {
  const uint64_t seen = model::windows_of(model).longest(), kv_blocks = limits.kv_blocks;
  if (seen == 0 || !model::is_causal(model)) return 0;
  const bool many = options.many || options.cache_tokens > 0;
  const uint64_t tokens = kv_blocks * limits.block_tokens, text = std::max<uint64_t>(text_tokens, 4 * seen);
  const uint64_t texts = std::max<uint64_t>(many ? tokens / text : 0, min_texts);
  const uint64_t blocks =
      std::max(kv_blocks / 8, texts * (blocks_for(seen) + 2) + blocks_for(limits.rows) + 1);  // and those of a batch
  return blocks < kv_blocks ? uint32_t(blocks) : 0;
}

model::Limits draft_limits(model::Limits limits) {
  limits.window_blocks = 0;
  return limits;
}

uint32_t cpu_rows(const DeviceOptions& options) {
  const uint64_t threads = options.threads ? options.threads : hardware_threads();
  return uint32_t(std::clamp<uint64_t>(64 * threads, 512, 2048));
}

double parameters(const model::Model& model) {
  double count = 0;
  std::set<const uint8_t*> seen;
  const auto add = [&](const model::Matrix& matrix) {
    if (matrix && seen.insert(matrix.data.data()).second) count += double(matrix.rows) * double(matrix.cols);
  };
  for (const model::Layer& layer : model.layers)
    for (const model::SublayerMatrix& all : model::matrices_of(layer)) add(*all.matrix);
  for (const model::Matrix* matrix : {&model.embedding, &model.positions, &model.output}) add(*matrix);
  return count;
}

model::Limits limits_for(const DeviceOptions& options, uint32_t context, uint32_t rows) {
  model::Limits limits = model::limits_for(context, rows);
  limits.kv = options.kv;
  if (options.cache_tokens > 0) {
    limits.rows = rows;
    limits.kv_blocks = std::min(limits.kv_blocks, blocks_for(options.cache_tokens));
  }
  limits.state_slots = state_slots_for(options, limits.kv_blocks);
  return limits;
}

model::Limits limits_for(const model::Model& model, const DeviceOptions& options, uint32_t context, uint32_t rows) {
  model::Limits limits = limits_for(options, context, rows);
  limits.window_blocks = window_blocks_for(model, options, limits);
  if (model::is_causal(model)) return limits;
  limits.rows = std::max(rows, context);
  limits.kv_blocks = blocks_for(limits.rows) + texts_at_once(limits.rows);
  return limits;
}

model::Memory memory_for(const model::Model& model, const DeviceOptions& options, const model::Limits& limits,
                         const cuda::DeviceInfo* gpu) {
  if (gpu) return gpu::memory_needed(model, limits, *gpu, {.device = gpu->ordinal, .exact = options.exact});
  const cpu::Options cpu{
      .threads = options.threads, .isa = options.isa, .exact = options.exact, .repack = !options.no_repack};
  model::Memory memory = cpu::memory_needed(model, limits, cpu);
  if (options.backend == "reference") {  // its cache is f32
    model::Limits halves = limits;
    halves.kv = model::KvFormat::f16;
    memory.kv = model::kv_bytes(model, halves) * 2;
  }
  return memory;
}

uint32_t largest_context(const model::Model& model, const DeviceOptions& options, uint32_t max, uint32_t rows,
                         uint64_t available, const cuda::DeviceInfo* gpu, const model::Model* draft) {
  const auto fits = [&](uint32_t context) {
    return bytes_for(model, draft, options, limits_for(model, options, context, rows), gpu) <= available;
  };
  if (fits(max)) return max;
  uint32_t low = 0, high = max / 32 + 1;  // in blocks: low fits or is 0, high does not
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (fits(middle * 32) ? low : high) = middle;
  }
  return low * 32;
}

uint64_t usable_on_cpu(const DeviceOptions& options) {
  const uint64_t free = available_memory();
  if (options.cpu_memory == 0) return free;
  return free ? std::min(free, options.cpu_memory) : options.cpu_memory;  // 0: unknown
}

uint64_t usable_memory(uint64_t free) { return free - std::min<uint64_t>(free / 16, 256 << 20); }

Fit fit(const model::Model& model, const DeviceOptions& wanted, uint32_t rows, uint64_t available,
        const cuda::DeviceInfo* gpu, const model::Model* draft) {
  DeviceOptions options = wanted;
  if (options.many && options.cache_tokens == 0)
    options.cache_tokens = tokens_for_many(model, draft, available, options, gpu != nullptr);
  Fit fit{.needed = memory_for(model, options, limits_for(model, options, model.context, rows), gpu),
          .available = available};
  if (draft) fit.draft = memory_for(*draft, options, limits_for(options, model.context, rows), gpu);
  fit.largest = available == 0 || fit.total() <= available
                    ? model.context
                    : largest_context(model, options, model.context, rows, available, gpu, draft);
  const bool enough = fit.largest == model.context || (options.context == 0 && fit.largest >= min_context);
  fit.context = enough ? fit.largest : 0;
  // Leave a GPU some memory for the kernels and graphs of later batches.
  const uint64_t spared = options.many && gpu ? available / 16 : 0;
  const uint64_t share = (available - spared) / std::max(1u, options.shares);
  if (enough)
    fit.limits = widened(model, options, limits_for(model, options, fit.context, rows), share, gpu, draft,
                         wanted.cache_tokens > 0);
  return fit;
}

std::string fitting_type(const model::Model& model, const Fit& fit) {
  struct Type {
    const char* name;
    double bits;  // per weight, averaged over a model
  };
  constexpr std::array types = {Type{"Q8_0", 8.5},    Type{"Q6_K", 6.57},   Type{"Q5_K_M", 5.7},
                                Type{"Q4_K_M", 4.85}, Type{"Q3_K_M", 3.95}, Type{"Q2_K", 3.15}};
  const double count = parameters(model), context = model.context;
  const double rest =
      double(fit.needed.workspace + fit.draft.total()) + double(fit.needed.kv) * std::min(1.0, min_context / context);
  for (const Type& type : types) {
    const double bytes = count * type.bits / 8;
    if (bytes < 0.95 * double(fit.needed.weights) && bytes + rest <= double(fit.available))
      return fmt::format("{} ({})", type.name, bytes_text(bytes));
  }
  return {};
}

std::string does_not_fit(const model::Model& model, const Fit& fit, const std::string& where,
                         const model::Model* draft) {
  const auto text = [](uint64_t bytes) { return bytes_text(double(bytes)); };
  std::string remedy;
  if (fit.largest) {
    remedy = fmt::format("--ctx {} would fit", fit.largest);
  } else {
    const std::string type = fitting_type(model, fit);
    remedy = "a shorter context does not help";
    if (!type.empty()) remedy += fmt::format(", weights as {} would fit", type);
  }
  if (where.empty() && fit.needed.in_file == 0 && fit.total() - fit.needed.weights - fit.draft.weights <= fit.available)
    remedy += "; --no-repack leaves the weights in the file, which is slower";
  std::string drafts;
  if (draft)
    drafts = fmt::format("; draft {}: weights {}, KV cache {}, workspace {}", draft->name, text(fit.draft.weights),
                         text(fit.draft.kv), text(fit.draft.workspace));
  if (draft && fit.needed.total() <= fit.available) remedy += "; without --draft the model fits";
  return fmt::format(
      "{}: too little memory{}: expected {} to be free (weights {}, KV cache of {} tokens {}, workspace {}{}), found "
      "{}, {} too little; {}",
      model.name, where, text(fit.total()), text(fit.needed.weights), model.context, text(fit.needed.kv),
      text(fit.needed.workspace), drafts, text(fit.available), text(fit.total() - fit.available), remedy);
}

}  // namespace heddle
