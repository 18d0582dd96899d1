// A block of recurrence_prepare has a chunk of a head. Its four warps divide rows of K and Q by their lengths, then
// each computes 16 rows of L and P, and 16 columns of (I + L)^-1: the tile at the diagonal by substitution, the others
// by products that keep nearly the precision of f32.
#include "kernels/state/chunked_recurrence.h"

#include <algorithm>
#include <cmath>

#include "kernels/spec/catalog.h"
#include "kernels/state/chunk_tiles.h"
#include "ptx/memory.h"
#include "ptx/warp.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

// A number as the sum of two: a difference of two long sums of logarithms keeps its digits.
struct TwoFloats {
  F32 high, low;
  friend TwoFloats operator+(const TwoFloats& a, const TwoFloats& b) {
    const F32 sum = a.high + b.high, part = sum - a.high;
    return {sum, a.low + b.low + ((a.high - (sum - part)) + (b.high - part))};
  }
};

class PrepareWriter {
 public:
  using Args = ChunkedArgs;
  static constexpr uint32_t warps = 4;
  explicit PrepareWriter(const RecurrencePrepare& s)
      : s_(s), k_(std::string(RecurrencePrepare::name), warps * 32), padded_(s.padded_key()) {}

  Kernel write() {
    keys_ = k_.shared<heddle::f16>(chunk_rows * row(), 16);
    queries_ = k_.shared<heddle::f16>(chunk_rows * row(), 16);
    sums_ = k_.shared<float>(chunk_rows * 2, 16);
    inputs_ = k_.shared<float>(chunk_rows, 16);
    lengths_ = k_.shared<float>(chunk_rows * 2, 16);
    if (is_delta()) {
      matrix_ = k_.shared<float>(chunk_rows * matrix_row, 16);
      diagonal_ = k_.shared<float>(chunk_rows * diagonal_row, 16);
    }
    chain_start(k_, s_.chained);
    head_ = k_.block_id();
    key_head_ = key_head_of(k_, head_);
    bias_ = load(k_.arg(&Args::step_bias) + head_, {.nc = true});
    rate_ = load(k_.arg(&Args::rates) + head_, {.nc = true});
    chain_wait(k_, s_.chained);  // in blocks without work too: the next kernel relies on all blocks having waited
    k_.when(k_.block_y() < k_.arg(&Args::chunk_count), [&] { chunk(); });
    return k_.finish();
  }

 private:
  // Floats of a row of L, and of a tile at the diagonal: 4 rows and 4 pairs of columns lie in different banks.
  static constexpr uint32_t matrix_row = chunk_rows + 8, diagonal_row = 16 + 8;
  bool is_delta() const { return s_.rule == rule_delta; }
  uint32_t row() const { return padded_row(padded_); }

  void chunk() {
    const U32 number = k_.block_y();
    const auto chunk = load_vec<2>(k_.arg(&Args::chunks) + number * 2u);
    order_ = k_.arg(&Args::order) + chunk[0];
    count_ = chunk[1];
    const U64 place = mad_wide(number, k_.arg(&Args::heads), widen(head_));
    const uint64_t square = chunk_rows * chunk_rows;
    k_.when(k_.warp() == 0u, [&] { sum_decays(); });
    divide_rows();
    k_.barrier();
    multiply(k_.arg(&Args::scores) + place * square);
    if (is_delta()) {
      k_.warp_sync();
      invert_diagonal();
    }
    k_.when(k_.thread() < chunk_rows,
            [&] { write_factors(k_.arg(&Args::factors) + place * uint64_t(chunk_rows * 4)); });
    const U32 key_heads = k_.arg(&Args::key_heads), heads = k_.arg(&Args::heads);
    const Pred first = select(k_.arg(&Args::tiled) != 0u, head_, head_ % (heads / key_heads) * key_heads) < key_heads;
    k_.when(first, [&] { write_rows(mad_wide(number, key_heads, widen(key_head_))); });
    if (is_delta()) {
      k_.barrier();
      invert(k_.arg(&Args::inverses) + place * square);
    }
  }

