// A block has 32 values of a head, for all rows of a sequence: it prepares the keys, queries and factors of some rows
// in shared memory, then goes through them with the state in registers.
#include "kernels/state/recurrence.h"

#include <cmath>

#include "kernels/layer/norm.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "kernels/state/state_run.h"
#include "ptx/memory.h"
#include "ptx/warp.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

class RecurrenceWriter {
 public:
  using Args = Recurrence::Args;
  explicit RecurrenceWriter(const Recurrence& s)
      : s_(s),
        k_(std::string(Recurrence::name), Recurrence::warps * 32),
        padded_(s.padded_key()),
        own_(s.padded_key() / Recurrence::lanes) {}

  Kernel write() {
    keys_ = k_.shared<float>(s_.tile * padded_, 16);
    queries_ = k_.shared<float>(s_.tile * padded_, 16);
    values_ = k_.shared<float>(s_.tile * Recurrence::columns, 16);
    factors_ = k_.shared<float>(s_.tile * 4, 16);
    rows_ = k_.shared<uint32_t>(s_.tile, 16);
    chain_start(k_, s_.chained);
    const U32 tiles = (k_.arg(&Args::value) + (Recurrence::columns - 1)) / Recurrence::columns;
    head_ = k_.block_id() / tiles;
    first_ = (k_.block_id() - head_ * tiles) * Recurrence::columns;
    part_ = k_.thread() % Recurrence::lanes;
    column_ = k_.thread() / Recurrence::lanes;
    inside_ = first_ + column_ < k_.arg(&Args::value);
    key_head_ = key_head_of(k_, head_);
    chain_wait(k_, s_.chained);  // in blocks without work too: the next kernel relies on all blocks having waited
    k_.when(k_.block_y() < k_.arg(&Args::run_count), [&] { run(load_run(k_, k_.block_y())); });
    return k_.finish();
  }

 private:
  bool is_delta() const { return s_.rule == rule_delta; }

  void run(const LoadedRun& run) {
    const U64 column = widen(head_) * widen(k_.arg(&Args::value)) + widen(first_ + column_);
    const auto state = k_.arg(&Args::state) +
                       (widen(run.slot) * k_.arg(&Args::slot_stride) + column * uint64_t(padded_) + widen(part_ * 4u));
    for (uint32_t i = 0; i < own_; ++i) state_.push_back(k_.var(0.0f));
    k_.when(!run.fresh && inside_, [&] {
      for (uint32_t i = 0; i < own_; i += 4) {
        const auto four = load_vec<4>(state.offset(int64_t(i) * 4));
        for (uint32_t j = 0; j < 4; ++j) state_[i + j] = four[j];
      }
    });
    bias_ = load(k_.arg(&Args::step_bias) + head_, {.nc = true});
    rate_ = load(k_.arg(&Args::rates) + head_, {.nc = true});
    if (!is_delta()) skip_ = load(k_.arg(&Args::skip) + head_, {.nc = true});
    k_.loop(0u, run.count, s_.tile, [&](U32 begin) {
      const U32 count = min(run.count - begin, k_.constant(s_.tile));
      k_.barrier();  // the rows before are done
      prepare(k_.arg(&Args::order) + (run.begin + begin), count);
      k_.barrier();
      k_.loop(0u, count, 1u, [&](U32 row) { step(row); });
    });
    k_.when(inside_, [&] {
      for (uint32_t i = 0; i < own_; i += 4) {
        Vec<float, 4> four;
        for (uint32_t j = 0; j < 4; ++j) four[j] = state_[i + j].get();
        store_vec(state.offset(int64_t(i) * 4), four);
      }
    });
  }

