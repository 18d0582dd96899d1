// The epilogues of a product. Rows that belong together are two lanes apart, so that one shuffle brings the partner.
#include "kernels/product/product_out.h"

#include "base/error.h"
#include "kernels/attention/kv_cache.h"

namespace heddle::kernels {

using namespace ptx;
using Args = Product::Args;

U64 ProductOut::start(U32 stride, uint32_t v) const {
  return vector_.rec ? mul_wide(stride, vector_) : mul_wide(stride, v);
}

ProductOut::ProductOut(Builder<Args>& k, const Product& spec, Global<float> y, U32 vector)
    : k_(k), s_(spec), y_(y), vector_(vector) {
  check(!vector.rec || spec.columns == 1, "one vector at a time");
  if (s_.out != Product::qkv) return;
  U32 size = k.arg(&Args::page_size);
  Divider pages(k, size);
  for (uint32_t v = 0; v < s_.columns; ++v) {
    U32 position =
        vector.rec ? ptx::load(k.arg(&Args::positions) + vector) : ptx::load(k.arg(&Args::positions).offset(v));
    positions_.push_back(position);
    if (!s_.cache) continue;
    U32 slot = pages.divide(position), in_page = position - slot * size;
    auto table = k.arg(&Args::table) + start(k.arg(&Args::table_stride), v);
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
    k_.when(row < k_.arg(&Args::rows), [&] { bias = ptx::load(k_.arg(&Args::bias) + row, {.nc = true}); });
    bias_ = bias.get();
  }
  before_.clear();
  if (s_.out == Product::add)
    for (uint32_t v = 0; v < s_.columns; ++v) {
      auto value = k_.var(0.0f);
      k_.when(mine,
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
    return k_.when(mine_, [&] { ptx::store(y_ + (start(k_.arg(&Args::y_stride), v) + widen(at)), turned); });
  }
  k_.when(mine_, [&] {
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

void ProductOut::write(uint32_t v, F32 sum) {
  if (s_.bias) sum = sum + bias_;
  if (s_.out == Product::qkv) return rotate_and_cache(v, sum);
  auto put = [&](U32 at, Pred here, F32 value) {
    k_.when(here, [&] {
      U64 place = start(k_.arg(&Args::y_stride), v) + widen(at);
      if (s_.y_bf16)
        ptx::store(y_.as<bf16>() + place, to_bf16(value));
      else
        ptx::store(y_ + place, value);
    });
  };
  switch (s_.out) {
    case Product::store:
      return put(row_, mine_, sum * k_.arg(&Args::scale));
    case Product::add:
      return put(row_, mine_, fma(sum, k_.arg(&Args::scale), before_[v]));
    case Product::act:
      return put(row_, mine_, activate(s_.activation, sum));
    default: {  // gate
      F32 up = shuffle_xor(sum, 2u);
      put((row_ >> 2u) * 2u + (row_ & 1u), mine_ && (row_ & 2u) == 0u, activate(s_.activation, sum) * up);
    }
  }
}

}  // namespace heddle::kernels
