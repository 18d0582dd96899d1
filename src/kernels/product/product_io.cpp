// How x enters a product, and its epilogues.
#include "kernels/product/product_io.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/attention/kv_cache.h"
#include "kernels/product/activations.h"

namespace heddle::kernels {

using namespace ptx;

// Each thread takes 16 bytes of x in a round; the lanes that share a run of 16 values find its scale by shuffles.

namespace {

// 1.5 * 2^23: added to a float of small magnitude it leaves the nearest integer in the low bits.
constexpr float above = 0x1.8p23f;
constexpr uint32_t max_held = 32;  // registers for values that were read ahead

// Where value v of a vector of floats lies: each 32 are followed by 4 of padding, against bank conflicts.
U32 spread(U32 v) { return v + (v >> 5u) * 4u; }

}  // namespace

uint32_t Product::x_bytes() const {
  const uint32_t sums = columns * warps() * 2 * 4;
  return (exact ? filled_cols() / 32 * 36 * 4 : filled_cols() * 3 / 2) * columns + (norm ? sums : 0);
}

ProductX::ProductX(Builder<Product::Args>& k, const Product& spec)
    : k_(k), s_(spec), per_(spec.x == Product::x_bf16 ? 8 : 4) {
  const uint32_t items = s_.filled_cols() / per_;
  rounds_ = (items + k.threads() - 1) / k.threads();
  cols_ = k.arg(&Product::Args::cols);
  if (s_.exact) {
    floats_ = k.shared<float>(s_.columns * (s_.filled_cols() / 32 * 36), 128);
  } else {
    quants_ = k.shared<uint8_t>(s_.columns * s_.filled_cols(), 128);
    pairs_ = k.shared<float>(s_.columns * (s_.filled_cols() / 8), 16);
  }
  if (s_.norm) sums_ = k.shared<float>(2 * s_.columns * s_.warps());
}

U32 ProductX::item(uint32_t round) const { return k_.thread() + round * k_.threads(); }

// Without a branch, so that all loads of a thread can be in flight at once: past the last column the first is read, and
// counts as 0.
std::vector<F32> ProductX::load(Global<uint8_t> from, uint32_t column, uint32_t round) const {
  const bool bf16 = s_.x == Product::x_bf16;
  U32 first = item(round) * per_, of_vector = k_.constant(column);
  Pred there;
  if (s_.summed) {  // a vector per expert, each filled up to whole slices
    const uint32_t filled = s_.expert_slices() * s_.tile_cols;
    there = first < s_.filled_cols();
    of_vector = select(there, first / filled, 0u);
    first = first - of_vector * filled;
  }
  Pred inside = s_.summed ? there && first < cols_ : first < cols_;
  U32 at = select(inside, first, k_.constant(0u));
  auto row = from + mul_wide(k_.arg(&Product::Args::x_stride), of_vector * (bf16 ? 2u : 4u));
  std::vector<F32> values;
  if (bf16) {
    for (U32 word : load_vec<4>((row + at * 2u).as<uint32_t>())) {
      values.push_back(bitcast<float>(word << 16u));
      values.push_back(bitcast<float>(word & 0xffff0000u));
    }
  } else {
    for (F32 v : load_vec<4>(row.as<float>() + at)) values.push_back(v);
  }
  for (F32& v : values) v = select(inside, v, 0.0f);
  return values;
}

// Zeros past the last column, so that the normalised padding becomes 0 too.
std::vector<F32> ProductX::weight(Global<float> from, uint32_t round) const {
  U32 first = item(round) * per_;
  Pred inside = first < cols_;
  U32 at = select(inside, first, k_.constant(0u));
  std::vector<F32> values;
  for (uint32_t i = 0; i < per_; i += 4)
    for (F32 v : load_vec<4>(from + (at + i), {.nc = true})) values.push_back(select(inside, v, 0.0f));
  return values;
}

void ProductX::before_wait() {
  if (!s_.norm || rounds_ * per_ > 16) return;
  for (uint32_t r = 0; r < rounds_; ++r) early_.push_back(weight(k_.arg(&Product::Args::norm), r));
}

// All loads first, if the registers suffice.
void ProductX::request(Global<uint8_t> from) {
  if (rounds_ * per_ * s_.columns > max_held) return;
  held_.resize(s_.columns);
  for (uint32_t c = 0; c < s_.columns; ++c)
    for (uint32_t r = 0; r < rounds_; ++r) held_[c].push_back(load(from, c, r));
}

void ProductX::bring(Global<uint8_t> from) {
  const bool layer = s_.norm == Product::layer;
  const uint32_t warps = s_.warps();
  auto values = [&](uint32_t c, uint32_t r) {
    if (held_.empty()) return load(from, c, r);
    return held_[c][r];
  };
  auto put = [&](uint32_t turn, uint32_t c, F32 mine) {
    F32 total = warp_sum(mine);
    k_.when(k_.lane() == 0u, [&] { store(sums_ + k_.warp() + (turn * s_.columns + c) * warps, total); });
  };
  std::vector<F32> mean, factor;
  if (layer) {
    // the sums of of(value) over each vector
    auto sums = [&](uint32_t turn, auto&& of) {
      for (uint32_t c = 0; c < s_.columns; ++c) {
        auto sum = k_.var(0.0f);
        for (uint32_t r = 0; r < rounds_; ++r) {
          const std::vector<F32> v = values(c, r);
          for (uint32_t i = 0; i < per_; ++i) of(sum, v[i], c, item(r) * per_ + i);
        }
        put(turn, c, sum.get());
      }
      k_.barrier();
      return totals(turn);
    };
    F32 count = to_f32(cols_);
    mean = sums(0, [](Var<float>& sum, F32 v, uint32_t, U32) { sum += v; });
    for (F32& m : mean) m = m / count;
    factor = sums(1, [&](Var<float>& sum, F32 v, uint32_t c, U32 at) {
      F32 d = select(at < cols_, v - mean[c], 0.0f);
      sum.add_product(d, d);
    });
    for (F32& f : factor) f = rsqrt_approx(f / count + k_.arg(&Product::Args::epsilon));
  }
  std::vector<Var<float>> squares;
  for (uint32_t c = 0; s_.norm == Product::rms && c < s_.columns; ++c) squares.push_back(k_.var(0.0f));
  for (uint32_t r = 0; r < rounds_; ++r) {
    std::vector<F32> w, b;
    if (s_.norm) w = early_.empty() ? weight(k_.arg(&Product::Args::norm), r) : early_[r];
    if (layer) b = weight(k_.arg(&Product::Args::shift), r);
    for (uint32_t c = 0; c < s_.columns; ++c) {
      std::vector<F32> v = values(c, r);
      for (uint32_t i = 0; s_.norm && i < per_; ++i) {
        if (!layer) squares[c].add_product(v[i], v[i]);
        v[i] = layer ? fma((v[i] - mean[c]) * factor[c], w[i], b[i]) : v[i] * w[i];
      }
      keep(v, c, r);
    }
  }
  for (uint32_t c = 0; c < squares.size(); ++c) put(0, c, squares[c].get());
  k_.barrier();
}

std::vector<F32> ProductX::totals(uint32_t turn) const {
  std::vector<F32> all;
  for (uint32_t c = 0; c < s_.columns; ++c) {
    auto at = sums_.offset((turn * s_.columns + c) * s_.warps());
    F32 sum = ptx::load(at);
    for (uint32_t w = 1; w < s_.warps(); ++w) sum = sum + ptx::load(at.offset(w));
    all.push_back(sum);
  }
  return all;
}

std::vector<F32> ProductX::factors() const {
  if (s_.norm != Product::rms) return {};
  std::vector<F32> all = totals(0);
  for (F32& f : all) f = rsqrt_approx(f / to_f32(cols_) + k_.arg(&Product::Args::epsilon));
  return all;
}

void ProductX::keep(const std::vector<F32>& v, uint32_t column, uint32_t round) {
  U32 at = item(round);
  const bool whole = s_.filled_cols() / per_ % k_.threads() == 0;
  auto guarded = [&](auto&& body) {
    if (whole || round + 1 < rounds_)
      body();
    else
      k_.when(at < s_.filled_cols() / per_, body);
  };
  if (s_.exact) {
    guarded([&] {
      for (uint32_t i = 0; i < per_; i += 4)
        store_vec((floats_ + spread(at * per_ + i)).offset(column * (s_.filled_cols() / 32 * 36)),
                  Vec<float, 4>{v[i], v[i + 1], v[i + 2], v[i + 3]});
    });
    return;
  }
  const uint32_t lanes = 16 / per_;  // that share a run
  F32 largest = abs(v[0]);
  for (uint32_t i = 1; i < per_; ++i) largest = max(largest, abs(v[i]));
  largest = warp_max(largest, lanes);
  // below that the inverse would overflow; such a run counts as zeros
  F32 inverse = select(largest > 0x1p-100f, rcp_approx(largest) * 127.0f, 0.0f);
  std::vector<U32> words;
  S32 sum = k_.constant(int32_t(0));
  for (uint32_t i = 0; i < per_; i += 4) {
    std::array<U32, 4> q;
    for (uint32_t j = 0; j < 4; ++j) q[j] = bitcast<uint32_t>(fma(v[i + j], inverse, above));
    words.push_back(permute_bytes(permute_bytes(q[0], q[1], 0x0040u), permute_bytes(q[2], q[3], 0x0040u), 0x5410u));
    sum = dp4a<int8_t, int8_t>(words.back(), 0x01010101u, sum);
  }
  sum = warp_sum(sum, lanes);
  F32 d = largest * (1.0f / 127.0f);
  guarded([&] {
    auto to = (quants_ + at * per_).offset(column * s_.filled_cols()).as<uint32_t>();
    if (per_ == 8)
      store_vec(to, Vec<uint32_t, 2>{words[0], words[1]});
    else
      store(to, words[0]);
    k_.when((at & (lanes - 1)) == 0u, [&] {
      store_vec((pairs_ + at / lanes * 2u).offset(column * (s_.filled_cols() / 8)), Vec<float, 2>{d, d * to_f32(sum)});
    });
  });
}

std::vector<TilePiece::Q8> ProductX::integers(const TilePiece& piece, U32 slice) const {
  std::vector<TilePiece::Q8> all(s_.columns);
  for (uint32_t c = 0; c < s_.columns; ++c)
    for (uint32_t i = 0; i < 2; ++i) {
      U32 at = slice * s_.tile_cols + piece.run(i);
      all[c].q[i] = load_vec<4>((quants_ + at).offset(c * s_.filled_cols()).as<uint32_t>());
      auto pair = load_vec<2>((pairs_ + (at >> 4u) * 2u).offset(c * (s_.filled_cols() / 8)));
      all[c].d[i] = pair[0];
      all[c].sum[i] = pair[1];
    }
  return all;
}

std::vector<TilePiece::Floats> ProductX::floats(const TilePiece& piece, U32 slice) const {
  std::vector<TilePiece::Floats> all(s_.columns);
  for (uint32_t c = 0; c < s_.columns; ++c)
    for (uint32_t i = 0; i < 2; ++i) {
      auto at = floats_ + spread(slice * s_.tile_cols + piece.run(i));
      for (uint32_t j = 0; j < 16; j += 4)
        for (F32 f : load_vec<4>(at.offset(c * (s_.filled_cols() / 32 * 36) + j))) all[c].v.push_back(f);
    }
  return all;
}

// --- late norms -----------------------------------------------------------------------------------------------------
F32 vector_factor(Builder<Product::Args>& k, bool late_norm, U32 vector, Pred first) {
  using Args = Product::Args;
  if (!late_norm) return load(k.arg(&Args::scales) + vector);
  const LateRow row(k.arg(&Args::squares) + vector, k.arg(&Args::cols));
  F32 mean_square = row.mean_square + k.arg(&Args::epsilon);
  k.when(first, [&] { store_scale(k.arg(&Args::next_squares) + vector, mean_square); });
  return rsqrt_approx(mean_square) * row.inverse;
}

// The epilogues of a product. Rows that belong together are two lanes apart, so that one shuffle brings the partner.

using Args = Product::Args;

U64 ProductOut::start(U32 stride, uint32_t v) const {
  return vector_.rec ? mul_wide(stride, v ? vector_ + v : vector_) : mul_wide(stride, v);
}

Pred ProductOut::writes(uint32_t v) const { return end_.rec ? mine_ && vector_ + v < end_ : mine_; }

ProductOut::ProductOut(Builder<Args>& k, const Product& spec, Global<float> y, U32 vector, U32 end)
    : k_(k), s_(spec), y_(y), vector_(vector), end_(end) {
  check(spec.columns == 1 || bool(vector.rec) == bool(end.rec), "vectors from a first one on have an end");
  if (s_.out != Product::qkv) return;
  U32 size = k.arg(&Args::page_size);
  Divider pages(k, size);
  for (uint32_t v = 0; v < s_.columns; ++v) {
    // beyond the end the last vector's position and table are read, and not used
    U32 at = !vector.rec ? k.constant(v) : end.rec ? min(vector + v, end - 1u) : vector;
    U32 position = ptx::load(k.arg(&Args::positions) + at);
    positions_.push_back(position);
    if (!s_.cache) continue;
    U32 slot = pages.divide(position), in_page = position - slot * size;
    auto sequence = k.var(at);
    if (s_.by_sequence) sequence = ptx::load(k.arg(&Args::sequences) + at);
    auto table = k.arg(&Args::table) + mul_wide(k.arg(&Args::table_stride), sequence.get());
    U64 page = widen(bitcast<uint32_t>(ptx::load(table + slot)));
    U64 first = page * mul_wide(k.arg(&Args::kv_heads), size) + widen(in_page);  // rows of head 0
    cache_k_.push_back(first * widen(k.arg(&Args::head)) * uint64_t(2) + k.arg(&Args::k).address());
    cache_v_.push_back(first * widen(k.arg(&Args::value_head)) * uint64_t(2) + k.arg(&Args::v).address());
  }
}

void ProductOut::prepare(U32 row, Pred mine) {
  row_ = row;
  mine_ = mine;
  if (s_.bias) {
    auto bias = k_.var(0.0f);
    k_.when(row < k_.arg(&Args::rows), [&] {
      if (experts_.empty()) bias = ptx::load(k_.arg(&Args::bias) + row, {.nc = true});
      for (const ExpertBias& one : experts_) {
        F32 of_expert =
            ptx::load(k_.arg(&Args::bias) + (mul_wide(one.expert, k_.arg(&Args::rows)) + widen(row)), {.nc = true});
        one.factor.rec ? bias.add_product(of_expert, one.factor) : bias += of_expert;
      }
    });
    bias_ = bias.get();
  }
  written_.clear();
  if (s_.next_apart) {
    auto norm = k_.var(0.0f);
    k_.when(mine, [&] { norm = ptx::load(k_.arg(&Args::next_norm) + row, {.nc = true}); });
    norm_ = norm.get();
  }
  before_.clear();
  if (s_.out == Product::add)
    for (uint32_t v = 0; v < s_.columns; ++v) {
      auto value = k_.var(0.0f);
      k_.when(writes(v),
              [&] { value = ptx::load(k_.arg(&Args::residual) + (start(k_.arg(&Args::y_stride), v) + widen(row))); });
      before_.push_back(value.get());
    }
  if (s_.out != Product::qkv) return;
  U32 q_rows = k_.arg(&Args::q_rows), k_rows = k_.arg(&Args::k_rows);
  is_q_ = row < q_rows;
  is_k_ = !is_q_ && row < q_rows + k_rows;
  U32 local = select(is_q_, row, select(is_k_, row - q_rows, row - q_rows - k_rows));
  U32 size = select(is_q_ || is_k_, k_.arg(&Args::head), k_.arg(&Args::value_head));
  head_ = local / size;
  U32 in_head = local - head_ * size;
  turned_ = (is_q_ || is_k_) && in_head < k_.arg(&Args::rotary);
  U32 pair = (in_head >> 2u) * 2u + (in_head & 1u);
  second_ = in_head >> 1u & 1u;
  U32 place = s_.halves ? pair + second_ * (k_.arg(&Args::rotary) >> 1u) : pair * 2u + second_;
  place_ = select(turned_, place, in_head);
  auto frequency = k_.var(uint64_t(0));
  k_.when(turned_ && row < k_.arg(&Args::rows),
          [&] { frequency = ptx::load(k_.arg(&Args::turns) + pair, {.nc = true}); });
  sin_.clear();
  cos_.clear();
  for (uint32_t v = 0; v < s_.columns; ++v) {
    auto [sin, cos] = sin_cos_of_turns(widen(positions_[v]) * frequency.get());
    F32 m = k_.arg(&Args::magnitude);
    sin_.push_back(select(turned_, sin * m, 0.0f));
    cos_.push_back(select(turned_, cos * m, 1.0f));
  }
}

void ProductOut::rotate_and_cache(uint32_t v, F32 sum) {
  F32 other = shuffle_xor(sum, 2u);
  // the first of a pair becomes a cos - b sin, the second b cos + a sin
  F32 signed_sin = select(second_ == 0u, -sin_[v], sin_[v]);
  F32 turned = select(turned_, fma(other, signed_sin, sum * cos_[v]), sum);
  if (!s_.cache) {
    U32 q_rows = k_.arg(&Args::q_rows), k_rows = k_.arg(&Args::k_rows);
    U32 before = select(is_q_, k_.constant(0u), select(is_k_, q_rows, q_rows + k_rows));
    U32 at = before + head_ * select(is_q_ || is_k_, k_.arg(&Args::head), k_.arg(&Args::value_head)) + place_;
    return k_.when(writes(v), [&] { ptx::store(y_ + (start(k_.arg(&Args::y_stride), v) + widen(at)), turned); });
  }
  k_.when(writes(v), [&] {
    k_.when_else(
        is_q_,
        [&] {
          U32 at = head_ * k_.arg(&Args::head) + place_;
          ptx::store(y_ + (start(k_.arg(&Args::y_stride), v) + widen(at)), turned);
        },
        [&] {
          U32 size = select(is_k_, k_.arg(&Args::head), k_.arg(&Args::value_head));
          U64 row = select(is_k_, cache_k_[v], cache_v_[v]);
          Global<heddle::f16> to{row + mul_wide(head_ * k_.arg(&Args::page_size), size * 2u)};
          ptx::store(to + place_, to_f16(within_f16(turned)));
        });
  });
}

void ProductOut::write_next() {
  std::vector<F32> values, squares;
  for (uint32_t v = 0; v < s_.columns; ++v) {
    F32 scaled = select(writes(v), written_[v] * ptx::load(next_scales_.offset(v)), 0.0f);
    values.push_back(within_f16(scaled * norm_));
    squares.push_back(scaled * scaled);
  }
  store_next(values);
  add_next_squares(std::move(squares));
}

// Columns c and c + 2 make a word, and are in lanes 2 apart: each of the two stores the word of one of two vectors.
void ProductOut::store_next(const std::vector<F32>& values) {
  check(s_.columns == 1 || s_.columns % 2 == 0, "one vector, or pairs of them");
  Pred second = (row_ & 2u) != 0u;
  U32 one = select(second, k_.constant(1u), k_.constant(0u)), ld = k_.arg(&Args::y_stride);
  each_next(k_, s_, [&](Global<heddle::f16> x, uint32_t apart, U32 group) {
    // eight vectors from a multiple of eight on are in one group
    auto quad = x + (operand_quad(vector_, row_ & ~3u, apart, group, ld) + (row_ & 1u) * group * 8u);
    for (uint32_t v = 0; v < s_.columns; v += 2) {
      if (s_.columns == 1) {
        k_.when(writes(v), [&] { ptx::store(quad + one, to_f16(values[v])); });
        continue;
      }
      F32 own = select(second, values[v + 1], values[v]);
      F32 other = shuffle_xor(select(second, values[v], values[v + 1]), 2u);
      auto word = to_f16x2(select(second, other, own), select(second, own, other));
      k_.when(mine_ && vector_ + v + one < end_,
              [&] { ptx::store((quad + (one + v) * 8u).template as<uint32_t>(), bitcast<uint32_t>(word)); });
    }
  });
}

// Over the rows of the warp. Of eight vectors, half of the lanes take half in each of three steps.
void ProductOut::add_next_squares(std::vector<F32> squares) {
  U32 vector = vector_, lane = k_.lane();
  for (uint32_t apart = 16; apart > 0; apart /= 2) {
    const size_t half = squares.size() / 2;
    Pred upper = (lane & apart) != 0u;
    for (size_t i = 0; i < half; ++i)
      squares[i] = select(upper, squares[i + half], squares[i]) +
                   shuffle_xor(select(upper, squares[i], squares[i + half]), apart);
    if (half == 0) squares[0] = squares[0] + shuffle_xor(squares[0], apart);
    vector = half ? vector + select(upper, k_.constant(uint32_t(half)), k_.constant(0u)) : vector;
    squares.resize(std::max<size_t>(half, 1));
  }
  const uint32_t lanes = 32 / s_.columns;  // with the same sum
  Pred first = (lane & (lanes - 1)) == 0u;
  k_.when(end_.rec ? first && vector < end_ : first,
          [&] { add_squares(k_.arg(&Args::next_squares) + vector, squares[0]); });
}

void ProductOut::write(uint32_t v, F32 sum) {
  if (s_.weighted == Product::weighted_input) sum = sum * weight_;
  if (s_.bias) sum = sum + bias_;
  if (s_.out == Product::qkv) return rotate_and_cache(v, sum);
  auto weighed = [&](F32 value) {
    return s_.weighted == Product::weighted_result && !s_.summed ? value * weight_ : value;
  };
  auto put = [&](U32 at, Pred here, F32 value) {
    k_.when(here, [&] {
      if (s_.y_apart) {
        U32 place = operand_value(vector_ + v, at, s_.y_apart, k_.arg(&Args::y_group), k_.arg(&Args::y_stride));
        return ptx::store(y_.as<heddle::f16>() + place, to_f16(within_f16(value * (1 / Product::f16_act))));
      }
      U64 place = start(k_.arg(&Args::y_stride), v) + widen(at);
      if (s_.y_bf16)
        ptx::store(y_.as<bf16>() + place, to_bf16(value));
      else
        ptx::store(y_ + place, value);
    });
  };
  switch (s_.out) {
    case Product::store:
      return put(row_, writes(v), weighed(sum * k_.arg(&Args::scale)));
    case Product::add: {
      F32 value = fma(sum, k_.arg(&Args::scale), before_[v]);
      put(row_, writes(v), value);
      if (!s_.next_apart) return;
      written_.push_back(value);
      return v + 1 == s_.columns ? write_next() : void();
    }
    case Product::act:
      return put(row_, writes(v), weighed(activate(k_, s_.activation, sum)));
    default: {  // gate
      F32 up = shuffle_xor(sum, 2u);
      put((row_ >> 2u) * 2u + (row_ & 1u), writes(v) && (row_ & 2u) == 0u,
          weighed(gate_with(k_, s_.activation, sum, up)));
    }
  }
}

}  // namespace heddle::kernels
