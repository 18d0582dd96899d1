// Conversion of activations to rows of f16.
#include "kernels/product/activations.h"

#include <algorithm>
#include <bit>

#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "ptx/memory.h"
#include "ptx/warp.h"

namespace heddle::kernels {

using namespace ptx;

// f32 rows to f16 rows. A thread's values stay in registers from the one load to the store; sums and the largest
// magnitude go over the block.

namespace {

using HalfRowsArgs = HalfRows::Args;

class Rows {
 public:
  explicit Rows(const HalfRows& spec)
      : s_(spec), lanes_(32 / spec.together), k_(std::string(spec.name), spec.threads) {}

  Kernel build() {
    chain_start(k_, s_.chained);
    cols_ = k_.arg(&HalfRowsArgs::cols);
    row_ = s_.together == 1 ? k_.block_id() : k_.block_id() * s_.together + k_.lane() / lanes_;
    in_row_ = s_.together == 1 ? k_.thread() : k_.warp() * lanes_ + k_.lane() % lanes_;
    // the norm's weight does not depend on other kernels
    const bool early = s_.weight && s_.held * s_.vec <= 16;
    if (early) weight_ = load_row(k_.arg(&HalfRowsArgs::weight));
    chain_wait(k_, s_.chained);  // in blocks without work too: the next kernel relies on all blocks having waited
    U32 rows = k_.arg(&HalfRowsArgs::rows);
    k_.when(s_.together == 1 ? row_ < rows : rows > 0u, [&] { body(); });
    return k_.finish();
  }

 private:
  // f(j, i) for each of this thread's accesses j, at column i.
  void each(auto&& f) {
    for (uint32_t j = 0; j < s_.held; ++j) f(j, s_.apart ? in_step(j) : (k_.thread() + j * s_.threads) * s_.vec);
  }
  // With apart a thread has whole steps of the matrix unit, 16 values each.
  uint32_t accesses() const { return 16 / s_.vec; }  // of a step
  U32 step(uint32_t n) { return in_row_ + n * (s_.threads / s_.together); }
  U32 in_step(uint32_t j) {
    const uint32_t pieces = s_.apart / 16, value = j % accesses() * s_.vec;
    U32 at = step(j / accesses()), piece = (at >> 3u) * 4u + value / 4;
    return piece / pieces * (2 * s_.apart) + (at >> 2u & 1u) * s_.apart + piece % pieces * 16u + (at & 3u) * 4u +
           value % 4;
  }
  // The values of a row of f32 at this thread's columns, 0 past the end.
  std::vector<F32> load_row(Global<float> row) {
    std::vector<Var<float>> values;
    each([&](uint32_t, U32 i) {
      const size_t first = values.size();
      for (uint32_t c = 0; c < s_.vec; ++c) values.push_back(k_.var(0.0f));
      k_.when(i < cols_, [&] {
        const auto loaded = load_wide(row + i, s_.vec);
        for (uint32_t c = 0; c < s_.vec; ++c) values[first + c] = loaded[c];
      });
    });
    std::vector<F32> v;
    for (auto& value : values) v.push_back(value.get());
    return v;
  }
  // Over the threads of a row: a sum, a largest value, or both at the price of one.
  struct Reduced {
    F32 sum, top;
  };
  Reduced over_row(const Reduced& own) {
    const uint32_t warps = s_.threads / 32;
    auto parts = k_.shared<float>(warps * s_.together * 2, 8);
    U32 row = k_.lane() / lanes_;
    F32 sum = own.sum.rec ? warp_sum(own.sum, lanes_) : k_.constant(0.0f);
    F32 top = own.top.rec ? warp_max(own.top, lanes_) : k_.constant(0.0f);
    k_.when(k_.lane() % lanes_ == 0u, [&] {
      store_vec(parts + (k_.warp() * s_.together + row) * 2u, Vec<float, 2>{sum, top});
    });
    k_.barrier();
    auto of_row = parts + row * 2u;
    for (uint32_t w = 0; w < warps; ++w) {
      const auto part = load_vec<2>(of_row.offset(w * s_.together * 2));
      sum = w ? sum + part[0] : part[0];
      top = w ? max(top, part[1]) : part[1];
    }
    return {sum, top};
  }
  F32 sum_of(const std::vector<F32>& v, bool squares) {
    auto sum = k_.var(0.0f);
    for (F32 x : v) squares ? sum.add_product(x, x) : void(sum += x);
    return sum.get();
  }
  F32 largest_of(const std::vector<F32>& v) {
    F32 top = abs(v[0]);
    for (size_t i = 1; i < v.size(); ++i) top = max(top, abs(v[i]));
    return top;
  }

