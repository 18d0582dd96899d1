// recurrence_scan: a block goes through the chunks of a sequence with some values of a head. Each of its first warps
// has the states of 16 values, all keys of them, in the registers of the matrix units' sums, and needs nothing of other
// warps: with values as rows of the left operand, the sums of one product are the left operand of the next. The last
// two warps fetch what comes next.
#include <algorithm>
#include <optional>

#include "kernels/state/chunk_tiles.h"
#include "kernels/state/chunked_recurrence.h"
#include "kernels/state/state_run.h"
#include "ptx/async.h"
#include "ptx/memory.h"
#include "ptx/warp.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

constexpr uint32_t square_row = padded_row(chunk_rows);
constexpr uint32_t copied_at_once = RecurrenceScan::copy_warps * 32 / 4;  // rows: four threads have one

// Where the parts of a chunk lie in shared memory, in bytes.
struct StageLayout {
  uint32_t queries, inverses, scores, values, factors, rows, bytes;  // keys: at 0
  explicit StageLayout(const RecurrenceScan& s) {
    const uint32_t of_keys = chunk_rows * padded_row(s.padded_key()) * 2, square = chunk_rows * square_row * 2;
    queries = of_keys;
    inverses = queries + of_keys;
    scores = inverses + (s.rule == rule_delta ? square : 0);
    values = scores + square;
    factors = values + chunk_rows * value_row(s) * 4;
    rows = factors + chunk_rows * 4 * 4;
    bytes = rows + chunk_rows * 4;
  }
  // Floats: 4 pairs of rows and 8 columns lie in different banks.
  static uint32_t value_row(const RecurrenceScan& s) { return s.columns + 4; }
};

class ScanWriter {
 public:
  using Args = ChunkedArgs;
  explicit ScanWriter(const RecurrenceScan& s)
      : s_(s), k_(std::string(RecurrenceScan::name), s.warps() * 32), padded_(s.padded_key()), at_(s) {}

  Kernel write() {
    stages_ = k_.shared<uint8_t>(s_.stages * at_.bytes, 16);
    chain_start(k_, s_.chained);
    const U32 tiles = (k_.arg(&Args::value) + (s_.columns - 1)) / s_.columns;
    head_ = k_.block_id() / tiles;
    first_ = (k_.block_id() - head_ * tiles) * s_.columns;
    own_ = k_.warp() * 16u + k_.lane() / 4u;
    pair_ = k_.lane() % 4u * 2u;
    key_head_ = key_head_of(k_, head_);
    if (!is_delta()) skip_ = load(k_.arg(&Args::skip) + head_, {.nc = true});
    chain_wait(k_, s_.chained);  // in blocks without work too: the next kernel relies on all blocks having waited
    k_.when(k_.block_y() < k_.arg(&Args::run_count), [&] { run(load_run(k_, k_.block_y())); });
    return k_.finish();
  }

 private:
  using Sums = std::vector<Acc<float, 16, 8>>;
  bool is_delta() const { return s_.rule == rule_delta; }
  uint32_t key_row() const { return padded_row(padded_); }