  // The row of an entry; behind the last one that of the last.
  U32 row_of(U32 entry) { return load(order_ + min(entry, count_ - 1u)); }

  // The sums of the logarithms of decays, and the factors of u without lengths. A lane has two rows.
  void sum_decays() {
    std::array<F32, 2> logs;
    for (uint32_t i = 0; i < 2; ++i) {
      const U32 entry = k_.lane() * 2u + i;
      const Pred real = entry < count_;
      const U64 place = mul_wide(row_of(entry), k_.arg(&Args::steps_stride)) + widen(head_);
      const F32 step = step_of(k_, load(k_.arg(&Args::steps) + place) + bias_);
      const F32 input = is_delta() ? sigmoid(load(k_.arg(&Args::betas) + place)) : step;
      logs[i] = select(real, max(rate_ * step, -128.0f), 0.0f);  // e^-128 is 0
      store(inputs_ + entry, select(real, input, 0.0f));
    }
    const F32 zero = k_.constant(0.0f);
    TwoFloats both = TwoFloats{logs[0], zero} + TwoFloats{logs[1], zero};
    for (uint32_t by = 1; by < 32; by *= 2) {
      const TwoFloats sum = TwoFloats{shuffle_up(both.high, by), shuffle_up(both.low, by)} + both;
      const Pred has = k_.lane() >= by;
      both = {select(has, sum.high, both.high), select(has, sum.low, both.low)};
    }
    const Pred has = k_.lane() > 0u;
    const TwoFloats before{select(has, shuffle_up(both.high, 1u), 0.0f), select(has, shuffle_up(both.low, 1u), 0.0f)};
    const TwoFloats first = before + TwoFloats{logs[0], zero};
    store_vec(sums_ + k_.lane() * 4u, Vec<float, 4>{first.high, first.low, both.high, both.low});
  }

  // Each warp has 16 rows, and reads some at once. A lane has pairs of neighbours.
  void divide_rows() {
    constexpr uint32_t own = chunk_rows / warps, at_once = 8;
    const U32 begin = k_.warp() * own, all_rows = row_of(begin + k_.lane() % own);
    k_.loop(0u, own, at_once, [&](U32 first) {
      std::vector<std::vector<F32>> keys, queries;
      for (uint32_t i = 0; i < at_once; ++i) {
        const auto mixed = k_.arg(&Args::mixed) + mul_wide(shuffle(all_rows, first + i), k_.arg(&Args::mixed_stride));
        keys.push_back(numbers(mixed + (k_.arg(&Args::keys_at) + key_head_ * s_.key), begin + first + i));
        queries.push_back(numbers(mixed + (k_.arg(&Args::queries_at) + key_head_ * s_.key), begin + first + i));
      }
      for (uint32_t i = 0; i < at_once; ++i) {
        const U32 entry = begin + first + i;
        const F32 key = divide(keys[i], keys_, entry), query = divide(queries[i], queries_, entry);
        k_.when(k_.lane() == 0u, [&] { store_vec(lengths_ + entry * 2u, Vec<float, 2>{key, query}); });
      }
    });
  }
  std::vector<F32> numbers(Global<float> from, U32 entry) {
    std::vector<F32> all;
    for (uint32_t i = 0; i < padded_; i += 64)
      for (uint32_t j = 0; j < 2; ++j) {
        const U32 number = k_.lane() * 2u + (i + j);
        const Pred has = number < s_.key;
        all.push_back(select(has && entry < count_, load(from + select(has, number, k_.constant(0u))), 0.0f));
      }
    return all;
  }
  // Stores a row with length 1, and returns what it was divided by.
  F32 divide(const std::vector<F32>& row_numbers, Shared<heddle::f16> to, U32 entry) {
    auto squares = k_.var(0.0f);
    for (const F32& v : row_numbers) squares.add_product(v, v);
    const F32 by = rsqrt_approx(warp_sum(squares.get()) + (is_delta() ? delta_epsilon : 1e-30f));
    for (uint32_t i = 0; i < padded_; i += 64) {
      const U32 number = k_.lane() * 2u + i;
      const U32 both = bitcast<uint32_t>(to_f16x2(row_numbers[i / 32] * by, row_numbers[i / 32 + 1] * by));
      k_.when(number < padded_, [&] { store((to + (entry * row() + number)).as<uint32_t>(), both); });
    }
    return rcp_approx(by);
  }

