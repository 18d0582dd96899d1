// recurrence_scan: a block goes through the chunks of a sequence with 32 values of a head. Its warps have the state in
// the registers of the matrix units' sums, 16 keys each; for each chunk it is written to shared memory as f16, and so
// are the right side and u.
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

constexpr uint32_t scan_columns = RecurrenceScan::columns;
constexpr uint32_t square_row = padded_row(chunk_rows), column_row = padded_row(scan_columns);  // of f16
constexpr uint32_t value_row = scan_columns + 8;  // floats: 4 rows of 4 pairs lie in different banks

// Where the parts of a chunk lie in shared memory, in bytes.
struct StageLayout {
  uint32_t queries, inverses, scores, values, factors, rows, bytes;  // keys: at 0
  explicit StageLayout(const RecurrenceScan& s) {
    const uint32_t of_keys = chunk_rows * padded_row(s.padded_key()) * 2, square = chunk_rows * square_row * 2;
    queries = of_keys;
    inverses = queries + of_keys;
    scores = inverses + (s.rule == rule_delta ? square : 0);
    values = scores + square;
    factors = values + chunk_rows * value_row * 4;
    rows = factors + chunk_rows * 16;
    bytes = rows + chunk_rows * 4;
  }
};

class ScanWriter {
 public:
  using Args = ChunkedArgs;
  explicit ScanWriter(const RecurrenceScan& s)
      : s_(s), k_(std::string(RecurrenceScan::name), RecurrenceScan::warps * 32), padded_(s.padded_key()), at_(s) {}

  Kernel write() {
    stages_ = k_.shared<uint8_t>(s_.stages * at_.bytes, 16);
    state_ = k_.shared<heddle::f16>(padded_ * column_row, 16);
    if (is_delta()) right_ = k_.shared<heddle::f16>(chunk_rows * column_row, 16);
    u_ = k_.shared<heddle::f16>(chunk_rows * column_row, 16);
    decayed_u_ = k_.shared<heddle::f16>(chunk_rows * column_row, 16);
    largest_ = k_.shared<uint32_t>(RecurrenceScan::warps, 16);
    chain_start(k_, s_.chained);
    const U32 tiles = (k_.arg(&Args::value) + (scan_columns - 1)) / scan_columns;
    head_ = k_.block_id() / tiles;
    first_ = (k_.block_id() - head_ * tiles) * scan_columns;
    first_row_ = k_.warp() / 2u * 16u;
    first_column_ = k_.warp() % 2u * 16u;
    in_tile_ = k_.lane() / 4u;
    pair_ = k_.lane() % 4u * 2u;
    key_head_ = key_head_of(k_, head_);
    if (!is_delta()) skip_ = load(k_.arg(&Args::skip) + head_, {.nc = true});
    chain_wait(k_, s_.chained);  // in blocks without work too: the next kernel relies on all blocks having waited
    k_.when(k_.block_y() < k_.arg(&Args::run_count), [&] { run(load_run(k_, k_.block_y())); });
    return k_.finish();
  }

 private:
  bool is_delta() const { return s_.rule == rule_delta; }
  uint32_t key_row() const { return padded_row(padded_); }