  // Each warp takes every fourth row.
  void prepare(Global<uint32_t> order, U32 count) {
    k_.loop(k_.warp(), count, Recurrence::warps, [&](U32 at) {
      const U32 row = k_.assume_uniform(load(order + at), Uniform::warp);
      const auto mixed = k_.arg(&Args::mixed) + mul_wide(row, k_.arg(&Args::mixed_stride));
      const U32 head = key_head_ * s_.key;
      std::vector<F32> key, query;
      const uint32_t rounds = (padded_ + 31) / 32;
      for (uint32_t i = 0; i < rounds; ++i) {
        const U32 number = k_.lane() + i * 32u;
        const Pred has = number < s_.key;
        const U32 safe = select(has, number, k_.constant(0u));
        key.push_back(select(has, load(mixed + (k_.arg(&Args::keys_at) + head + safe)), 0.0f));
        query.push_back(select(has, load(mixed + (k_.arg(&Args::queries_at) + head + safe)), 0.0f));
      }
      if (is_delta()) {
        divide_by_length(key, 1);
        divide_by_length(query, float(1 / std::sqrt(double(s_.key))));
      }
      for (uint32_t i = 0; i < rounds; ++i) {
        const U32 number = k_.lane() + i * 32u;
        k_.when(number < padded_, [&] {
          store(keys_ + (at * padded_ + number), key[i]);
          store(queries_ + (at * padded_ + number), query[i]);
        });
      }
      const F32 product = sum_of_products(key, query);
      const U32 value = first_ + k_.lane();
      auto v = k_.var(0.0f);
      k_.when(value < k_.arg(&Args::value),
              [&] { v = load(mixed + (k_.arg(&Args::values_at) + head_ * k_.arg(&Args::value) + value)); });
      store(values_ + (at * Recurrence::columns + k_.lane()), v.get());
      k_.when(k_.lane() == 0u, [&] { factors(at, row, product); });
    });
  }
  F32 sum_of_products(const std::vector<F32>& a, const std::vector<F32>& b) {
    auto sum = k_.var(0.0f);
    for (size_t i = 0; i < a.size(); ++i) sum.add_product(a[i], b[i]);
    return warp_sum(sum.get());
  }
  void divide_by_length(std::vector<F32>& v, float factor) {
    const F32 by = rsqrt_approx(sum_of_products(v, v) + delta_epsilon) * factor;
    for (F32& each : v) each = each * by;
  }
  // decay, the factor of u, k . q
  void factors(U32 at, U32 row, F32 product) {
    const U64 place = mul_wide(row, k_.arg(&Args::steps_stride)) + widen(head_);
    const F32 step = step_of(k_, load(k_.arg(&Args::steps) + place) + bias_);
    const F32 factor = is_delta() ? sigmoid(load(k_.arg(&Args::betas) + place)) : step;
    store_vec(factors_ + at * 4u, Vec<float, 4>{exp(rate_ * step), factor, product, k_.constant(0.0f)});
    store(rows_ + at, row);
  }

  void step(U32 row) {
    const auto key_at = keys_ + (row * padded_ + part_ * 4u), query_at = queries_ + (row * padded_ + part_ * 4u);
    std::vector<F32> key;
    // two sums each, so that fewer additions wait for one another
    std::vector<Var<float>> seen, answer;
    for (uint32_t i = 0; i < 2; ++i) {
      seen.push_back(k_.var(0.0f));
      answer.push_back(k_.var(0.0f));
    }
    for (uint32_t i = 0; i < own_; i += 4) {
      const auto k4 = load_vec<4>(key_at.offset(int64_t(i) * 4)), q4 = load_vec<4>(query_at.offset(int64_t(i) * 4));
      for (uint32_t j = 0; j < 4; ++j) {
        key.push_back(k4[j]);
        if (is_delta()) seen[j % 2].add_product(state_[i + j].get(), k4[j]);
        answer[j % 2].add_product(state_[i + j].get(), q4[j]);
      }
    }
    const auto four = load_vec<4>(factors_ + row * 4u);
    const F32 decay = four[0], factor = four[1], product = four[2];
    const F32 v = load(values_ + (row * Recurrence::columns + column_));
    F32 u = factor * v;
    if (is_delta()) {
      const F32 old = warp_sum(seen[0].get() + seen[1].get(), Recurrence::lanes);
      u = factor * fma(-decay, old, v);
    }
    F32 y = fma(u, product, decay * warp_sum(answer[0].get() + answer[1].get(), Recurrence::lanes));
    if (!is_delta()) y = fma(skip_, v, y);
    for (uint32_t i = 0; i < own_; ++i) state_[i] = fma(key[i], u, state_[i].get() * decay);
    k_.when(inside_ && part_ == 0u, [&] {
      const U64 at =
          mul_wide(load(rows_ + row), k_.arg(&Args::y_stride)) + widen(head_ * k_.arg(&Args::value) + first_ + column_);
      store(k_.arg(&Args::y) + at, y);
    });
  }

