// A token picked from each row of logits: the same id that engine::Sampler picks from the same logits.
#pragma once
#include <compare>
#include <limits>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// What a row is sampled with, and how much of its text is remembered. In device memory, so that a captured graph can be
// replayed. Fields mean what those of engine::Sampling mean, with min_keep = 1.
struct SampleRow {
  float temperature = 1;  // 0 (or less): the most likely token
  uint32_t top_k = 0;     // 0: off
  float top_p = 1;        // 1 and more: off
  float repetition = 1;   // 1: off
  float presence = 0, frequency = 0;
  uint32_t repetition_last = 64;        // how many last tokens of the text it looks at; ~0: all, 0: off
  uint32_t length = 0;                  // tokens of the text so far. Each pick adds itself and counts here
  uint64_t seed = 0, step = 0;          // step: picks before; step_advance counts it, this kernel does not
  double log_min_p = no_min_p;          // log of min_p, as engine's log_of computes it
  uint32_t prompt = 0;                  // how many of the first tokens are the prompt, which presence leaves out
  uint32_t first_bias = 0, biases = 0;  // entries of Args::biases; each id once
  uint32_t unused[3] = {};              // to 80 bytes

  static constexpr double no_min_p = -std::numeric_limits<double>::infinity();
};
struct TokenBias {
  uint32_t id;  // left out if not below vocab
  float bias;   // -infinity forbids the token
};
struct Sampled {
  uint32_t id;  // no_token: there is nothing to pick from
  float
      log_probability;  // with logprob, of the logits as given: before biases, penalties, temperature and cuts; else 0
};
// A logit was NaN or +infinity, or all were -infinity, as given or after biases and penalties: where engine::Sampler
// throws. Such a row is not remembered.
constexpr uint32_t no_token = ~0u;

// One launch does the engine's chain in its default order, of the steps below, and then draws:
//   logit_bias, penalties (repetition, presence, frequency), top_k, top_p, min_p, temperature
// Weights are the engine's, in units of 2^-34: integers, whose sums are exact in every order. So ids depend on logits,
// SampleRow and text alone, not on threads and splits. The picked id is appended to the row's text.
//
// A row is shared by `splits` blocks, which are a cluster if there are several (sm_90). sample_splits() says how many.
struct Sample {
  static constexpr std::string_view name = "sample",
                                    summary = "a token per row: biases, penalties, cuts, temperature, draw",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint32_t> out;     // (rows) of Sampled, 8-byte aligned
    ptx::DevicePtr<float> logits;     // (rows, vocab)
    ptx::DevicePtr<uint32_t> params;  // (rows) of SampleRow, 16-byte aligned
    ptx::DevicePtr<uint32_t> biases;  // of TokenBias, 8-byte aligned; null where no row has biases
    // (rows, capacity): ids of the text, token i at i % capacity. A text longer than that is known by its end only.
    ptx::DevicePtr<uint32_t> texts;
    ptx::DevicePtr<float> changed;  // (rows, vocab), scratch: null where no row has biases or penalties
    uint32_t rows, vocab;           // 0 < vocab <= 2^18
    uint32_t capacity;              // 0: no texts, so no penalties
  };
  uint32_t threads = 1024;
  uint32_t splits = 1;  // blocks per row; 16 must be allowed at launch (non-portable)
  uint32_t vec = 1;     // values per load; vocab must be a multiple of it
  uint32_t logprob = 0;
  uint32_t chained = 0;
  auto operator<=>(const Sample&) const = default;
  static auto fields() {
    return std::tuple(Field<Sample>{"threads", &Sample::threads, range(32, 1024, 32)},
                      Field<Sample>{"splits", &Sample::splits, one_of({1, 2, 4, 8, 16})},
                      Field<Sample>{"vec", &Sample::vec, one_of({1, 2, 4})},
                      Field<Sample>{"logprob", &Sample::logprob, yes_or_no()},
                      Field<Sample>{"chained", &Sample::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// How many blocks share a row on a GPU of so many SMs with clusters: a starting point for tuning.
uint32_t sample_splits(uint32_t rows, uint32_t sms);

}  // namespace heddle::kernels