  void run(const LoadedRun& run) {
    run_ = run;
    order_ = k_.arg(&Args::order) + run.begin;
    const auto state = k_.arg(&Args::state) + (widen(run.slot) * k_.arg(&Args::slot_stride) +
                                               widen(head_ * k_.arg(&Args::value) + first_) * uint64_t(padded_));
    for (uint32_t i = 0; i < scan_columns / 8; ++i) sums_.emplace_back(k_);
    each_state([&](uint32_t tile, uint32_t reg, U32 place, Pred inside) {
      k_.when(inside && !run.fresh, [&] { sums_[tile].set(reg, load(state + place)); });
    });
    copied_row_.emplace(k_, Arg<uint32_t>(row_of(k_.thread() / 4u)));
    const U32 chunks = (run.count + (chunk_rows - 1)) / chunk_rows;
    auto here = k_.var(0u);
    if (s_.stages > 1) copy(k_.constant(0u), stages_);
    k_.loop(0u, chunks, 1u, [&](U32 chunk) {
      const auto stage = stages_ + here.get();
      if (s_.stages == 1) {
        k_.barrier();  // the chunk before is done
        copy(chunk, stage);
      }
      copy_wait(k_, 0);
      k_.barrier();
      if (s_.stages > 1) {
        const U32 next = at_.bytes - here.get();
        k_.when(chunk + 1u < chunks, [&] { copy(chunk + 1u, stages_ + next); });
        here = next;
      }
      compute(stage, run.count - chunk * chunk_rows);
    });
    each_state([&](uint32_t tile, uint32_t reg, U32 place, Pred inside) {
      k_.when(inside, [&] { store(state + place, sums_[tile].get(reg)); });
    });
  }

  // The keys and values of the state whose sums this lane has.
  void each_state(auto&& f) {
    for (uint32_t tile = 0; tile < scan_columns / 8; ++tile)
      for (uint32_t reg = 0; reg < 4; ++reg) {
        const U32 key = k_.warp() * 16u + in_tile_ + reg / 2 * 8, column = pair_ + (tile * 8 + reg % 2);
        f(tile, reg, column * padded_ + key, key < padded_ && first_ + column < k_.arg(&Args::value));
      }
  }
  // Where sums of 16 rows and 16 columns lie: f(tile, which of the lane's two rows, the row, its first of two columns).
  void each_pair(auto&& f) {
    for (uint32_t tile = 0; tile < 2; ++tile)
      for (uint32_t i = 0; i < 2; ++i) f(tile, i, first_row_ + in_tile_ + i * 8, first_column_ + pair_ + tile * 8);
  }

  // --- copies: four threads have a row ---
  U32 row_of(U32 entry) { return load(order_ + min(entry, run_.count - 1u)); }
  void copy(U32 chunk, Shared<uint8_t> stage) {
    const U32 number = run_.first_chunk + chunk, own = k_.thread() / 4u, part = k_.thread() % 4u;
    const U64 of_keys = mad_wide(number, k_.arg(&Args::key_heads), widen(key_head_)),
              of_head = mad_wide(number, k_.arg(&Args::heads), widen(head_));
    const auto copy_row = [&](Shared<uint8_t> to, Global<heddle::f16> from, uint32_t columns) {
      const auto own_to = to.as<heddle::f16>() + (own * padded_row(columns) + part * 8u);
      const auto own_from = from + (own * columns + part * 8u);
      for (uint32_t i = 0; i < columns; i += 32) {
        const auto piece = [&] { copy_async<16>(own_to.offset(i), own_from.offset(i)); };
        if (i + 32 <= columns)
          piece();
        else
          k_.when(part < (columns - i) / 8, piece);
      }
    };
    const uint64_t square = chunk_rows * chunk_rows;
    copy_row(stage, k_.arg(&Args::keys) + of_keys * uint64_t(chunk_rows * padded_), padded_);
    copy_row(stage.offset(at_.queries), k_.arg(&Args::queries) + of_keys * uint64_t(chunk_rows * padded_), padded_);
    copy_row(stage.offset(at_.scores), k_.arg(&Args::scores) + of_head * square, chunk_rows);
    if (is_delta()) copy_row(stage.offset(at_.inverses), k_.arg(&Args::inverses) + of_head * square, chunk_rows);
    const U32 row = copied_row_->get();
    const Pred real = chunk * chunk_rows + own < run_.count;
    const auto values =
        k_.arg(&Args::mixed) + (mul_wide(row, k_.arg(&Args::mixed_stride)) +
                                widen(k_.arg(&Args::values_at) + head_ * k_.arg(&Args::value) + first_ + part));
    const auto to = stage.offset(at_.values).as<float>() + (own * value_row + part);
    for (uint32_t i = 0; i < scan_columns; i += 4)
      copy_async<4>(to.offset(i), values.offset(i),
                    select(real && first_ + part + i < k_.arg(&Args::value), k_.constant(4u), 0u));
    k_.when(part == 0u, [&] {
      copy_async<16>(stage.offset(at_.factors).as<float>() + own * 4u,
                     k_.arg(&Args::factors) + (of_head * uint64_t(chunk_rows * 4) + widen(own * 4u)));
      store(stage.offset(at_.rows).as<uint32_t>() + own, row);
    });
    copy_commit(k_);
    *copied_row_ = row_of((chunk + 1u) * chunk_rows + own);  // early: the next copies wait for it
  }

