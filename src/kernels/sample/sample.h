// A token picked from each row of logits, and the step to the next position.
#pragma once
#include <compare>
#include <limits>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// A token picked from each row of logits: the same id that engine::Sampler picks from the same logits.

// The sampling options of a row and the length of its text. It lies in device memory, so that a captured graph can be
// replayed. The fields mean the same as those of engine::Sampling, with min_keep = 1.
struct SampleRow {
  float temperature = 1;  // 0 (or less): the most likely token
  uint32_t top_k = 0;     // 0: off
  float top_p = 1;        // 1 and more: off
  float repetition = 1;   // 1: off
  float presence = 0, frequency = 0;
  uint32_t repetition_last = 64;        // last tokens of the text that it looks at; ~0: all, 0: off
  uint32_t length = 0;                  // tokens of the text so far; each pick appends itself and counts here
  uint64_t seed = 0, step = 0;          // step: number of picks so far, counted by step_advance and not by this kernel
  double log_min_p = no_min_p;          // log of min_p, as engine's log_of computes it
  uint32_t prompt = 0;                  // tokens of the prompt, which presence and frequency ignore
  uint32_t first_bias = 0, biases = 0;  // entries of Args::biases; each id once
  uint32_t place = no_place;  // of its text and of its changed logits: only rows with biases or penalties need one
  uint32_t top = 0;           // of top_tokens: how many
  uint32_t mask = no_mask;    // which of Args::masks says what may be picked

  static constexpr uint32_t no_place = ~0u, no_mask = ~0u;
  static constexpr double no_min_p = -std::numeric_limits<double>::infinity();
};
struct TokenBias {
  uint32_t id;  // ignored if not below vocab
  float bias;   // -infinity forbids the token
};
struct Sampled {
  uint32_t id;  // no_token: there is nothing to pick from
  // With logprob: of the logits as given, before masks, biases, penalties, temperature and cuts. Else 0.
  float log_probability;
};
// A logit was NaN or +infinity, or all were -infinity, as given or after biases and penalties: where engine::Sampler
// throws. Such a row's text stays as it is.
constexpr uint32_t no_token = ~0u;