  // 16 rows of P and L by each warp, up to the diagonal, 16 columns at a time.
  void multiply(Global<heddle::f16> scores) {
    const U32 first = k_.warp() * 16u;
    std::vector<Left> keys, queries;
    for (uint32_t i = 0; i < padded_; i += 16) {
      keys.push_back(left_tile(k_, (keys_ + first * row()).offset(i), row(), Stored::plain));
      queries.push_back(left_tile(k_, (queries_ + first * row()).offset(i), row(), Stored::plain));
    }
    const U32 in_tile = k_.lane() / 4u, column = k_.lane() % 4u * 2u;
    std::array<Vec<float, 2>, 2> sums;
    std::array<F32, 2> inputs;
    for (uint32_t i = 0; i < 2; ++i) {
      const U32 at = first + in_tile + i * 8;
      sums[i] = load_vec<2>(sums_ + at * 2u);
      inputs[i] = load(inputs_ + at);
    }
    for (uint32_t begin = 0; begin < chunk_rows; begin += 16)
      k_.when(first >= begin, [&] {
        std::vector<Acc<float, 16, 8>> of_keys, of_queries;
        for (uint32_t i = 0; i < 2; ++i) {
          of_keys.emplace_back(k_);
          of_queries.emplace_back(k_);
        }
        for (uint32_t i = 0; i < padded_; i += 16) {
          const auto right = right_tiles(k_, keys_.offset(begin * row() + i), row(), Stored::transposed);
          for (uint32_t j = 0; j < 2; ++j) {
            if (is_delta()) mma(of_keys[j], keys[i / 16], right[j]);
            mma(of_queries[j], queries[i / 16], right[j]);
          }
        }
        for (uint32_t j = 0; j < 2; ++j) {
          const U32 second = column + (begin + j * 8);
          const auto others = load_vec<4>(sums_ + second * 2u);
          for (uint32_t i = 0; i < 2; ++i) {
            const U32 at = first + in_tile + i * 8;
            std::array<F32, 2> score, entry;
            for (uint32_t c = 0; c < 2; ++c) {
              const F32 decay = exp((sums[i][0] - others[c * 2]) + (sums[i][1] - others[c * 2 + 1]));
              score[c] = select(second + c <= at, of_queries[j].get(i * 2 + c) * (decay * square_scale), 0.0f);
              entry[c] = select(second + c < at, of_keys[j].get(i * 2 + c) * decay * inputs[i], 0.0f);
            }
            store((scores + (at * chunk_rows + second)).as<uint32_t>(),
                  bitcast<uint32_t>(to_f16x2(score[0], score[1])));
            if (is_delta()) store_vec(matrix_ + (at * matrix_row + second), Vec<float, 2>{entry[0], entry[1]});
          }
        }
      });
  }

  // --- (I + L)^-1 ---
  // The tile at the warp's place of the diagonal: a lane has a column, x_i = [i = column] - sum of L_im x_m.
  void invert_diagonal() {
    const U32 first = k_.warp() * 16u, column = k_.lane() % 16u;
    const auto own = matrix_ + (first * matrix_row + first);
    std::vector<F32> x;
    for (uint32_t i = 0; i < 16; ++i) {
      F32 next = select(column == i, k_.constant(1.0f), 0.0f);
      for (uint32_t m = 0; m < i; m += 4) {
        const auto four = load_vec<4>(own.offset(i * matrix_row + m));
        for (uint32_t j = 0; j < 4 && m + j < i; ++j) next = fma(-four[j], x[m + j], next);
      }
      x.push_back(next);
    }
    k_.when(k_.lane() < 16u, [&] {
      for (uint32_t i = 0; i < 16; ++i) store(diagonal_ + ((first + i) * diagonal_row + column), x[i]);
    });
  }