  void body() {
    U32 from = min(row_, k_.arg(&HalfRowsArgs::rows) - 1u);
    real_ = row_ < k_.arg(&HalfRowsArgs::rows);
    if (!s_.gather) return convert(from);
    from = load(k_.arg(&HalfRowsArgs::list) + from);
    if (s_.together == 1) {
      from = k_.assume_uniform(from);
      k_.when(from != HalfRows::no_row, [&] { convert(from); });
    } else {
      real_ = real_ && from != HalfRows::no_row;
      convert(select(real_, from, k_.constant(0u)));
    }
  }
  void convert(U32 from) {
    std::vector<F32> v = load_row(k_.arg(&HalfRowsArgs::x) + mul_wide(from, k_.arg(&HalfRowsArgs::x_stride)));
    // without a bias the root's factor can wait until the largest value is known too
    const bool late = s_.norm == HalfRows::rms && !s_.bias;
    F32 squares;
    if (late) squares = sum_of(v, true);
    if (s_.norm == HalfRows::rms && !late) divide(v, over_row({.sum = sum_of(v, true)}).sum / to_f32(cols_));
    if (s_.norm == HalfRows::layer) center(v);
    if (s_.weight) {
      const std::vector<F32> weight = weight_.empty() ? load_row(k_.arg(&HalfRowsArgs::weight)) : weight_;
      for (size_t i = 0; i < v.size(); ++i) v[i] = v[i] * (s_.plus_one ? weight[i] + 1.0f : weight[i]);
    }
    if (s_.bias) {
      const std::vector<F32> bias = load_row(k_.arg(&HalfRowsArgs::bias));
      for (size_t i = 0; i < v.size(); ++i) v[i] = v[i] + bias[i];
    }
    const Reduced all = over_row({.sum = squares, .top = largest_of(v)});
    if (!late) return write(v, all.top, {});
    F32 mean_square = all.sum / to_f32(cols_), factor = root_factor(mean_square);
    if (s_.squares) begin_squares(mean_square);
    write(v, all.top * factor, factor);
  }
  void begin_squares(F32 mean_square) {
    auto first = k_.arg(&HalfRowsArgs::squares) + row_;
    k_.loop(in_row_, select(real_, k_.arg(&HalfRowsArgs::squares_count), k_.constant(0u)), s_.threads / s_.together,
            [&](U32 i) {
              auto at = first + mul_wide(i, k_.arg(&HalfRowsArgs::squares_stride));
              store(at.template as<uint64_t>(), uint64_t(0));
            });
    k_.when(real_ && in_row_ == 0u, [&] { store_scale(first, mean_square + k_.arg(&HalfRowsArgs::epsilon)); });
  }
  F32 root_factor(F32 mean_square) { return rsqrt_approx(mean_square + k_.arg(&HalfRowsArgs::epsilon)); }
  void divide(std::vector<F32>& v, F32 mean_square) {
    F32 factor = root_factor(mean_square);
    for (F32& x : v) x = x * factor;
  }
  // The mean of large values is off by many units in their last place, so the remaining mean of the differences
  // corrects it (see LayerNorm). Past the end of the row the differences are 0.
  void center(std::vector<F32>& v) {
    F32 part = rcp(to_f32(cols_)), mean = over_row({.sum = sum_of(v, false)}).sum * part;
    auto less = [&](F32 by) {
      each([&](uint32_t j, U32 i) {
        Pred inside = i < cols_;
        for (uint32_t c = j * s_.vec; c < (j + 1) * s_.vec; ++c) v[c] = select(inside, v[c] - by, 0.0f);
      });
    };
    less(mean);
    less(over_row({.sum = sum_of(v, false)}).sum * part);
    divide(v, over_row({.sum = sum_of(v, true)}).sum * part);
  }

