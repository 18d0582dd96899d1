// Tiles: the layout of weights that GPU kernels read, whatever their format.
//
// A tile is 4096 values: 4, 8 or 16 rows x 1024, 512 or 256 columns. A matrix is padded with zeros to whole tiles;
// tile (tile_row, slice) lies at (tile_row * slices + slice) * tile_bytes(format). A tile is strips of 128 columns one
// after the other (256 or 512 where a block has more values or fewer columns would not be a multiple of 16 bytes), so
// that kernels can copy a strip of many rows at once. Inside a strip each field of the format's blocks (scales, quants,
// ...) is a plane of its own, in the order row, block within the row: all but the small fields can be read 16 bytes at
// a time, and no byte is added to what the file has. f32, f16 and bf16 count as blocks of 32 values with fields of 16
// bytes.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/format/block_format.h"
#include "quant/format.h"

namespace heddle::kernels {

inline constexpr uint32_t tile_values = 4096;
uint32_t tile_bytes(quant::Format format);  // a multiple of 16. Throws an Error for what is not among known_formats.

struct TileStrip {
  uint32_t rows, cols;
  uint32_t across;  // blocks of a row
  uint32_t bytes;   // a multiple of 16
  uint32_t blocks() const { return rows * across; }
};
TileStrip tile_strip(quant::Format format, uint32_t tile_cols);

// A field of a block: where it lies in the block as the file has it, and in a strip.
struct TilePlane {
  uint32_t from, bytes;  // of a block
  uint32_t at;           // where the plane begins in a strip
};
std::vector<TilePlane> tile_planes(quant::Format format, uint32_t tile_cols);  // in the order of the file
uint32_t tile_block_values(quant::Format format);                              // 32 for floats
uint32_t tile_block_bytes(quant::Format format);
uint32_t tile_apart(quant::Format format);  // BlockFormat::apart; 16 for floats
// Shared memory that TilePiece::codebook takes.
uint32_t codebook_bytes(quant::Format format);

struct TileShape {
  quant::Format format;
  uint32_t rows, cols, tile_cols;

  uint32_t tile_rows() const { return tile_values / tile_cols; }
  uint32_t row_tiles() const { return rows / tile_rows() + (rows % tile_rows() != 0); }
  uint32_t slices() const { return cols / tile_cols + (cols % tile_cols != 0); }
  uint64_t bytes() const { return uint64_t(row_tiles()) * slices() * tile_bytes(format); }
};
// The widest of 1024, 512 and 256 with 3 % of padding or less (8960 columns become 9216), else the one with the least
// padding.
uint32_t tile_cols_for(uint32_t cols);

// How a warp reads a tile: in each of four steps the 32 lanes cover 1024 / tile_cols rows, and each lane has 32 values
// of its row as two runs of 16. BlockFormat decodes them; this file knows where their words lie in the tile.

template <ptx::Space S>
class BlockInTile;

class TilePiece {
 public:
  // `lane` may also be the number of a piece in the tile, 0 to 127, which are in the order of the rows: then step 0
  // is that piece. `book`: from codebook() below, or empty.
  TilePiece(ptx::Code& k, quant::Format format, uint32_t tile_cols, ptx::U32 lane, Codebook book = {});
  // Piece `piece` of row `row` of a strip by itself. For raw and halves.
  static TilePiece in_strip(ptx::Code& k, quant::Format format, uint32_t tile_cols, ptx::U32 row, ptx::U32 piece,
                            Codebook book);
  // Copies the codebook of a format that has one (iq1_s to iq3_s) to shared memory, by all threads of the block:
  // lookups there are about five times as fast as in constant memory, which is used without it. A barrier of the block
  // must follow before the first dot or values. Does nothing for other formats.
  static Codebook codebook(ptx::Code& k, quant::Format format);

  // This lane's row in step 0; in step s it is s * (1024 / tile_cols) more.
  ptx::U32 row_in_step() const;
  // Where in the slice's columns run i (0 or 1) begins: a multiple of 16.
  ptx::U32 run(uint32_t i) const;

  // A vector's values of this lane's two runs: int8, their scale, and the scale times their sum (blocks of 16).
  struct Q8 {
    std::array<ptx::Vec<uint32_t, 4>, 2> q;
    std::array<ptx::F32, 2> d, sum;
  };
  struct Floats {
    std::vector<ptx::F32> v;  // 32: run 0, then run 1
  };
  // This lane's share of the dot products of its row in this step, of the tile at w with every vector.
  std::vector<ptx::F32> dot(ptx::Shared<uint8_t> w, uint32_t step, const std::vector<Q8>& x) const;
  std::vector<ptx::F32> dot(ptx::Shared<uint8_t> w, uint32_t step, const std::vector<Floats>& x) const;
  static bool has_integer_dot(quant::Format format) { return !quant::is_float(format); }
  // The piece's words as they are in the tile, in global or shared memory.
  template <ptx::Space S>
  Raw raw(ptx::Ptr<uint8_t, S> w) const;
  // The 32 values times half_factor as f16, in the order of BlockFormat::halves. f32 and bf16 values are clamped to
  // +-65504, NaN stays NaN. For block formats scale, min and result are each rounded to f16, and a value beyond 4095
  // becomes infinite: a clamp would cost two instructions per word in the inner loop.
  std::vector<ptx::U32> halves(const Raw& raw) const;
  static float half_factor(quant::Format format) { return quant::is_float(format) ? 1 : 16; }
  // The 32 values as f32, run 0 then run 1, rounded as the format defines.
  std::vector<ptx::F32> values(ptx::Global<uint8_t> w, uint32_t step) const;

 private:
  TilePiece(ptx::Code& k, quant::Format format, uint32_t tile_cols, uint32_t row_cols, ptx::U32 row, ptx::U32 in_row,
            Codebook book);
  template <ptx::Space S>
  BlockInTile<S> block_in(ptx::Ptr<uint8_t, S> w, uint32_t step, ptx::Access how) const;

  quant::Format format_;
  const BlockFormat* blocks_;  // null for floats
  TileStrip strip_;
  uint32_t row_cols_;      // of the tile, or of the strip
  ptx::U32 row_, in_row_;  // of this lane's piece in step 0
  ptx::U32 block_;         // of the strip, in step 0
  ptx::U32 before_;        // bytes of the strips before it; not set where there is one strip
  Lane lane_;
};

}  // namespace heddle::kernels