  // 16 x 16 sums, and operands in two parts of f16 each: together they have 22 bits.
  using Square = std::vector<Acc<float, 16, 8>>;
  struct TwoLefts {
    Left high, low;
  };
  struct TwoRights {
    std::array<Right, 2> high, low;
  };
  std::array<U32, 2> two_parts(F32 left, F32 right, float scale) {
    left = left * scale;
    right = right * scale;
    const F16x2 high = to_f16x2(left, right);
    const auto [a, b] = unpack<heddle::f16>(high);
    return {bitcast<uint32_t>(high), bitcast<uint32_t>(to_f16x2(left - to_f32(a), right - to_f32(b)))};
  }
  TwoLefts lefts(const Square& from, float scale) {
    TwoLefts made;
    for (uint32_t reg = 0; reg < 4; ++reg) {
      const auto& tile = from[reg / 2];
      const auto [high, low] = two_parts(tile.get(reg % 2 * 2), tile.get(reg % 2 * 2 + 1), scale);
      made.high.reg[reg] = high;
      made.low.reg[reg] = low;
    }
    return made;
  }
  // The transpose of what is stored.
  TwoRights rights(Shared<float> from, uint32_t stride) {
    TwoRights made;
    const auto own = from + (k_.lane() / 4u * stride + k_.lane() % 4u * 2u);
    for (uint32_t i = 0; i < 2; ++i)
      for (uint32_t reg = 0; reg < 2; ++reg) {
        const auto two = load_vec<2>(own.offset(i * 8 * stride + reg * 8));
        const auto [high, low] = two_parts(two[0], two[1], square_scale);
        made.high[i].reg[reg] = high;
        made.low[i].reg[reg] = low;
      }
    return made;
  }
  void add_product(Square& to, const TwoLefts& a, const TwoRights& b) {
    for (uint32_t i = 0; i < 2; ++i) {
      mma(to[i], a.high, b.high[i]);
      mma(to[i], a.high, b.low[i]);
      mma(to[i], a.low, b.high[i]);
    }
  }
  Square zeros() {
    Square made;
    for (uint32_t i = 0; i < 2; ++i) made.emplace_back(k_);
    return made;
  }
  // Column j = warp of tiles, transposed: T_ij^T = -(sum over m < i of T_mj^T L_im^T) T_ii^T, where T_mj is 0 above the
  // diagonal. No number of the sum is larger than 16.
  void invert(Global<heddle::f16> inverse) {
    constexpr float sum_scale = 0x1p11f;
    const U32 in_tile = k_.lane() / 4u, column = k_.lane() % 4u * 2u, first = k_.warp() * 16u;
    std::vector<TwoLefts> above;
    for (uint32_t i = 0; i < chunk_rows / 16; ++i) {
      Square sum = zeros(), made = zeros();
      for (uint32_t m = 0; m < i; ++m)
        add_product(sum, above[m], rights(matrix_.offset(i * 16 * matrix_row + m * 16), matrix_row));
      if (i) {
        for (auto& tile : sum)
          for (auto& v : tile.var) v *= 1 / (square_scale * square_scale);
        add_product(made, lefts(sum, sum_scale), rights(diagonal_.offset(i * 16 * diagonal_row), diagonal_row));
      }
      for (uint32_t tile = 0; tile < 2; ++tile)
        for (uint32_t reg = 0; reg < 4; ++reg) {
          const F32 own =
              load(diagonal_ + ((column + (i * 16 + tile * 8 + reg % 2)) * diagonal_row + in_tile + reg / 2 * 8));
          made[tile].set(reg, select(k_.warp() == i, own, made[tile].get(reg) * (-1 / (square_scale * sum_scale))));
        }
      k_.when(k_.warp() <= i, [&] {
        for (uint32_t tile = 0; tile < 2; ++tile)
          for (uint32_t reg = 0; reg < 4; ++reg)
            store(inverse + ((column + (i * 16 + tile * 8 + reg % 2)) * chunk_rows + first + in_tile + reg / 2 * 8),
                  to_f16(made[tile].get(reg) * square_scale));
      });
      if (i + 1 < chunk_rows / 16) above.push_back(lefts(made, square_scale));
    }
  }