  // --- a chunk ---
  struct Row {
    F32 input, before, after, output;  // factors: of u, e^g, e^(G - g), of y
    std::array<Vec<float, 2>, 2> values;
  };
  using Sums = std::vector<Acc<float, 16, 8>>;

  void compute(Shared<uint8_t> stage, U32 left) {
    const auto keys = stage.as<heddle::f16>(), queries = stage.offset(at_.queries).as<heddle::f16>();
    const auto scores = stage.offset(at_.scores).as<heddle::f16>();
    const auto factors = stage.offset(at_.factors).as<float>(), values = stage.offset(at_.values).as<float>();
    std::array<Row, 2> rows;
    for (uint32_t i = 0; i < 2; ++i) {
      const U32 row = first_row_ + in_tile_ + i * 8;
      const auto four = load_vec<4>(factors + row * 4u);
      rows[i] = {four[0], four[1], four[2], four[3], {}};
      for (uint32_t tile = 0; tile < 2; ++tile)
        rows[i].values[tile] = load_vec<2>(values + (row * value_row + first_column_ + pair_ + tile * 8));
    }
    const U32 exponent = largest_exponent(rows);
    const F32 scale = bitcast<float>((262u - exponent) << 23u), unscale = bitcast<float>((exponent - 8u) << 23u);

    write_state(scale);
    if (!is_delta())
      each_pair([&](uint32_t tile, uint32_t i, U32 row, U32 column) {
        const F32 by = rows[i].input * scale;
        write_u(row, column, rows[i].values[tile][0] * by, rows[i].values[tile][1] * by, rows[i].after);
      });
    k_.barrier();
    Sums answers = sums_of_rows(), seen = sums_of_rows();
    multiply_state(queries, keys, answers, seen);
    if (is_delta()) {
      each_pair([&](uint32_t tile, uint32_t i, U32 row, U32 column) {
        const F32 by = rows[i].input * scale, old = -(rows[i].input * rows[i].before);
        const auto of = [&](uint32_t c) { return fma(seen[tile].get(i * 2 + c), old, rows[i].values[tile][c] * by); };
        write_pair(right_, row, column, of(0), of(1));
      });
      k_.barrier();
      Sums solved = sums_of_rows();
      multiply_lower(stage.offset(at_.inverses).as<heddle::f16>(), right_, solved);
      each_pair([&](uint32_t tile, uint32_t i, U32 row, U32 column) {
        const auto of = [&](uint32_t c) { return solved[tile].get(i * 2 + c) * (1 / square_scale); };
        write_u(row, column, of(0), of(1), rows[i].after);
      });
      k_.barrier();
    }
    for (uint32_t tile = 0; tile < 2; ++tile)
      for (uint32_t reg = 0; reg < 4; ++reg) answers[tile].var[reg] *= rows[reg / 2].before * square_scale;
    multiply_lower(scores, u_, answers);
    write_answers(answers, rows, unscale, stage.offset(at_.rows).as<uint32_t>(), left);
    change_state(keys, load(factors.offset((chunk_rows - 1) * 4 + 1)) * scale, unscale);
  }

