// The search for the fastest shapes: one kernel after the other, each candidate timed in the whole step, because what
// counts is how a kernel starts while the one before it still runs.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "gpu/backend.h"
#include "model/backend.h"

namespace heddle::gpu {

namespace {

constexpr uint32_t positions[] = {256, 4096, 16384};  // one of each class of lengths
constexpr uint32_t timed_steps = 16, rounds = 2;
constexpr double worth_it = 0.997;  // of the best time so far: smaller gains are noise

model::Limits limits_of(const model::Model& model, const std::vector<uint32_t>& batches) {
  const uint32_t max_rows = *std::max_element(batches.begin(), batches.end());
  model::Limits limits{.rows = std::max(max_rows, 8u)};
  // for the longest, one row is enough
  const uint32_t context = std::min(model.context, std::max(max_rows * 2 * positions[1], positions[2] + 2048));
  limits.kv_blocks = std::max(max_rows, (context + limits.block_tokens - 1) / limits.block_tokens);  // one for each row
  return limits;
}

}  // namespace

class Tuner {
 public:
  Tuner(const model::Model& model, const Options& options, const std::vector<uint32_t>& batches)
      : gpu_(model, limits_of(model, batches), options), batches_(batches) {}

  Tuned run(const std::function<void(const std::string&)>& say,
            const std::function<void(uint64_t, uint64_t)>& progress) {
    gpu_.tuning_.begin_search();
    double best = time_all();
    Tuned result{.before = best};
    const std::vector<Tuning::Search> searches = gpu_.tuning_.searches();
    uint64_t all = 0;
    for (const Tuning::Search& search : searches)
      all += std::max<size_t>(search.candidates, 1) - 1;  // the first is the default
    for (const Tuning::Search& search : searches) {
      size_t chosen = 0;
      const double before = best;
      for (size_t i = 1; i < search.candidates; ++i) {
        gpu_.tuning_.set(search.key, i);
        if (progress) progress(result.tried, all);
        ++result.tried;
        const double seconds = time_all();
        if (seconds < best * worth_it) {
          best = seconds;
          chosen = i;
        }
      }
      gpu_.tuning_.set(search.key, chosen);
      ++result.kernels;
      say(fmt::format("{}: {} of {}, {:.2f} % of the step saved", text_of(search.key),
                      chosen ? fmt::format("candidate {}", chosen) : std::string("the default"), search.candidates,
                      100 * (1 - best / before)));
    }
    result.after = time_all();
    if (gpu_.tuning_.save()) result.file = gpu_.tuning_.file().string();
    return result;
  }

 private:
  // Seconds of one step of each kind, in the fastest of its rounds.
  double time_all() {
    gpu_.graphs_.clear();
    double sum = 0;
    for (uint32_t rows : batches_) {
      const uint32_t room = gpu_.limits_.kv_blocks / rows * gpu_.limits_.block_tokens;
      bool any = false;
      for (uint32_t position : positions)
        if (position + timed_steps + 4 < room) {
          sum += time(rows, position);
          any = true;
        }
      if (!any) sum += time(rows, 0);
    }
    return sum;
  }

  void forward(const model::Batch& batch) {
    gpu_.begin(batch);
    gpu_.embed();
    model::run_layers(gpu_.model_, gpu_);
    gpu_.head();
  }

  double time(uint32_t rows, uint32_t position) {
    if (rows > gpu_.max_followed_rows())
      throw Error("a vocabulary of {} tokens: steps cannot be timed", gpu_.model_.vocabulary);
    double least = 1e9;
    for (uint32_t round = 0; round < rounds; ++round) {
      model::Batch batch;
      const uint32_t blocks = gpu_.limits_.kv_blocks / rows;
      for (uint32_t r = 0; r < rows; ++r) {
        batch.tokens.push_back(r % gpu_.model_.vocabulary);
        batch.positions.push_back(position);
        batch.sequences.push_back(r);
        batch.outputs.push_back(r);
        std::vector<uint32_t>& own = batch.blocks.emplace_back(blocks);
        std::iota(own.begin(), own.end(), r * blocks);
      }
      batch.picking.assign(rows, model::Picking());
      const model::Batch following{.follows = true};
      forward(batch);
      gpu_.result();
      forward(following);
      gpu_.result();
      cuda::Event begin(gpu_.context_), end(gpu_.context_);
      begin.record(gpu_.stream_);
      const uint32_t count = std::min(timed_steps, gpu_.limits_.block_tokens * blocks - position - 3);
      for (uint32_t i = 0; i < count; ++i) {
        if (i >= max_steps_in_flight - 1) gpu_.result();
        forward(following);
      }
      end.record(gpu_.stream_);
      end.synchronize();
      least = std::min(least, double(end.milliseconds_since(begin)) * 1e-3 / count);
    }
    return least;
  }

  Gpu gpu_;
  std::vector<uint32_t> batches_;
};

Tuned tune(const model::Model& model, const Options& options, const std::vector<uint32_t>& batches,
           const std::function<void(const std::string&)>& say,
           const std::function<void(uint64_t, uint64_t)>& progress) {
  for (uint32_t rows : batches)
    if (rows == 0 || rows > max_step_rows) throw Error("a batch of {} rows, expected 1 to {}", rows, max_step_rows);
  if (batches.empty()) throw Error("expected a batch to tune for");
  return Tuner(model, options, batches).run(say, progress);
}

}  // namespace heddle::gpu