  // --- what the scan needs besides ---
  // A thread has a row.
  void write_factors(Global<float> factors) {
    const U32 at = k_.thread();
    const auto sum = load_vec<2>(sums_ + at * 2u), all = load_vec<2>(sums_.offset((chunk_rows - 1) * 2));
    const auto lengths = load_vec<2>(lengths_ + at * 2u);
    F32 input = load(inputs_ + at), output = k_.constant(float(1 / std::sqrt(double(s_.key))));
    if (!is_delta()) {
      input = input * lengths[0];
      output = lengths[1];
    }
    const std::array four{input, exp(sum[0] + sum[1]), exp((all[0] - sum[0]) + (all[1] - sum[1])), output};
    for (uint32_t i = 0; i < four.size(); ++i) store(factors.offset(i * chunk_rows) + at, four[i]);
  }
  // Four threads have a row.
  void write_rows(U64 place) {
    const U32 own = k_.thread() / 4u, part = k_.thread() % 4u;
    const auto copy = [&](Shared<heddle::f16> from, Global<heddle::f16> to) {
      const auto own_from = from + (own * row() + part * 8u);
      const auto own_to = to + (own * padded_ + part * 8u);
      for (uint32_t i = 0; i < chunk_rows; i += warps * 8)
        for (uint32_t c = 0; c < padded_; c += 32) {
          const auto piece = [&] {
            store_vec(own_to.offset(i * padded_ + c).as<uint32_t>(),
                      load_vec<4>(own_from.offset(i * row() + c).as<uint32_t>()));
          };
          if (c + 32 <= padded_)
            piece();
          else
            k_.when(part < (padded_ - c) / 8, piece);
        }
    };
    const U64 begin = place * uint64_t(chunk_rows * padded_);
    copy(keys_, k_.arg(&Args::keys) + begin);
    copy(queries_, k_.arg(&Args::queries) + begin);
  }

  const RecurrencePrepare& s_;
  Builder<Args> k_;
  const uint32_t padded_;
  Shared<heddle::f16> keys_, queries_;  // (chunk_rows, row())
  Shared<float> sums_, inputs_;         // (chunk_rows): two floats; factors of u
  Shared<float> lengths_;               // (chunk_rows, 2): of keys and queries
  Shared<float> matrix_;                // (chunk_rows, matrix_row): L
  Shared<float> diagonal_;              // (chunk_rows, diagonal_row): the inverse's tiles at the diagonal
  U32 head_, key_head_, count_;
  F32 bias_, rate_;
  Global<uint32_t> order_;  // of the chunk
};

}  // namespace

Kernel RecurrencePrepare::build() const {
  check_fields(*this);
  return PrepareWriter(*this).write();
}

Grid RecurrencePrepare::grid(const Args& args) const {
  check_chunked_args(name, args);
  return {.x = args.heads, .y = std::max(args.chunk_count, 1u)};
}

void check_chunked_args(std::string_view name, const ChunkedArgs& args) {
  if (args.heads == 0 || args.key_heads == 0 || args.heads % args.key_heads || args.value == 0)
    throw Error("{}: {} heads of {} values with {} key heads", name, args.heads, args.value, args.key_heads);
  if (args.chunk_count > 65535) throw Error("{}: {} chunks, 65535 at most", name, args.chunk_count);
  for (const uint64_t address : {args.keys.address, args.queries.address, args.inverses.address, args.scores.address,
                                 args.factors.address, args.runs.address, args.chunks.address})
    if (address % 16) throw Error("{}: a buffer at {:#x}, expected a multiple of 16", name, address);
}

void add_chunked_recurrence_kernels(std::vector<Entry>& all) {
  all.push_back(entry<RecurrencePrepare>());
  all.push_back(entry<RecurrenceScan>());
}

}  // namespace heddle::kernels
