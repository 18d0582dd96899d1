#include "kernels/product/group_ending.h"

#include <algorithm>

#include "kernels/attention/kv_cache.h"
#include "kernels/product/activations.h"
#include "kernels/product/product_io.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using EndingArgs = Product::Args;

constexpr uint32_t eights_at_once = 8;  // of vectors: 32 loads of a residual

F32 as_half(F32 value) { return within_f16(value * (1 / Product::f16_act)); }

}  // namespace

void GroupEnding::write(const GroupSums& acc, uint32_t columns, U32 row, U32 first, U32 end, U32 expert) {
  low_ = row + (k_.lane() >> 2u);
  first_ = first + (k_.lane() & 3u) * 2u;
  end_ = end;
  auto of_row = [&](Global<float> all, uint32_t half) {
    auto value = k_.var(0.0f);
    U32 own = low_ + 8 * half;
    k_.when(own < k_.arg(&EndingArgs::rows), [&] { value = load(all + own, {.nc = true}); });
    return value.get();
  };
  for (uint32_t half = 0; half < 2; ++half) {
    if (s_.bias) {
      auto bias = k_.arg(&EndingArgs::bias);
      bias_[half] = of_row(expert.rec ? bias + mul_wide(expert, k_.arg(&EndingArgs::rows)) : bias, half);
    }
    if (s_.next_apart) norm_[half] = of_row(k_.arg(&EndingArgs::next_norm), half);
  }
  for (uint32_t begin = 0; begin < columns / 8; begin += eights_at_once) {
    const uint32_t end_of_part = std::min(begin + eights_at_once, columns / 8);
    auto part = [&] {
      s_.out == Product::gate || s_.out == Product::qkv ? pairs(acc, begin, end_of_part) : add(acc, begin, end_of_part);
    };
    begin ? k_.when(first + begin * 8 < end, part) : part();
  }
}

GroupEnding::Four GroupEnding::scaled(const GroupSums& acc, uint32_t eight) {
  auto scales = load_vec<2>(scales_ + ((k_.lane() & 3u) * 2u + 8 * eight));
  Four four;
  for (uint32_t i = 0; i < 2; ++i) {
    four.low[i] = acc.get(eight * 4 + i) * scales[i];
    four.high[i] = acc.get(eight * 4 + 2 + i) * scales[i];
    if (!s_.bias) continue;
    four.low[i] = four.low[i] + bias_[0];
    four.high[i] = four.high[i] + bias_[1];
  }
  return four;
}

U64 GroupEnding::place(U32 vector, U32 row) { return mul_wide(k_.arg(&EndingArgs::y_stride), vector) + widen(row); }

void GroupEnding::store_at(U32 vector, U32 row, Pred here, F32 value) {
  k_.when(here, [&] {
    if (s_.y_apart) {
      U32 at = operand_value(vector, row, s_.y_apart, k_.arg(&EndingArgs::y_group), k_.arg(&EndingArgs::y_stride));
      return store(k_.arg(&EndingArgs::y).as<heddle::f16>() + at, to_f16(as_half(value)));
    }
    if (s_.y_bf16)
      store(k_.arg(&EndingArgs::y).as<bf16>() + place(vector, row), to_bf16(value));
    else
      store(k_.arg(&EndingArgs::y) + place(vector, row), value);
  });
}

// Columns c and c + 2 make a word, and are in lanes 16 apart: each of the two stores the word of one vector.
void GroupEnding::store_halves(uint32_t eight, U32 at, Pred here, const std::array<F32, 2>& values) {
  Pred second = (at & 2u) != 0u;
  F32 own = select(second, values[1], values[0]), other = shuffle_xor(select(second, values[0], values[1]), 16u);
  U32 of = vector(eight, 0) + select(second, k_.constant(1u), k_.constant(0u)), group = k_.arg(&EndingArgs::y_group);
  k_.when(here && of < end_, [&] {
    U32 place = operand_quad(of, at & ~3u, s_.y_apart, group, k_.arg(&EndingArgs::y_stride)) + (at & 1u) * group * 8u;
    auto word = to_f16x2(as_half(select(second, other, own)), as_half(select(second, own, other)));
    store((k_.arg(&EndingArgs::y).as<heddle::f16>() + place).as<uint32_t>(), bitcast<uint32_t>(word));
  });
}

void GroupEnding::each(uint32_t begin, uint32_t end, auto&& f) {
  for (uint32_t n = begin; n < end; ++n)
    for (uint32_t i = 0; i < 2; ++i) f(n, i);
}

