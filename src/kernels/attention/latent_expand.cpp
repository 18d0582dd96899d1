// A product on the matrix units: 8 warps, 32 positions by 64 columns each. Latents and the matrix pass through shared
// memory 64 values at a time, the next ones while these are multiplied. Latents of q8 are fetched as bytes before that
// and become halves after it.
#include "kernels/attention/latent_expand.h"

#include "kernels/attention/kv_cache.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "ptx/matrix.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

using ExpandArgs = LatentExpand::Args;

class LatentExpansion {
 public:
  explicit LatentExpansion(const LatentExpand& spec)
      : s_(spec), k_(std::string(spec.name), {.threads = LatentExpand::threads, .min_blocks = 2}) {}

  Kernel build() {
    chain_start(k_, s_.chained);
    latents_ = k_.shared<uint8_t>(2 * latents_bytes, 128);
    matrix_ = k_.shared<uint8_t>(2 * matrix_bytes, 128);
    chain_wait(k_, s_.chained);
    positions_ = k_.arg(&ExpandArgs::positions);
    first_ = k_.block_id() * LatentExpand::tile;
    k_.when(first_ < positions_, [&] {
      pages_.emplace(k_, k_.arg(&ExpandArgs::sequence));
      head_ = k_.block_y() / s_.chunks();
      const U32 chunk = k_.block_y() - head_ * s_.chunks();
      for (uint32_t i = 0; i < own_rows; ++i)
        rows_.push_back(pages_->row(min(first_ + k_.thread() / 8u + i * 32, positions_ - 1u)));
      k_.when_else(
          chunk < s_.key_chunks(),
          [&] {
            column_ = chunk * LatentExpand::tile;
            multiply(true);
            k_.when(chunk == 0u, [&] { copy_rotated(); });
          },
          [&] {
            column_ = (chunk - s_.key_chunks()) * LatentExpand::tile;
            multiply(false);
          });
    });
    return k_.finish();
  }

 private:
  static constexpr uint32_t inner = 64;                  // values of a latent in a step
  static constexpr uint32_t row_bytes = inner * 2 + 16;  // padded, so that 8 rows lie in different banks
  static constexpr uint32_t wide_bytes = LatentExpand::tile * 2 + 16;
  static constexpr uint32_t latents_bytes = LatentExpand::tile * row_bytes;  // of a stage
  static constexpr uint32_t matrix_bytes = LatentExpand::tile * row_bytes;   // (tile, inner), or (inner, tile)
  static constexpr uint32_t own_rows = LatentExpand::tile / 32;              // that a thread copies a piece of
  static_assert(inner * wide_bytes <= matrix_bytes);
  bool q8() const { return s_.cache == kv_q8; }
  uint32_t head_size() const { return s_.rank + s_.rotated; }

  // 8 values of q8 and their scale; all 0 where there are none.
  struct Piece {
    U32 low, high;
    F16 scale;
  };
  Piece load_piece(U64 row, U32 first, Pred real) {
    auto low = k_.var(0u), high = k_.var(0u), scale = k_.var(0u);
    k_.when(real, [&] {
      const auto bytes = k_.arg(&ExpandArgs::cache).template as<uint8_t>() + row * uint64_t(head_size()) + first;
      const auto two = load_vec<2>(bytes.template as<uint32_t>());
      low = two[0];
      high = two[1];
      const auto scales = k_.arg(&ExpandArgs::scales) + row * uint64_t((head_size() + 31) / 32) + first / 32u;
      scale = to<uint32_t>(load(scales.template as<uint16_t>()));
    });
    return {low.get(), high.get(), unpack<heddle::f16>(scale.get())[0]};
  }