// One launch runs these steps of the engine's chain, in its default order, and then draws:
//   logit_bias, penalties (repetition, presence, frequency), top_k, top_p, min_p, temperature
// Before them, with `masked`, the logits of tokens that a row's mask forbids become -infinity, where they are.
// Weights are the engine's: integers in units of 2^-34, so that their sums are exact in every order. The picked id
// therefore depends on logits, SampleRow and text alone, not on threads and splits. It is appended to the row's text,
// if it has a place; a row without one is picked for as if it had no biases and penalties.
//
// A row is shared by `splits` blocks; several form a cluster (sm_90). sample_splits() chooses their number.
struct Sample {
  static constexpr std::string_view name = "sample",
                                    summary = "a token per row: biases, penalties, cuts, temperature, draw",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint32_t> out;     // (rows) of Sampled, 8-byte aligned
    ptx::DevicePtr<float> logits;     // (rows, vocab)
    ptx::DevicePtr<uint32_t> params;  // (rows) of SampleRow, 16-byte aligned
    ptx::DevicePtr<uint32_t> biases;  // of TokenBias, 8-byte aligned; null where no row has biases
    // (places, capacity): ids of the text, token i at i % capacity. Only the last `capacity` tokens are kept.
    ptx::DevicePtr<uint32_t> texts;
    ptx::DevicePtr<float> changed;        // (places, vocab), scratch: null where no row has a place
    ptx::DevicePtr<uint32_t> masks = {};  // (masks, (vocab + 31) / 32): a bit for each token; null where not masked
    uint32_t rows, vocab;                 // 0 < vocab <= 2^18
    uint32_t capacity;                    // 0: no texts, so no penalties
  };
  uint32_t threads = 1024;
  uint32_t splits = 1;  // blocks per row; 16 must be allowed at launch (non-portable)
  uint32_t vec = 1;     // values per load; vocab must be a multiple of it
  uint32_t logprob = 0;
  uint32_t masked = 0;  // rows may have masks
  uint32_t chained = 0;
  auto operator<=>(const Sample&) const = default;
  static auto fields() {
    return std::tuple(
        Field<Sample>{"threads", &Sample::threads, range(32, 1024, 32)},
        Field<Sample>{"splits", &Sample::splits, one_of({1, 2, 4, 8, 16})},
        Field<Sample>{"vec", &Sample::vec, one_of({1, 2, 4})}, Field<Sample>{"logprob", &Sample::logprob, yes_or_no()},
        Field<Sample>{"masked", &Sample::masked, yes_or_no()}, Field<Sample>{"chained", &Sample::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// The number of blocks to share a row on a GPU with clusters and `sms` SMs: a starting point for tuning.
uint32_t sample_splits(uint32_t rows, uint32_t sms, bool clusters = true);

// The most likely tokens of a row.

// out[r * most + i] = the token with the i-th largest logit of row r, the lowest id among equals, and its
// log-probability, for i below the row's SampleRow::top; no_token where there is none with a probability above 0, or
// where no logit can be picked. The rest of `out` stays as it is. One pass over the row for each token, by the blocks
// of a cluster.
struct TopTokens {
  static constexpr std::string_view name = "top_tokens",
                                    summary = "the most likely tokens of each row, with their log-probabilities",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint32_t> out;     // (rows, most) of Sampled, 8-byte aligned
    ptx::DevicePtr<float> logits;     // (rows, vocab)
    ptx::DevicePtr<uint32_t> params;  // (rows) of SampleRow
    uint32_t rows, vocab;             // 0 < vocab <= 2^18
    uint32_t most;                    // of a row; a larger SampleRow::top counts as this
  };
  uint32_t threads = 1024;
  uint32_t splits = 1;  // blocks per row; 16 must be allowed at launch (non-portable)
  uint32_t chained = 0;
  auto operator<=>(const TopTokens&) const = default;
  static auto fields() {
    return std::tuple(Field<TopTokens>{"threads", &TopTokens::threads, range(32, 1024, 32)},
                      Field<TopTokens>{"splits", &TopTokens::splits, one_of({1, 2, 4, 8, 16})},
                      Field<TopTokens>{"chained", &TopTokens::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// Between two steps of a decode batch: the picked tokens become the next step's input, without the host.

// Per row: token = picked id, position + 1, length + 1, sample step + 1, and history[step % ring][row] = picked. Then
// step + 1, after everything else is visible to the host and to other devices: a reader that sees the new step also
// sees its row of the history. One block. When chained, it waits but does not let the next kernel start early, because
// it writes what kernels read before they wait. Rows at positions from 2^31 on are not in use and stay as they are.
// Where nothing could be picked, the history has no_token and the next token is 0, a valid id.
struct StepAdvance {
  static constexpr std::string_view name = "step_advance", summary = "picked tokens become the input of the next step",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint32_t> picked;              // (rows) of Sampled, 8-byte aligned
    ptx::DevicePtr<uint32_t> tokens;              // (rows)
    ptx::DevicePtr<uint32_t> positions, lengths;  // (rows)
    ptx::DevicePtr<uint32_t> params;              // (rows) of SampleRow, 16-byte aligned
    ptx::DevicePtr<uint32_t> history;             // (ring, rows) of Sampled, 8-byte aligned
    ptx::DevicePtr<uint64_t> step;                // one number
    uint32_t rows, ring;                          // ring > 0
  };
  uint32_t chained = 0;
  auto operator<=>(const StepAdvance&) const = default;
  static auto fields() { return std::tuple(Field<StepAdvance>{"chained", &StepAdvance::chained, yes_or_no()}); }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