  const Recurrence& s_;
  Builder<Args> k_;
  const uint32_t padded_, own_;  // keys; those of a lane
  Shared<float> keys_, queries_, values_, factors_;
  Shared<uint32_t> rows_;
  U32 head_, first_, part_, column_, key_head_;  // this thread's; first: value of the block
  Pred inside_;
  F32 bias_, rate_, skip_;
  std::vector<Var<float>> state_;
};

}  // namespace

Kernel Recurrence::build() const {
  check_fields(*this);
  return RecurrenceWriter(*this).write();
}

Grid Recurrence::grid(const Args& args) const {
  if (args.heads == 0 || args.key_heads == 0 || args.heads % args.key_heads || args.value == 0)
    throw Error("{}: {} heads of {} values with {} key heads", name, args.heads, args.value, args.key_heads);
  const uint64_t per_slot = uint64_t(args.heads) * args.value * padded_key();
  if (args.slot_stride < per_slot || args.slot_stride % 4 || args.state.address % 16)
    throw Error("{}: slots of {} values at {:#x}; expected {} or more, a multiple of 4, 16-byte aligned", name,
                args.slot_stride, args.state.address, per_slot);
  if (args.runs.address % 16) throw Error("{}: runs must be 16-byte aligned", name);
  if (args.run_count > 65535) throw Error("{}: {} runs, 65535 at most", name, args.run_count);
  return {.x = args.heads * ((args.value + columns - 1) / columns), .y = args.run_count ? args.run_count : 1};
}

// A block per group of a row.
Kernel GatedNorm::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  const U32 row = k.block_id(), group = k.block_y(), size = k.arg(&Args::size);
  chain_wait(k, chained);  // in blocks without work too: the next kernel relies on all blocks having waited
  k.when(row < k.arg(&Args::rows) && group < k.arg(&Args::groups), [&] {
    const U64 start = mul_wide(group, size), at = mul_wide(row, k.arg(&Args::stride)) + start;
    const auto x = k.arg(&Args::x) + at, y = k.arg(&Args::y) + at, weight = k.arg(&Args::weight) + start;
    const auto gate = k.arg(&Args::gate) + (mul_wide(row, k.arg(&Args::gate_stride)) + start);
    const auto gated = [&](U32 i) {
      const F32 v = load(x + i);
      return gate_first ? v * activate(act_silu, load(gate + i)) : v;
    };
    const auto each = [&](auto&& f) { k.loop(k.thread(), size, threads, [&](U32 i) { f(gated(i)); }); };
    const auto sum = [&](F32 v) { return block_sum(k, v); };
    const RowNorm made = row_norm(k, norm ? norm_rms : norm_none, size, k.arg(&Args::epsilon), each, sum);
    k.loop(k.thread(), size, threads, [&](U32 i) {
      F32 v = made.of(gated(i));
      if (norm) v = v * load(weight + i, {.nc = true});
      if (!gate_first) v = v * activate(act_silu, load(gate + i));
      store(y + i, v);
    });
  });
  return k.finish();
}

Grid GatedNorm::grid(const Args& args) const {
  const uint64_t values = uint64_t(args.groups) * args.size;
  if (values == 0 || args.stride < values || args.gate_stride < values)
    throw Error("{}: {} groups of {} values, with strides of {} and {}", name, args.groups, args.size, args.stride,
                args.gate_stride);
  if (args.groups > 65535) throw Error("{}: {} groups, 65535 at most", name, args.groups);
  return {.x = args.rows ? args.rows : 1, .y = args.groups};
}

void add_recurrence_kernels(std::vector<Entry>& all) {
  all.push_back(entry<Recurrence>());
  all.push_back(entry<GatedNorm>());
}

}  // namespace heddle::kernels