  // A thread has piece thread % 8 of every 32nd row. Positions and values that do not exist become zeros.
  Pred real_latent(uint32_t i, U32 at) { return first_ + k_.thread() / 8u + i * 32 < positions_ && at < s_.rank; }
  // Of a step.
  Shared<uint8_t> latents_at(U32 step) { return latents_ + (step & 1u) * latents_bytes; }
  Shared<uint8_t> matrix_at(U32 step) { return matrix_ + (step & 1u) * matrix_bytes; }
  U32 latent_value(U32 step) { return k_.thread() % 8u * 8u + step * inner; }
  Shared<uint8_t> latent_place(U32 step) {
    return latents_at(step) + (k_.thread() / 8u * row_bytes + k_.thread() % 8u * 16u);
  }
  void copy_latents(U32 step) {
    const U32 at = latent_value(step);
    const auto to = latent_place(step);
    for (uint32_t i = 0; i < own_rows; ++i) {
      const Pred real = real_latent(i, at);
      const auto from = k_.arg(&ExpandArgs::cache) + rows_[i] * uint64_t(head_size()) + select(real, at, 0u);
      copy_async<16>(to.offset(i * 32 * row_bytes), from, select(real, k_.constant(16u), 0u));
    }
  }
  std::vector<Piece> fetch_latents(U32 step) {
    const U32 at = latent_value(step);
    std::vector<Piece> pieces;
    for (uint32_t i = 0; i < own_rows; ++i) pieces.push_back(load_piece(rows_[i], at, real_latent(i, at)));
    return pieces;
  }
  void put_latents(const std::vector<Piece>& pieces, U32 step) {
    const auto to = latent_place(step);
    for (uint32_t i = 0; i < pieces.size(); ++i)
      store_vec(to.offset(i * 32 * row_bytes).as<uint32_t>(),
                scaled_halves(pieces[i].low, pieces[i].high, pieces[i].scale));
  }

  // Of k_up: `inner` rows of the latent's values by the columns of the key. Of v_up: the values by `inner` columns.
  void copy_matrix(bool of_keys, U32 step) {
    const uint32_t pieces = of_keys ? LatentExpand::tile / 8 : inner / 8, stride = of_keys ? wide_bytes : row_bytes;
    const U32 row = k_.thread() / pieces, at = k_.thread() % pieces * 8u;
    const uint32_t rows = LatentExpand::threads / pieces, all = of_keys ? inner : LatentExpand::tile;
    const auto matrix = of_keys ? k_.arg(&ExpandArgs::k_up) + mul_wide(head_ * s_.rank, s_.plain)
                                : k_.arg(&ExpandArgs::v_up) + mul_wide(head_ * s_.value, s_.rank);
    const auto to = matrix_at(step) + (row * stride + at * 2u);
    for (uint32_t i = 0; i < all; i += rows) {
      const U32 y = of_keys ? step * inner + row + i : column_ + row + i;
      const U32 x = of_keys ? column_ + at : step * inner + at;
      const Pred real = of_keys ? y < s_.rank && x < s_.plain : y < s_.value && x < s_.rank;
      const auto from = matrix + select(real, y * (of_keys ? s_.plain : s_.rank) + x, 0u);
      copy_async<16>(to.offset(i * stride), from, select(real, k_.constant(16u), 0u));
    }
  }

  void multiply(bool of_keys) {
    sums_.clear();
    for (uint32_t i = 0; i < 16; ++i) sums_.emplace_back(k_);
    const uint32_t steps = (s_.rank + inner - 1) / inner;
    auto copy = [&](U32 step) {
      copy_matrix(of_keys, step);
      if (!q8()) copy_latents(step);
    };
    copy(k_.constant(0u));
    copy_commit(k_);
    if (q8()) put_latents(fetch_latents(k_.constant(0u)), k_.constant(0u));
    k_.loop(0u, k_.constant(steps), 1u, [&](U32 step) {
      copy_wait(k_, 0);
      k_.barrier();  // this step is there, and all warps are done with the one before
      const U32 next = step + 1u;
      k_.when(next < steps, [&] { copy(next); });
      copy_commit(k_);
      std::vector<Piece> pieces;
      if (q8()) pieces = fetch_latents(next);  // past the end nothing is read
      multiply_step(of_keys, step);
      if (q8()) put_latents(pieces, next);
    });
    write(of_keys);
  }

  void multiply_step(bool of_keys, U32 step) {
    const U32 lane = k_.lane(), first_row = k_.warp() / 2u * 32u, first_column = k_.warp() % 2u * 64u;
    const auto left = latents_at(step) + ((first_row + lane % 16u) * row_bytes + lane / 16u * 16u);
    // lane 8 i + r names row r of matrix i: 16 values of the latent by 8 columns, then the next 8 columns
    const auto right =
        matrix_at(step) + (of_keys ? lane % 16u * wide_bytes + lane / 16u * 16u + first_column * 2u
                                   : (first_column + lane % 8u + lane / 16u * 8u) * row_bytes + lane / 8u % 2u * 16u);
    for (uint32_t d = 0; d < inner; d += 16) {
      std::vector<Tile<heddle::f16, 16, 16>> rows;
      for (uint32_t t = 0; t < 2; ++t) rows.push_back({load_matrices<4>(left.offset(t * 16 * row_bytes + d * 2))});
      for (uint32_t n = 0; n < 64; n += 16) {
        const auto b = of_keys ? load_matrices<4>(right.offset(d * wide_bytes + n * 2), true)
                               : load_matrices<4>(right.offset(n * row_bytes + d * 2));
        for (uint32_t t = 0; t < 2; ++t)
          for (uint32_t i = 0; i < 2; ++i)
            mma(sums_[t * 8 + n / 8 + i], rows[t], Tile<heddle::f16, 16, 8>{{b[i * 2], b[i * 2 + 1]}});
      }
    }
  }