  // The exponent p of the power of two that a row is divided by, from its largest magnitude.
  S32 power_for(F32 top) {
    U32 bits = bitcast<uint32_t>(top);
    S32 above = bitcast<int32_t>((bits - 1u) >> 23) - 140;  // ceil(log2(top)) - 14
    S32 small = select(above < -17, above + 17, 0);
    return select(bits == 0u, k_.constant(0), select(above > 0, above, small));
  }

  // v times `times`, where that is given; `top`: the largest magnitude.
  void write(const std::vector<F32>& v, F32 top, F32 times) {
    S32 power = power_for(top);
    auto two_to = [&](S32 p) { return bitcast<float>((p + 127) << 23); };
    k_.when(in_row_ == 0u && real_, [&] {
      F32 scale = two_to(power);
      if (s_.factors) scale = scale * load(k_.arg(&HalfRowsArgs::factors) + row_);
      store(k_.arg(&HalfRowsArgs::scale) + row_, scale);
    });
    F32 factor = times.rec ? times * two_to(-power) : two_to(-power);
    if (s_.also_apart) write_again(v, factor);
    if (s_.apart) return write_operand(v, factor);
    U32 ld = k_.arg(&HalfRowsArgs::ld);
    auto out = k_.arg(&HalfRowsArgs::out) + mul_wide(row_, ld);
    each([&](uint32_t j, U32 i) {
      auto value = [&](uint32_t c) { return v[j * s_.vec + c] * factor; };
      auto pair = [&](uint32_t c) { return bitcast<uint32_t>(to_f16x2(value(c), value(c + 1))); };
      k_.when(i < ld, [&] {
        if (s_.vec == 4)
          store_vec((out + i).as<uint32_t>(), Vec<uint32_t, 2>{pair(0), pair(2)});
        else if (s_.vec == 2)
          store((out + i).as<uint32_t>(), pair(0));
        else
          store(out + i, to_f16(value(0)));
      });
    });
  }
  void write_again(const std::vector<F32>& v, F32 factor) {
    U32 ld = k_.arg(&HalfRowsArgs::ld), group = k_.arg(&HalfRowsArgs::also_group);
    each([&](uint32_t j, U32 i) {
      k_.when(i < ld && real_, [&] {
        auto to = k_.arg(&HalfRowsArgs::also) + operand_quad(row_, i, s_.also_apart, group, ld);
        for (uint32_t odd = 0; odd < 2; ++odd) {
          auto word = to_f16x2(v[j * 4 + odd] * factor, v[j * 4 + odd + 2] * factor);
          store((to + group * (8 * odd)).template as<uint32_t>(), bitcast<uint32_t>(word));
        }
      });
    });
  }
  // In the order of operand_place: a step is 16 bytes of each of two core matrices.
  void write_operand(const std::vector<F32>& v, F32 factor) {
    U32 ld = k_.arg(&HalfRowsArgs::ld), size = k_.arg(&HalfRowsArgs::group), before = row_ / size * size;
    auto group = k_.arg(&HalfRowsArgs::out) + (mul_wide(before, ld) + widen((row_ - before) * 8u));
    for (uint32_t n = 0; n < s_.held / accesses(); ++n)
      k_.when(step(n) < ld / 16u && real_, [&] {
        for (uint32_t core = 0; core < 2; ++core) {
          Vec<uint32_t, 4> words;
          for (uint32_t piece = 0; piece < 4; ++piece) {
            const uint32_t at = n * 16 + piece * 4 + core;
            words[piece] = bitcast<uint32_t>(to_f16x2(v[at] * factor, v[at + 2] * factor));
          }
          store_vec((group + mul_wide(step(n) * 2u + core, size * 8u)).as<uint32_t>(), words);
        }
      });
  }

