// Heads with a recurrent state: the SSD of Mamba-2 and the gated delta net.
#pragma once
#include <compare>

#include "kernels/spec/functions.h"

namespace heddle::kernels {

enum RecurrenceRule : uint32_t { rule_ssd, rule_delta };

// A head's state S, (key, value), becomes decay S + k u^T with each row, and the row's result is S^T q. The step is
// softplus(step + step_bias) within its limits, decay = e^(rate step).
//   ssd:   u = step v; the result gets skip v.
//   delta: u = sigmoid(beta) (v - decay S^T k); q and k are divided by their lengths, and q by sqrt(key).
// Each value of a head is a recurrence of its own, with `key` numbers in the registers of 4 lanes. Both products with
// the old state are made at once: S'^T q = decay S^T q + u (k . q).
struct Recurrence {
  static constexpr std::string_view name = "recurrence", summary = "the recurrent states of heads, row after row",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y;                       // (rows, y_stride): heads of `value` results
    ptx::DevicePtr<float> mixed;                   // (rows, mixed_stride): queries, keys and values, at their places
    ptx::DevicePtr<float> steps, betas;            // (rows, steps_stride), a number for each head; betas of delta
    ptx::DevicePtr<float> step_bias, rates, skip;  // (heads); skip of ssd
    ptx::DevicePtr<float> state;         // (slots, slot_stride): (heads, value, padded_key()), 16-byte aligned
    ptx::DevicePtr<uint32_t> runs;       // StateRun, 16-byte aligned
    ptx::DevicePtr<uint32_t> order;      // the row of each entry
    ptx::DevicePtr<uint32_t> positions;  // of each row; see load_run()
    uint64_t slot_stride;                // a multiple of 4
    uint32_t run_count, heads, key_heads, value;
    uint32_t tiled;  // 1: head h has the key head h % key_heads; 0: neighbours share one
    uint32_t queries_at, keys_at, values_at;
    uint32_t mixed_stride, steps_stride, y_stride;
    float min_step, max_step;
  };
  uint32_t key = 128;
  uint32_t rule = rule_delta;
  uint32_t tile = 16;  // rows that are prepared at once
  uint32_t chained = 0;
  auto operator<=>(const Recurrence&) const = default;
  static auto fields() {
    using S = Recurrence;
    using F = Field<S>;
    return std::tuple(F{"key", &S::key, range(1, 256)}, F{"rule", &S::rule, named({"ssd", "delta"})},
                      F{"tile", &S::tile, one_of({1, 4, 8, 16})}, F{"chained", &S::chained, yes_or_no()});
  }

  static constexpr uint32_t warps = 4, lanes = 4, columns = warps * 32 / lanes;  // of a block; lanes of a value
  // Numbers of a value's state: zeros follow the keys.
  uint32_t padded_key() const { return (key + 15) / 16 * 16; }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// What the kernels of a recurrence have in common; Args: Recurrence's, or derived from them.
constexpr float delta_epsilon = 1e-6f;  // added to the square of the length of q and k
template <class Args>
ptx::U32 key_head_of(ptx::Builder<Args>& k, ptx::U32 head) {
  const ptx::U32 key_heads = k.arg(&Args::key_heads);
  return select(k.arg(&Args::tiled) != 0u, head % key_heads, head / (k.arg(&Args::heads) / key_heads));
}
template <class Args>
ptx::F32 step_of(ptx::Builder<Args>& k, ptx::F32 given) {
  return min(max(softplus(given), k.arg(&Args::min_step)), k.arg(&Args::max_step));
}

// y = norm(x) * weight * silu(gate) in groups of `size` values, or with gate_first norm(x * silu(gate)) * weight;
// without a norm x * silu(gate). y may be x.
struct GatedNorm {
  static constexpr std::string_view name = "gated_norm", summary = "RMSNorm of groups of values, and a gate",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y, x;    // (rows, stride)
    ptx::DevicePtr<float> gate;    // (rows, gate_stride)
    ptx::DevicePtr<float> weight;  // (groups * size); read with `norm`
    uint32_t rows, groups, size;
    uint32_t stride, gate_stride;
    float epsilon;
  };
  uint32_t norm = 1, gate_first = 0;
  uint32_t threads = 128;
  uint32_t chained = 0;
  auto operator<=>(const GatedNorm&) const = default;
  static auto fields() {
    using S = GatedNorm;
    using F = Field<S>;
    return std::tuple(F{"norm", &S::norm, yes_or_no()}, F{"gate_first", &S::gate_first, yes_or_no()},
                      F{"threads", &S::threads, range(32, 1024, 32)}, F{"chained", &S::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