void GroupEnding::add(const GroupSums& acc, uint32_t begin, uint32_t end) {
  U32 rows = k_.arg(&EndingArgs::rows);
  const std::array<U32, 2> own{low_, low_ + 8u};
  const std::array<Pred, 2> here{own[0] < rows, own[1] < rows};
  std::vector<F32> before;
  if (s_.out == Product::add)
    each(begin, end, [&](uint32_t n, uint32_t i) {
      for (uint32_t half = 0; half < 2; ++half) {
        auto value = k_.var(0.0f);
        k_.when(below_end(n, i) && here[half],
                [&] { value = load(k_.arg(&EndingArgs::residual) + place(vector(n, i), own[half])); });
        before.push_back(value.get());
      }
    });
  size_t at = 0;
  Four four;
  each(begin, end, [&](uint32_t n, uint32_t i) {
    if (i == 0) four = scaled(acc, n);
    std::array<F32, 2> values;
    for (uint32_t half = 0; half < 2; ++half) {
      F32 sum = half ? four.high[i] : four.low[i], &value = values[half];
      if (s_.out == Product::add)
        value = fma(sum, k_.arg(&EndingArgs::scale), before[at++]);
      else
        value = s_.out == Product::act ? activate(k_, s_.activation, sum) : sum * k_.arg(&EndingArgs::scale);
      store_at(vector(n, i), own[half], below_end(n, i) && here[half], value);
    }
    if (s_.next_apart) write_next(n, i, here, values);
  });
}

void GroupEnding::write_next(uint32_t eight, uint32_t i, const std::array<Pred, 2>& here,
                             const std::array<F32, 2>& values) {
  U32 of = vector(eight, i);
  F32 scale = load_scale(k_.arg(&EndingArgs::next_squares) + min(of, end_ - 1u));
  Pred there = below_end(eight, i);
  auto squares = k_.var(0.0f);
  for (uint32_t half = 0; half < 2; ++half)
    k_.when(there && here[half], [&] {
      F32 scaled = values[half] * scale;
      each_next(k_, s_, [&](Global<heddle::f16> x, uint32_t apart, U32 group) {
        U32 at = operand_value(of, low_ + 8 * half, apart, group, k_.arg(&EndingArgs::y_stride));
        store(x + at, to_f16(within_f16(scaled * norm_[half])));
      });
      squares.add_product(scaled, scaled);
    });
  // over the eight lanes with rows of the same vector
  F32 sum = squares.get();
  for (uint32_t lanes : {4u, 8u, 16u}) sum = sum + shuffle_xor(sum, lanes);
  auto row = k_.arg(&EndingArgs::next_squares) + of;
  k_.when(there && k_.lane() < 4u, [&] { add_squares(row, sum); });
}

// A pair of rows to turn: r and r + 2.
struct GroupEnding::Turn {
  U32 row;
  Pred here, is_q, is_k, turned;
  U32 head, first, second;  // where the pair belongs
  U64 frequency;
  std::vector<U32> positions, slots, pages;  // of this lane's vectors; slots: of the table
};