  void run(const LoadedRun& run) {
    run_ = run;
    order_ = k_.arg(&Args::order) + run.begin;
    const Pred computes = k_.warp() < s_.columns / 16;
    const auto state = k_.arg(&Args::state) + (widen(run.slot) * k_.arg(&Args::slot_stride) +
                                               widen(head_ * k_.arg(&Args::value) + first_) * uint64_t(padded_));
    state_ = sums(padded_ / 8);
    k_.when(computes && !run.fresh, [&] {
      each_state([&](auto& tile, uint32_t i, U32 place) {
        const auto two = load_vec<2>(state + place);
        for (uint32_t c = 0; c < 2; ++c) tile.set(i * 2 + c, two[c]);
      });
    });
    for (uint32_t i = 0; i < chunk_rows; i += copied_at_once)
      copied_rows_.emplace_back(k_, Arg<uint32_t>(row_of(copied_entry() + i)));
    const U32 chunks = (run.count + (chunk_rows - 1)) / chunk_rows;
    auto here = k_.var(0u);
    const auto fetch = [&](U32 chunk, Shared<uint8_t> stage) {
      copy(chunk, stage);
      copy_wait(k_, 0);
    };
    if (s_.stages > 1) k_.when(!computes, [&] { fetch(k_.constant(0u), stages_); });
    k_.loop(0u, chunks, 1u, [&](U32 chunk) {
      k_.barrier();  // the chunk before is done, and this one is here
      const auto stage = stages_ + here.get();
      const U32 left = run.count - chunk * chunk_rows;
      if (s_.stages == 1) {
        k_.when(!computes, [&] { fetch(chunk, stage); });
        k_.barrier();
        k_.when(computes, [&] { compute(stage, left); });
        return;
      }
      const U32 next = at_.bytes - here.get();
      k_.when_else(
          computes, [&] { compute(stage, left); },
          [&] { k_.when(chunk + 1u < chunks, [&] { fetch(chunk + 1u, stages_ + next); }); });
      here = next;
    });
    k_.when(computes, [&] {
      each_state([&](const auto& tile, uint32_t i, U32 place) {
        store_vec(state + place, Vec<float, 2>{tile.get(i * 2), tile.get(i * 2 + 1)});
      });
    });
  }

  Sums sums(uint32_t count) {
    Sums made;
    for (uint32_t i = 0; i < count; ++i) made.emplace_back(k_);
    return made;
  }
  // The lane's pairs of keys, those inside: f(tile, which of the lane's two values, their place).
  void each_state(auto&& f) {
    for (uint32_t i = 0; i < 2; ++i)
      k_.when(first_ + own_ + i * 8 < k_.arg(&Args::value), [&] {
        for (uint32_t tile = 0; tile < state_.size(); ++tile)
          f(state_[tile], i, (own_ + i * 8) * padded_ + pair_ + tile * 8);
      });
  }

  // --- copies ---
  U32 copied_entry() { return (k_.thread() - s_.columns * 2) / 4u; }
  U32 row_of(U32 entry) { return load(order_ + min(entry, run_.count - 1u)); }
  void copy(U32 chunk, Shared<uint8_t> stage) {
    const U32 number = run_.first_chunk + chunk, part = k_.thread() % 4u;
    const U64 of_keys = mad_wide(number, k_.arg(&Args::key_heads), widen(key_head_)) * uint64_t(chunk_rows * padded_),
              of_head = mad_wide(number, k_.arg(&Args::heads), widen(head_));
    const U64 of_square = of_head * uint64_t(chunk_rows * chunk_rows);
    for (uint32_t i = 0; i < chunk_rows; i += copied_at_once) {
      const U32 own = copied_entry() + i;
      const auto copy_row = [&](uint32_t at, Global<heddle::f16> from, uint32_t columns) {
        const auto to = stage.offset(at).as<heddle::f16>() + (own * padded_row(columns) + part * 8u);
        const auto own_from = from + (own * columns + part * 8u);
        for (uint32_t c = 0; c < columns; c += 32) {
          const auto piece = [&] { copy_async<16>(to.offset(c), own_from.offset(c)); };
          if (c + 32 <= columns)
            piece();
          else
            k_.when(part < (columns - c) / 8, piece);
        }
      };
      copy_row(0, k_.arg(&Args::keys) + of_keys, padded_);
      copy_row(at_.queries, k_.arg(&Args::queries) + of_keys, padded_);
      copy_row(at_.scores, k_.arg(&Args::scores) + of_square, chunk_rows);
      if (is_delta()) copy_row(at_.inverses, k_.arg(&Args::inverses) + of_square, chunk_rows);
      Var<uint32_t>& row = copied_rows_[i / copied_at_once];
      copy_values(stage, own, row.get(), part, chunk * chunk_rows + own < run_.count);
      k_.when(part == 0u, [&] { store(stage.offset(at_.rows).as<uint32_t>() + own, row.get()); });
      row = row_of((chunk + 1u) * chunk_rows + own);  // early: the next copies wait for it
    }
    const U32 thread = k_.thread() - s_.columns * 2;
    static_assert(RecurrenceScan::copy_warps * 32 == chunk_rows, "a thread copies four factors");
    copy_async<16>(stage.offset(at_.factors).as<float>() + thread * 4u,
                   k_.arg(&Args::factors) + (of_head * uint64_t(chunk_rows * 4) + widen(thread * 4u)));
    copy_commit(k_);
  }
  void copy_values(Shared<uint8_t> stage, U32 own, U32 row, U32 part, Pred real) {
    const auto from =
        k_.arg(&Args::mixed) + (mul_wide(row, k_.arg(&Args::mixed_stride)) +
                                widen(k_.arg(&Args::values_at) + head_ * k_.arg(&Args::value) + first_ + part));
    const auto to = stage.offset(at_.values).as<float>() + (own * StageLayout::value_row(s_) + part);
    for (uint32_t i = 0; i < s_.columns; i += 4)
      copy_async<4>(to.offset(i), from.offset(i),
                    select(real && first_ + part + i < k_.arg(&Args::value), k_.constant(4u), 0u));
  }