  // The exponent, as f32 has it, of the largest number of the state and of the factors' products with values, 9 or
  // more. With a scale that makes it 8, nothing is beyond f16: with keys of length 1 no number of the right side is
  // larger than 1 + sqrt(128) times that, and none of u than 65 + sqrt(128) times, 39000.
  U32 largest_exponent(const std::array<Row, 2>& rows) {
    F32 top = k_.constant(0.0f);
    for (const Row& row : rows)
      for (const auto& two : row.values)
        for (const F32& v : two) top = max(top, abs(v * row.input));
    for (const auto& tile : sums_)
      for (uint32_t reg = 0; reg < 4; ++reg) top = max(top, abs(tile.get(reg)));
    const U32 of_warp = warp_reduce(Atomic::max, bitcast<uint32_t>(top));
    k_.when(k_.lane() == 0u, [&] { store(largest_ + k_.warp(), of_warp); });
    k_.barrier();
    U32 all = k_.constant(0u);
    for (uint32_t i = 0; i < RecurrenceScan::warps; i += 4)
      for (const U32& each : load_vec<4>(largest_.offset(i))) all = max(all, each);
    return max(all >> 23u, 9u);
  }

  Sums sums_of_rows() {
    Sums sums;
    for (uint32_t i = 0; i < 2; ++i) sums.emplace_back(k_);
    return sums;
  }
  void write_pair(Shared<heddle::f16> to, U32 row, U32 column, F32 left, F32 right) {
    store((to + (row * column_row + column)).as<uint32_t>(), bitcast<uint32_t>(to_f16x2(left, right)));
  }
  void write_u(U32 row, U32 column, F32 left, F32 right, F32 after) {
    write_pair(u_, row, column, left, right);
    write_pair(decayed_u_, row, column, left * after, right * after);
  }
  // Only warps with keys.
  void with_keys(auto&& f) {
    if (padded_ == RecurrenceScan::warps * 16)
      f();
    else
      k_.when(k_.warp() < padded_ / 16, f);
  }
  void write_state(F32 scale) {
    with_keys([&] {
      for (uint32_t tile = 0; tile < sums_.size(); ++tile)
        for (uint32_t i = 0; i < 2; ++i)
          write_pair(state_, k_.warp() * 16u + in_tile_ + i * 8, pair_ + tile * 8, sums_[tile].get(i * 2) * scale,
                     sums_[tile].get(i * 2 + 1) * scale);
    });
  }
  // answers += Q S, seen += K S
  void multiply_state(Shared<heddle::f16> queries, Shared<heddle::f16> keys, Sums& answers, Sums& seen) {
    for (uint32_t key = 0; key < padded_; key += 16) {
      const auto right = right_tiles(k_, (state_ + first_column_).offset(key * column_row), column_row, Stored::plain);
      const U32 row = first_row_ * key_row();
      const Left query = left_tile(k_, (queries + row).offset(key), key_row(), Stored::plain);
      for (uint32_t tile = 0; tile < 2; ++tile) mma(answers[tile], query, right[tile]);
      if (!is_delta()) continue;
      const Left of_keys = left_tile(k_, (keys + row).offset(key), key_row(), Stored::plain);
      for (uint32_t tile = 0; tile < 2; ++tile) mma(seen[tile], of_keys, right[tile]);
    }
  }
  // sums += a b, where a is lower triangular.
  void multiply_lower(Shared<heddle::f16> a, Shared<heddle::f16> b, Sums& sums) {
    for (uint32_t begin = 0; begin < chunk_rows; begin += 16)
      k_.when(first_row_ >= begin, [&] {
        const auto right = right_tiles(k_, (b + first_column_).offset(begin * column_row), column_row, Stored::plain);
        const Left left = left_tile(k_, (a + first_row_ * square_row).offset(begin), square_row, Stored::plain);
        for (uint32_t tile = 0; tile < 2; ++tile) mma(sums[tile], left, right[tile]);
      });
  }
  void write_answers(const Sums& answers, const std::array<Row, 2>& rows, F32 unscale, Shared<uint32_t> numbers,
                     U32 left) {
    each_pair([&](uint32_t tile, uint32_t i, U32 row, U32 column) {
      k_.when(row < left, [&] {
        const auto to = k_.arg(&Args::y) + (mul_wide(load(numbers + row), k_.arg(&Args::y_stride)) +
                                            widen(head_ * k_.arg(&Args::value) + first_ + column));
        const F32 by = rows[i].output * unscale * (1 / square_scale);
        for (uint32_t c = 0; c < 2; ++c) {
          F32 y = answers[tile].get(i * 2 + c) * by;
          if (!is_delta()) y = fma(skip_, rows[i].values[tile][c], y);
          k_.when(first_ + column + c < k_.arg(&Args::value), [&] { store(to.offset(c), y); });
        }
      });
    });
  }
  void change_state(Shared<heddle::f16> keys, F32 decay, F32 unscale) {
    with_keys([&] {
      const auto each = [&](F32 by) {
        for (auto& tile : sums_)
          for (auto& v : tile.var) v *= by;
      };
      each(decay);
      for (uint32_t row = 0; row < chunk_rows; row += 16) {
        const Left left =
            left_tile(k_, (keys + k_.warp() * 16u).offset(row * key_row()), key_row(), Stored::transposed);
        for (uint32_t column = 0; column < scan_columns; column += 16) {
          const auto right = right_tiles(k_, decayed_u_.offset(row * column_row + column), column_row, Stored::plain);
          for (uint32_t tile = 0; tile < 2; ++tile) mma(sums_[column / 8 + tile], left, right[tile]);
        }
      }
      each(unscale);
    });
  }

