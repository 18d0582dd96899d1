// The two ends of a product: how x enters it, and the epilogue that writes its sums.
#pragma once
#include "kernels/product/activations.h"
#include "kernels/product/product.h"
#include "kernels/product/tile.h"

namespace heddle::kernels {

// How x enters a product: read by the whole block, normalised, and kept in shared memory as int8 or f32, from which
// each computing warp takes its slices.

class ProductX {
 public:
  ProductX(ptx::Builder<Product::Args>& k, const Product& spec);

  // Loads the weights of the norm, which do not depend on other kernels.
  void before_wait();
  // Starts loading x, as far as registers suffice, after the wait. `from`: the first vector.
  void request(ptx::Global<uint8_t> from);
  // By all threads of the block, after request(). Ends with a barrier.
  void bring(ptx::Global<uint8_t> from);
  // The factor that is left to apply to the products of each vector: an rms norm's factor is known only when all of x
  // has been read, so it is applied last. Empty without an rms norm.
  std::vector<ptx::F32> factors() const;

  // This lane's values of a slice, for every vector.
  std::vector<TilePiece::Q8> integers(const TilePiece& piece, ptx::U32 slice) const;
  std::vector<TilePiece::Floats> floats(const TilePiece& piece, ptx::U32 slice) const;

 private:
  std::vector<ptx::F32> load(ptx::Global<uint8_t> from, uint32_t column, uint32_t round) const;
  std::vector<ptx::F32> weight(ptx::Global<float> from, uint32_t round) const;
  std::vector<ptx::F32> totals(uint32_t turn) const;  // of the warps' sums, for every vector
  ptx::U32 item(uint32_t round) const;
  void keep(const std::vector<ptx::F32>& v, uint32_t column, uint32_t round);

  ptx::Builder<Product::Args>& k_;
  const Product& s_;
  uint32_t per_, rounds_;  // values of a thread in a round
  ptx::U32 cols_;
  ptx::Shared<uint8_t> quants_;                           // (columns, filled_cols) int8
  ptx::Shared<float> pairs_;                              // (columns, filled_cols / 16) of {d, d * sum}
  ptx::Shared<float> floats_;                             // (columns, filled_cols / 32 * 36)
  ptx::Shared<float> sums_;                               // (columns, warps), twice
  std::vector<std::vector<ptx::F32>> early_;              // the norm's weight of each round
  std::vector<std::vector<std::vector<ptx::F32>>> held_;  // what was requested: of each vector and round
};

// The forms in which the kernels of the matrix units write y. Both throw an Error if a spec, or its arguments, cannot
// be.
template <class Spec>
void check_forms_of_y(std::string_view name, const Spec& s) {
  if ((s.y_bf16 || s.y_apart) && s.out != Product::gate && s.out != Product::act)
    throw Error("{}: y_bf16 and y_apart are for act and gate", name);
  if (s.y_bf16 && s.y_apart) throw Error("{}: y is bf16, or f16 with y_apart, not both", name);
  if (s.next_apart && s.out != Product::add) throw Error("{}: next_apart is for add", name);
  if (s.next_also && !s.next_apart) throw Error("{}: next_also is for next_apart", name);
}
template <class Spec>
void check_rows_of_f16(std::string_view name, const Spec& s, const Product::Args& args) {
  if (s.y_apart) check_operand(name, args.y_stride, args.y_group);
  if (s.next_apart) check_operand(name, args.y_stride, args.next_group);
  if (s.next_also) check_operand(name, args.y_stride, args.next_also_group);
}

// Late norms (see late_norm.h), for kernels of the matrix units.

// What the sums of a vector are multiplied with: its factor in `scales`, or that of its norm. `first`: here the scale
// of the vector at the next norm is stored.
ptx::F32 vector_factor(ptx::Builder<Product::Args>& k, bool late_norm, ptx::U32 vector, ptx::Pred first);
// next_apart: calls f(x, apart, group) for each order of rows in which the next products take them.
void each_next(ptx::Builder<Product::Args>& k, const Product& spec, auto&& f) {
  using Args = Product::Args;
  f(k.arg(&Args::next_x), spec.next_apart, ptx::U32(k.arg(&Args::next_group)));
  if (spec.next_also) f(k.arg(&Args::next_also), spec.next_also, ptx::U32(k.arg(&Args::next_also_group)));
}

// The epilogue of a product, done by its finishing warp for the sums of a unit: one row per lane; with 16 rows both
// halves of the warp do the same.

class ProductOut {
 public:
  // To be created after the wait: reads positions and tables. `y`: that of vector 0. With `vector` the vectors from
  // that one on are written, as far as they are below `end`.
  ProductOut(ptx::Builder<Product::Args>& k, const Product& spec, ptx::Global<float> y, ptx::U32 vector = {},
             ptx::U32 end = {});

  // experts: the vector that the lane's next row belongs to, and its factor (weighted).
  void set_vector(ptx::U32 vector, ptx::F32 weight) {
    vector_ = vector;
    weight_ = weight;
  }
  // next_apart: the scales of the vectors, in shared memory.
  void set_next_scales(ptx::Shared<float> scales) { next_scales_ = scales; }
  // Loads what can be loaded before the sums are complete. `mine`: this lane has a row to write.
  void prepare(ptx::U32 row, ptx::Pred mine);
  // Writes the row's sum for vector v. All lanes must call it.
  void write(uint32_t v, ptx::F32 sum);

 private:
  void rotate_and_cache(uint32_t v, ptx::F32 sum);
  // next_apart: what was written, for the next product, and its squares.
  void write_next();
  void store_next(const std::vector<ptx::F32>& values);
  void add_next_squares(std::vector<ptx::F32> squares);
  // Where vector v begins, with `stride` from one vector to the next.
  ptx::U64 start(ptx::U32 stride, uint32_t v) const;
  ptx::Pred writes(uint32_t v) const;  // this lane has a row to write, and vector v is one of those to write

  ptx::Builder<Product::Args>& k_;
  const Product& s_;
  ptx::Global<float> y_;
  ptx::U32 vector_, end_;
  std::vector<ptx::U64> cache_k_, cache_v_;  // qkv: of each vector, its row in kv head 0
  std::vector<ptx::U32> positions_;
  ptx::U32 row_;
  ptx::Pred mine_;
  ptx::F32 bias_, weight_;
  std::vector<ptx::F32> before_;   // add: the residual of each vector
  std::vector<ptx::F32> written_;  // next_apart: of each vector
  ptx::Shared<float> next_scales_;
  ptx::F32 norm_;                    // the next norm's weight
  std::vector<ptx::F32> sin_, cos_;  // qkv: of each vector
  ptx::U32 head_, place_, second_;   // qkv: where the row belongs
  ptx::Pred is_q_, is_k_, turned_;
};

}  // namespace heddle::kernels
