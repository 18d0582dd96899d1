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

// What the kernels of the matrix units share.

// The product that an ending is written for; `columns`: vectors that it takes at once.
template <class Spec>
Product ending_of(const Spec& s, uint32_t columns = 1) {
  Product like{.columns = columns,
               .out = s.out,
               .activation = s.activation,
               .y_bf16 = s.y_bf16,
               .bias = s.bias,
               .cache = s.cache,
               .halves = s.halves,
               .y_apart = s.y_apart,
               .next_apart = s.next_apart,
               .next_also = s.next_also};
  if constexpr (requires { s.by_sequence; }) like.by_sequence = s.by_sequence;
  return like;
}
// Throws an Error if what a spec computes cannot be.
template <class Spec>
void check_ending(const Spec& s) {
  if ((s.y_bf16 || s.y_apart) && s.out != Product::gate && s.out != Product::act)
    throw Error("{}: y_bf16 and y_apart are for act and gate", s.name);
  if (s.y_bf16 && s.y_apart) throw Error("{}: y is bf16, or f16 with y_apart, not both", s.name);
  if (s.next_apart && s.out != Product::add) throw Error("{}: next_apart is for add", s.name);
  if (s.next_also && !s.next_apart) throw Error("{}: next_also is for next_apart", s.name);
  if (s.experts && s.out != Product::store && s.out != Product::gate && s.out != Product::act)
    throw Error("{}: experts have no residual and no cache", s.name);
}
// The same for the arguments of a launch.
template <class Spec>
void check_matrix_args(const Spec& s, const Product::Args& args) {
  const uint32_t filled = s.slices * s.tile_cols;
  if (args.cols == 0 || args.cols > filled)
    throw Error("{}: {} columns, but {} slices of {} are {}", s.name, args.cols, s.slices, s.tile_cols, filled);
  for (uint64_t address : {args.w.address, args.x.address})
    if (address % 16) throw Error("{}: x and w must be 16-byte aligned, found {:#x}", s.name, address);
  if (args.first_rows > args.rows) throw Error("{}: rows from {} of {}", s.name, args.first_rows, args.rows);
  if (s.out == Product::gate && args.rows % 4)
    throw Error("{}: {} rows of gate and up, expected a multiple of 4", s.name, args.rows);
  if (s.y_apart) check_operand(s.name, args.y_stride, args.y_group);
  if (s.next_apart) check_operand(s.name, args.y_stride, args.next_group);
  if (s.next_also) check_operand(s.name, args.y_stride, args.next_also_group);
  if (s.out == Product::qkv && args.page_size == 0) throw Error("{}: pages of 0 positions", s.name);
  if (args.blocks == 0) throw Error("{}: a grid of 0 blocks", s.name);
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
  // The biases of the experts of the lane's next row, each times its factor, where it has one: these are added up.
  struct ExpertBias {
    ptx::U32 expert;
    ptx::F32 factor{};
  };
  void set_experts(std::vector<ExpertBias> experts) { experts_ = std::move(experts); }
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
  std::vector<ExpertBias> experts_;  // bias with experts
  std::vector<ptx::F32> before_;     // add: the residual of each vector
  std::vector<ptx::F32> written_;    // next_apart: of each vector
  ptx::Shared<float> next_scales_;
  ptx::F32 norm_;                    // the next norm's weight
  std::vector<ptx::F32> sin_, cos_;  // qkv: of each vector
  ptx::U32 head_, place_, second_;   // qkv: where the row belongs
  ptx::Pred is_q_, is_k_, turned_;
};

}  // namespace heddle::kernels