  // --- a chunk ---
  // Which of the four factors of each row; see ChunkedArgs.
  enum Factor : uint32_t { of_u, before, after, of_y };
  // Of the two rows of the lane in a tile of 8.
  Vec<float, 2> factor(Shared<uint8_t> stage, Factor which, uint32_t tile) {
    return load_vec<2>(stage.offset(at_.factors).as<float>().offset(which * chunk_rows + tile * 8) + pair_);
  }
  // v of a register of the sums of a tile.
  F32 value(Shared<uint8_t> stage, uint32_t tile, uint32_t reg) {
    const uint32_t row = StageLayout::value_row(s_);
    return load(
        (stage.offset(at_.values).as<float>() + (pair_ * row + own_)).offset((tile * 8 + reg % 2) * row + reg / 2 * 8));
  }

  void compute(Shared<uint8_t> stage, U32 left) {
    const uint32_t tiles = chunk_rows / 8;
    const auto keys = stage.as<heddle::f16>();
    const U32 exponent = largest_exponent(stage);
    const F32 scale = bitcast<float>((262u - exponent) << 23u), unscale = bitcast<float>((exponent - 8u) << 23u);
    std::vector<Left> state;
    for (uint32_t i = 0; i < state_.size(); i += 2)
      state.push_back(as_left(state_, i, [&](auto, auto) { return scale; }));

    Sums u = sums(tiles);
    if (is_delta()) multiply_rows(keys, state, u);
    for (uint32_t tile = 0; tile < tiles; ++tile) {
      const auto inputs = factor(stage, of_u, tile), decays = factor(stage, before, tile);
      for (uint32_t reg = 0; reg < 4; ++reg) {
        const F32 input = inputs[reg % 2], v = value(stage, tile, reg) * (input * scale);
        u[tile].set(reg, is_delta() ? fma(u[tile].get(reg), -(input * decays[reg % 2]), v) : v);
      }
    }
    if (is_delta()) {
      const std::vector<Left> right = as_lefts(u, [&](auto, auto) { return k_.constant(1.0f); });
      u = sums(tiles);
      multiply_lower(stage.offset(at_.inverses).as<heddle::f16>(), right, u);
      for (auto& tile : u)
        for (auto& v : tile.var) v *= 1 / square_scale;
    }
    answer(stage, state, as_lefts(u, [&](auto, auto) { return k_.constant(1.0f); }), unscale, left);
    std::vector<Vec<float, 2>> afters;
    for (uint32_t tile = 0; tile < tiles; ++tile) afters.push_back(factor(stage, after, tile));
    const F32 all = load(stage.offset(at_.factors).as<float>().offset((before + 1) * chunk_rows - 1));
    change_state(keys, as_lefts(u, [&](uint32_t tile, uint32_t c) { return afters[tile][c]; }), all * scale, unscale);
  }