  const RecurrenceScan& s_;
  Builder<Args> k_;
  const uint32_t padded_;
  const StageLayout at_;
  Shared<uint8_t> stages_;
  Shared<heddle::f16> state_;                  // (padded_, column_row)
  Shared<heddle::f16> right_, u_, decayed_u_;  // (chunk_rows, column_row)
  Shared<uint32_t> largest_;                   // (warps)
  U32 head_, first_, key_head_;                // first: value of the block
  U32 first_row_, first_column_;               // of this warp, in a chunk
  U32 in_tile_, pair_;                         // of this lane: row, and first of two columns
  F32 skip_;
  LoadedRun run_;
  Global<uint32_t> order_;                   // of the run
  std::optional<Var<uint32_t>> copied_row_;  // of the entry of which this thread copies next
  Sums sums_;                                // the state: (16 keys of this warp, 32 values)
};

}  // namespace

Kernel RecurrenceScan::build() const {
  check_fields(*this);
  return ScanWriter(*this).write();
}

uint32_t RecurrenceScan::shared_bytes() const {
  const uint32_t columns_of = rule == rule_delta ? 3 : 2;
  return stages * StageLayout(*this).bytes + (padded_key() + columns_of * chunk_rows) * column_row * 2 + warps * 4;
}

Grid RecurrenceScan::grid(const Args& args) const {
  check_chunked_args(name, args);
  const uint64_t per_slot = uint64_t(args.heads) * args.value * padded_key();
  if (args.slot_stride < per_slot)
    throw Error("{}: slots of {} values, expected {} or more", name, args.slot_stride, per_slot);
  if (args.run_count > 65535) throw Error("{}: {} runs, 65535 at most", name, args.run_count);
  return {.x = args.heads * ((args.value + columns - 1) / columns), .y = std::max(args.run_count, 1u)};
}

RecurrenceScan scan_choice(uint32_t key, uint32_t rule, uint32_t shared_per_block) {
  RecurrenceScan spec{.key = key, .rule = rule, .stages = 2};
  if (spec.shared_bytes() > shared_per_block) spec.stages = 1;
  return spec;
}

}  // namespace heddle::kernels