  const HalfRows& s_;
  const uint32_t lanes_;  // of a row in a warp
  Builder<HalfRowsArgs> k_;
  U32 row_, cols_;
  U32 in_row_;               // this thread's number among those of the row
  std::vector<F32> weight_;  // where it is loaded early
  Pred real_;                // the row is there
};

}  // namespace

Kernel HalfRows::build() const {
  check_fields(*this);
  if (vec * held > 64) throw Error("half_rows: {} loads of {} values are more than 64 for a thread", held, vec);
  if (plus_one && !weight) throw Error("half_rows: plus_one is for a weight, but there is none");
  if (also_apart && (!apart || vec != 4))
    throw Error("half_rows: also_apart is for apart and vec = 4, found {}", field_text(*this));
  if (squares && (norm != rms || bias || gather))
    throw Error("half_rows: squares are for an rms norm without a bias and a list, found {}", field_text(*this));
  if (together > 1 && !apart) throw Error("half_rows: {} rows of a block are for apart", together);
  if (apart && held * vec % 16) throw Error("half_rows: {} loads of {} values are no whole steps of 16", held, vec);
  return Rows(*this).build();
}

Grid HalfRows::grid(const HalfRowsArgs& args) const {
  if (args.cols == 0 || args.cols % vec || args.x_stride % vec || args.x_stride < args.cols)
    throw Error("half_rows: {} columns every {}, but with vec = {} both must be positive multiples of that", args.cols,
                args.x_stride, vec);
  if (args.ld % 64 || args.ld < args.cols)
    throw Error("half_rows: ld is {}, but it must be a multiple of 64 and at least {}", args.ld, args.cols);
  if (apart && (args.ld % 256 || args.group == 0 || args.group % 8))
    throw Error("half_rows: groups of {} rows of {} values, expected multiples of 8 and of 256", args.group, args.ld);
  if (also_apart) check_operand(name, args.ld, args.also_group);
  if (uint64_t(threads) / together * vec * held < args.ld)
    throw Error("half_rows: {} threads hold {} loads of {} values each, but ld is {}", threads / together, held, vec,
                args.ld);
  if (args.out.address % 16) throw Error("half_rows: out must be 16-byte aligned");
  if (args.x.address % (vec * 4) || (weight && args.weight.address % (vec * 4)) ||
      (bias && args.bias.address % (vec * 4)))
    throw Error("half_rows: x, weight and bias must be {}-byte aligned", vec * 4);
  return {.x = args.rows ? (args.rows - 1) / together + 1 : 1};  // an empty grid cannot be launched
}

U32 operand_quad(U32 row, U32 col, uint32_t apart, U32 group, U32 ld) {
  U32 in = col % (2 * apart), piece = col / (2 * apart) * (apart / 16) + in % apart / 16u;
  U32 step = piece / 4u * 8u + in / apart * 4u + in % 16u / 4u, in_group = row & (group - 1u);
  return (row - in_group) * ld + (step * 2u * group + in_group) * 8u + piece % 4u * 2u;
}

U32 operand_value(U32 row, U32 col, uint32_t apart, U32 group, U32 ld) {
  return operand_quad(row, col & ~3u, apart, group, ld) + (col & 1u) * group * 8u + (col >> 1u & 1u);
}

void check_operand(std::string_view name, uint32_t cols, uint32_t group) {
  if (cols % 256 || group % 8 || !std::has_single_bit(group))
    throw Error("{}: rows of {} values of f16 in groups of {}, expected a multiple of 256 and a power of two from 8 on",
                name, cols, group);
}

HalfRows half_rows_choice(uint32_t cols, uint32_t x_stride, uint32_t ld, uint32_t together) {
  HalfRows spec;
  spec.together = together;
  spec.vec = 4;
  while (cols % spec.vec || x_stride % spec.vec) spec.vec /= 2;
  // 16 values per thread: 4 loads in flight, and 8 blocks of 256 threads on an SM for rows of 4096; several rows: 64
  const uint32_t values = together > 1 ? 64 : 16;
  spec.threads = std::clamp((ld * together / values + 31) / 32 * 32, 64u, 1024u);
  // whole steps of 16 values
  const uint32_t step = spec.threads / together * 16;
  spec.held = std::max(1u, (ld + step - 1) / step) * 16 / spec.vec;
  if (spec.held * spec.vec > 64 || spec.held > 32)
    throw Error("half_rows: rows of {} are too long with vec = {}", ld, spec.vec);
  return spec;
}

uint32_t half_rows_together(uint32_t ld, uint32_t rows, uint32_t sms) {
  constexpr uint32_t most = 64 * 512;  // values of a block
  for (uint32_t n : {8u, 4u, 2u})
    if (n * ld <= most && n * sms <= rows) return n;
  return 1;
}

void add_half_rows_kernels(std::vector<Entry>& all) { all.push_back(entry<HalfRows>()); }

}  // namespace heddle::kernels