  // The exponent, as f32 has it, of the largest number of the warp's states and of the factors' products with values, 9
  // or more. With a scale that makes it 8, nothing is beyond f16: with keys of length 1 no number of the right side is
  // larger than 1 + sqrt(128) times that, and none of u than 65 + sqrt(128) times, 39000.
  U32 largest_exponent(Shared<uint8_t> stage) {
    F32 top = k_.constant(0.0f);
    for (const auto& tile : state_)
      for (uint32_t reg = 0; reg < 4; ++reg) top = max(top, abs(tile.get(reg)));
    for (uint32_t tile = 0; tile < chunk_rows / 8; ++tile) {
      const auto inputs = factor(stage, of_u, tile);
      for (uint32_t reg = 0; reg < 4; ++reg) top = max(top, abs(value(stage, tile, reg) * inputs[reg % 2]));
    }
    return max(warp_reduce(Atomic::max, bitcast<uint32_t>(top)) >> 23u, 9u);
  }

  // Two tiles of sums, from tile i on, as f16; by(tile, column of a pair): a factor.
  Left as_left(const Sums& from, uint32_t i, auto&& by) {
    Left made;
    for (uint32_t reg = 0; reg < 4; ++reg) {  // values 0, 8 of the first 8 columns, then of the next 8
      const uint32_t tile = i + reg / 2, first = reg % 2 * 2;
      made.reg[reg] =
          bitcast<uint32_t>(to_f16x2(from[tile].get(first) * by(tile, 0u), from[tile].get(first + 1) * by(tile, 1u)));
    }
    return made;
  }
  std::vector<Left> as_lefts(const Sums& from, auto&& by) {
    std::vector<Left> made;
    for (uint32_t i = 0; i < from.size(); i += 2) made.push_back(as_left(from, i, by));
    return made;
  }

