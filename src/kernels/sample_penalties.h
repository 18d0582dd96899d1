// Penalties and biases on logits, before sampling.
#pragma once
#include <compare>

#include "kernels/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// One row's part of the lists below, and its penalties. In device memory, so that a captured graph can be replayed.
struct PenaltyRow {
  uint32_t first_token = 0, tokens = 0;  // entries of `tokens`: the ids seen so far
  uint32_t first_bias = 0, biases = 0;   // entries of `biases`
  float repetition = 1;                  // a seen token's logit is divided by it if above 0, else multiplied
  float presence = 0, frequency = 0;     // then presence + count * frequency is subtracted
  uint32_t unused = 0;                   // to 32 bytes
};
struct TokenCount {
  uint32_t id, count;  // a count of 0 is no penalty
};
struct TokenBias {
  uint32_t id;
  float bias;  // added last; -infinity forbids the token
};

// In place, one block per row. Ids are unique within a row's list of tokens and within its list of biases; those that
// are not below vocab are left out.
struct ApplyPenalties {
  static constexpr std::string_view name = "apply_penalties",
                                    summary = "repetition penalties and logit biases, in place",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> logits;     // (rows, vocab)
    ptx::DevicePtr<uint32_t> params;  // (rows) of PenaltyRow, 16-byte aligned
    ptx::DevicePtr<uint32_t> tokens;  // of TokenCount, 8-byte aligned
    ptx::DevicePtr<uint32_t> biases;  // of TokenBias, 8-byte aligned
    uint32_t rows, vocab;
  };
  uint32_t threads = 256;
  uint32_t chained = 0;
  auto operator<=>(const ApplyPenalties&) const = default;
  static auto fields() {
    return std::tuple(Field<ApplyPenalties>{"threads", &ApplyPenalties::threads, range(32, 1024, 32)},
                      Field<ApplyPenalties>{"chained", &ApplyPenalties::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