// Rows r and r + 2 are a pair, a gate and its up or two values that turn, in lanes 8 apart: the lower lane has that of
// row g, the upper one that of row g + 6.
void GroupEnding::pairs(const GroupSums& acc, uint32_t begin, uint32_t end) {
  Pred upper = (k_.lane() & 8u) != 0u;
  U32 row = select(upper, low_ + 6u, low_);
  Pred here = row < k_.arg(&EndingArgs::rows);
  Turn turn{.row = row, .here = here};
  if (s_.out == Product::qkv) {
    U32 q_rows = k_.arg(&EndingArgs::q_rows), k_rows = k_.arg(&EndingArgs::k_rows);
    turn.is_q = row < q_rows;
    turn.is_k = !turn.is_q && row < q_rows + k_rows;
    U32 local = select(turn.is_q, row, select(turn.is_k, row - q_rows, row - q_rows - k_rows));
    U32 size = select(turn.is_q || turn.is_k, k_.arg(&EndingArgs::head), k_.arg(&EndingArgs::value_head));
    turn.head = local / size;
    U32 in_head = local - turn.head * size, pair = (in_head >> 2u) * 2u + (in_head & 1u);
    turn.turned = (turn.is_q || turn.is_k) && in_head < k_.arg(&EndingArgs::rotary);
    U32 half = k_.arg(&EndingArgs::rotary) >> 1u;
    turn.first = select(turn.turned, s_.halves ? pair : pair * 2u, in_head);
    turn.second = select(turn.turned, s_.halves ? pair + half : pair * 2u + 1u, in_head + 2u);
    auto frequency = k_.var(uint64_t(0));
    k_.when(turn.turned && here, [&] { frequency = load(k_.arg(&EndingArgs::turns) + pair, {.nc = true}); });
    turn.frequency = frequency.get();
    // beyond the end the last vector's position and table are read, and not used
    auto known = [&](uint32_t n, uint32_t i) { return min(vector(n, i), end_ - 1u); };
    each(begin, end,
         [&](uint32_t n, uint32_t i) { turn.positions.push_back(load(k_.arg(&EndingArgs::positions) + known(n, i))); });
    Divider size_of_page(k_, k_.arg(&EndingArgs::page_size));
    if (s_.cache)
      each(begin, end, [&](uint32_t n, uint32_t i) {
        U32 sequence = known(n, i);
        if (s_.by_sequence) sequence = load(k_.arg(&EndingArgs::sequences) + sequence);
        auto table = k_.arg(&EndingArgs::table) + mul_wide(k_.arg(&EndingArgs::table_stride), sequence);
        turn.slots.push_back(size_of_page.divide(turn.positions[turn.slots.size()]));
        turn.pages.push_back(bitcast<uint32_t>(load(table + turn.slots.back())));
      });
  }
  U32 at = (row >> 2u) * 2u + (row & 1u);
  size_t number = 0;
  Four four;
  std::array<F32, 2> gated;
  each(begin, end, [&](uint32_t n, uint32_t i) {
    if (i == 0) four = scaled(acc, n);
    F32 other = shuffle_xor(select(upper, four.low[i], four.high[i]), 8u);
    F32 first = select(upper, other, four.low[i]), second = select(upper, four.high[i], other);
    if (s_.out == Product::gate) {
      gated[i] = gate_with(k_, s_.activation, first, second);
      if (!s_.y_apart) return store_at(vector(n, i), at, below_end(n, i) && here, gated[i]);
      return i ? store_halves(n, at, here, gated) : void();
    }
    turn_and_cache(turn, number++, vector(n, i), below_end(n, i), first, second);
  });
}

void GroupEnding::turn_and_cache(const Turn& turn, size_t number, U32 vector, Pred below_end, F32 first, F32 second) {
  auto [sin, cos] = sin_cos_of_turns(widen(turn.positions[number]) * turn.frequency);
  F32 m = k_.arg(&EndingArgs::magnitude);
  sin = select(turn.turned, sin * m, 0.0f);
  cos = select(turn.turned, cos * m, 1.0f);
  F32 a = select(turn.turned, fma(second, -sin, first * cos), first);
  F32 b = select(turn.turned, fma(first, sin, second * cos), second);
  U32 q_rows = k_.arg(&EndingArgs::q_rows), rows = k_.arg(&EndingArgs::rows), head = k_.arg(&EndingArgs::head);
  U32 size = select(turn.is_q || turn.is_k, head, k_.arg(&EndingArgs::value_head));
  Pred has_second = turn.row + 2u < rows;
  auto to_y = [&](U32 before) {
    auto y = k_.arg(&EndingArgs::y) + place(vector, before + turn.head * size);
    store(y + turn.first, a);
    k_.when(has_second, [&] { store(y + turn.second, b); });
  };
  k_.when(turn.here && below_end, [&] {
    if (!s_.cache) {
      U32 k_rows = k_.arg(&EndingArgs::k_rows);
      return to_y(select(turn.is_q, k_.constant(0u), select(turn.is_k, q_rows, q_rows + k_rows)));
    }
    k_.when_else(
        turn.is_q, [&] { to_y(k_.constant(0u)); },
        [&] {
          U32 positions = k_.arg(&EndingArgs::page_size);
          U32 in_page = turn.positions[number] - turn.slots[number] * positions;
          // rows of head 0, then of this one
          U64 at = widen(turn.pages[number]) * mul_wide(k_.arg(&EndingArgs::kv_heads), positions) + widen(in_page) +
                   mul_wide(turn.head, positions);
          U64 base = select(turn.is_k, k_.arg(&EndingArgs::k).address(), k_.arg(&EndingArgs::v).address());
          Global<heddle::f16> to{base + at * widen(size) * uint64_t(2)};
          store(to + turn.first, to_f16(within_f16(a)));
          k_.when(has_second, [&] { store(to + turn.second, to_f16(within_f16(b))); });
        });
  });
}

}  // namespace heddle::kernels