  // to += S^T X^T, where rows of X are of keys or queries.
  void multiply_rows(Shared<heddle::f16> rows, const std::vector<Left>& state, Sums& to) {
    for (uint32_t key = 0; key < padded_; key += 16)
      for (uint32_t row = 0; row < chunk_rows; row += 16) {
        const auto right = right_tiles(k_, rows.offset(row * key_row() + key), key_row(), Stored::transposed);
        for (uint32_t i = 0; i < 2; ++i) mma(to[row / 8 + i], state[key / 16], right[i]);
      }
  }
  // to += x^T A^T, where A is lower triangular.
  void multiply_lower(Shared<heddle::f16> a, const std::vector<Left>& x, Sums& to) {
    for (uint32_t column = 0; column < chunk_rows; column += 16)
      for (uint32_t row = column; row < chunk_rows; row += 16) {
        const auto right = right_tiles(k_, a.offset(row * square_row + column), square_row, Stored::transposed);
        for (uint32_t i = 0; i < 2; ++i) mma(to[row / 8 + i], x[column / 16], right[i]);
      }
  }
  void answer(Shared<uint8_t> stage, const std::vector<Left>& state, const std::vector<Left>& u, F32 unscale,
              U32 left) {
    Sums y = sums(chunk_rows / 8);
    multiply_rows(stage.offset(at_.queries).as<heddle::f16>(), state, y);
    for (uint32_t tile = 0; tile < y.size(); ++tile) {
      const auto decays = factor(stage, before, tile);
      for (uint32_t reg = 0; reg < 4; ++reg) y[tile].var[reg] *= decays[reg % 2] * square_scale;
    }
    multiply_lower(stage.offset(at_.scores).as<heddle::f16>(), u, y);
    const auto column = k_.arg(&Args::y) + widen(head_ * k_.arg(&Args::value) + first_ + own_);
    for (uint32_t tile = 0; tile < y.size(); ++tile) {
      const auto outputs = factor(stage, of_y, tile);
      const auto rows = load_vec<2>(stage.offset(at_.rows).as<uint32_t>().offset(tile * 8) + pair_);
      for (uint32_t c = 0; c < 2; ++c)
        k_.when(pair_ + (tile * 8 + c) < left, [&] {
          const auto to = column + mul_wide(rows[c], k_.arg(&Args::y_stride));
          const F32 by = outputs[c] * unscale * (1 / square_scale);
          for (uint32_t i = 0; i < 2; ++i) {
            F32 v = y[tile].get(i * 2 + c) * by;
            if (!is_delta()) v = fma(skip_, value(stage, tile, i * 2 + c), v);
            k_.when(first_ + own_ + i * 8 < k_.arg(&Args::value), [&] { store(to.offset(i * 8), v); });
          }
        });
    }
  }
  // S^T = decay S^T + u^T K
  void change_state(Shared<heddle::f16> keys, const std::vector<Left>& u, F32 decay, F32 unscale) {
    const auto each = [&](F32 by) {
      for (auto& tile : state_)
        for (auto& v : tile.var) v *= by;
    };
    each(decay);
    for (uint32_t row = 0; row < chunk_rows; row += 16)
      for (uint32_t key = 0; key < padded_; key += 16) {
        const auto right = right_tiles(k_, keys.offset(row * key_row() + key), key_row(), Stored::plain);
        for (uint32_t i = 0; i < 2; ++i) mma(state_[key / 8 + i], u[row / 16], right[i]);
      }
    each(unscale);
  }

  const RecurrenceScan& s_;
  Builder<Args> k_;
  const uint32_t padded_;
  const StageLayout at_;
  Shared<uint8_t> stages_;
  U32 head_, first_, key_head_;  // first: value of the block
  U32 own_, pair_;               // of this lane in the tiles of its warp: value, and first of two columns
  F32 skip_;
  LoadedRun run_;
  Global<uint32_t> order_;                  // of the run
  std::vector<Var<uint32_t>> copied_rows_;  // of the entries that this thread copies next
  Sums state_;                              // (16 values of this warp, keys)
};

}  // namespace

Kernel RecurrenceScan::build() const {
  check_fields(*this);
  return ScanWriter(*this).write();
}

uint32_t RecurrenceScan::shared_bytes() const { return stages * StageLayout(*this).bytes; }

Grid RecurrenceScan::grid(const Args& args) const {
  check_chunked_args(name, args);
  const uint64_t per_slot = uint64_t(args.heads) * args.value * padded_key();
  if (args.slot_stride < per_slot || args.slot_stride % 4 || args.state.address % 16)
    throw Error("{}: slots of {} values at {:#x}; expected {} or more, a multiple of 4, 16-byte aligned", name,
                args.slot_stride, args.state.address, per_slot);
  if (args.run_count > 65535) throw Error("{}: {} runs, 65535 at most", name, args.run_count);
  return {.x = args.heads * ((args.value + columns - 1) / columns), .y = std::max(args.run_count, 1u)};
}

RecurrenceScan scan_choice(const ScanShape& shape) {
  RecurrenceScan spec{.key = shape.key, .rule = shape.rule, .columns = 64, .stages = 2};
  const uint64_t blocks = uint64_t(shape.heads) * shape.runs * ((shape.value + spec.columns - 1) / spec.columns);
  if (shape.value <= 32 || blocks < shape.sms) spec.columns = 32;
  if (spec.shared_bytes() > shape.shared_per_block) spec.stages = 1;
  return spec;
}

}  // namespace heddle::kernels