  // Where a position of this head begins.
  Global<heddle::f16> place(bool of_keys, U32 position) {
    const U32 row = mad(head_, k_.arg(&ExpandArgs::stride), position);
    return of_keys ? k_.arg(&ExpandArgs::keys) + mul_wide(row, s_.plain + s_.rotated)
                   : k_.arg(&ExpandArgs::values) + mul_wide(row, s_.value);
  }
  void write(bool of_keys) {
    const U32 lane = k_.lane(), first_row = k_.warp() / 2u * 32u + lane / 4u;
    const U32 column = column_ + k_.warp() % 2u * 64u + lane % 4u * 2u;
    for (uint32_t t = 0; t < 2; ++t)
      for (uint32_t half = 0; half < 2; ++half) {
        const U32 position = first_ + first_row + (t * 16 + half * 8);
        k_.when(position < positions_, [&] {
          const auto to = place(of_keys, position) + column;
          for (uint32_t n = 0; n < 8; ++n)
            k_.when(column + n * 8 < (of_keys ? s_.plain : s_.value), [&] {
              const auto& sum = sums_[t * 8 + n];
              store(to.offset(n * 8).template as<uint32_t>(),
                    bitcast<uint32_t>(to_f16x2(within_f16(sum.get(half * 2)), within_f16(sum.get(half * 2 + 1)))));
            });
        });
      }
  }
  void copy_rotated() {
    const uint32_t pieces = s_.rotated / 8;
    k_.loop(k_.thread(), k_.constant(LatentExpand::tile * pieces), LatentExpand::threads, [&](U32 item) {
      const U32 row = item / pieces, at = (item - row * pieces) * 8u, position = first_ + row;
      k_.when(position < positions_, [&] {
        const U64 from = pages_->row(position);
        const auto to = (place(true, position) + (at + s_.plain)).template as<uint32_t>();
        if (q8()) {
          const Piece piece = load_piece(from, at + s_.rank, position < positions_);
          return store_vec(to, scaled_halves(piece.low, piece.high, piece.scale));
        }
        const auto cache = k_.arg(&ExpandArgs::cache) + from * uint64_t(head_size()) + (at + s_.rank);
        store_vec(to, load_vec<4>(cache.template as<uint32_t>()));
      });
    });
  }

  const LatentExpand& s_;
  Builder<ExpandArgs> k_;
  U32 positions_, first_;    // of the sequence; the block's first position
  U32 head_, column_;        // the block's first column, of those of the head's key or value
  std::vector<U64> rows_;    // of the cache: those that the thread copies
  Shared<uint8_t> latents_;  // (2, tile, row_bytes)
  Shared<uint8_t> matrix_;   // (2, matrix_bytes)
  std::optional<LatentPages<ExpandArgs>> pages_;
  std::vector<Acc<float, 16, 8>> sums_;
};

}  // namespace

Kernel LatentExpand::build() const {
  check_fields(*this);
  return LatentExpansion(*this).build();
}

Grid LatentExpand::grid(const Args& args) const {
  if (args.page_size == 0) throw Error("{}: pages of 0 positions", name);
  if (args.stride < args.positions)
    throw Error("{}: {} positions from head to head, but a sequence of {}", name, args.stride, args.positions);
  const uint64_t blocks = uint64_t(args.heads) * chunks();
  if (blocks == 0 || blocks > 65535) throw Error("{}: {} heads, 1 to {} expected", name, args.heads, 65535 / chunks());
  return {.x = std::max((args.positions + tile - 1) / tile, 1u), .y = uint32_t(blocks)};
}

void add_latent_expand_kernels(std::vector<Entry>& all) { all.push_back(entry<LatentExpand>()); }

}  // namespace heddle::kernels
