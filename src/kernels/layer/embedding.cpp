// Embedding lookup: one block per token, a piece of 32 values per thread and step.
#include "kernels/layer/embedding.h"

#include "kernels/product/tile.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

struct Writer {
  Builder<Embedding::Args>& k;
  const Embedding& spec;

  F32 result(Global<float> y, F32 v) { return spec.add ? load(y) + v : v; }

  // Four values from column `col` on. Rows of floats may have any length, all others are multiples of 32.
  void write(Global<float> y, U32 col, U32 cols, const std::vector<F32>& v, uint32_t first) {
    auto four = [&] {
      Vec<float, 4> out;
      if (spec.add) out = load_vec<4>(y);
      for (uint32_t i = 0; i < 4; ++i) out[i] = spec.add ? out[i] + v[first + i] : v[first + i];
      store_vec(y, out);
    };
    if (!quant::is_float(quant::Format(spec.format))) return four();
    k.when_else((cols & 3u) == 0u, [&] { k.when(col < cols, four); },
                [&] {
                  for (uint32_t i = 0; i < 4; ++i)
                    k.when(col + i < cols, [&] { store(y.offset(i), result(y.offset(i), v[first + i])); });
                });
  }
};

}  // namespace

Kernel Embedding::build() const {
  check_fields(*this);
  const auto weights = quant::Format(format);
  const TileShape shape{weights, 0, 0, tile_cols};
  const uint32_t row_pieces = tile_cols / 32;
  Builder<Args> k(std::string(name), threads);
  chain_start(k, chained);
  const Codebook book = TilePiece::codebook(k, weights);
  if (book) k.barrier();
  chain_wait(k, chained);
  U32 token = k.block_id(), cols = k.arg(&Args::cols);
  k.when(token < k.arg(&Args::tokens), [&] {
    U32 id = load(k.arg(&Args::ids) + token);
    Pred known = id < k.arg(&Args::vocabulary);
    // an unknown id reads row 0, which every table has
    U32 row = select(known, id, 0u), slices = (cols + (tile_cols - 1)) / tile_cols;
    F32 scale = k.arg(&Args::scale);
    k.loop(k.thread(), (cols + 31u) / 32u, threads, [&](U32 i) {
      U32 slice = i / row_pieces;
      const TilePiece piece(k, weights, tile_cols, row % shape.tile_rows() * row_pieces + i % row_pieces, book);
      U64 tile = mul_wide(row / shape.tile_rows(), slices) + widen(slice);
      std::vector<F32> v = piece.values(k.arg(&Args::table) + tile * uint64_t(tile_bytes(weights)), 0);
      for (F32& value : v) value = select(known, value * scale, 0.0f);
      for (uint32_t half = 0; half < 2; ++half) {
        U32 col = slice * tile_cols + piece.run(half);
        auto y = k.arg(&Args::y) + (mul_wide(token, cols) + widen(col));
        for (uint32_t j = 0; j < 16; j += 4) Writer{k, *this}.write(y.offset(j), col + j, cols, v, 16 * half + j);
      }
    });
  });
  return k.finish();
}

Grid Embedding::grid(const Args& args) const {
  const auto weights = quant::Format(format);
  if (args.cols % quant::block_values(weights))
    throw Error("embedding: {} columns of {} are not a multiple of {}, its block", args.cols, quant::name(weights),
                quant::block_values(weights));
  if (args.table.address % 16 || args.y.address % 16)
    throw Error("embedding: the addresses of table and y are {:#x} and {:#x}, expected multiples of 16",
                args.table.address, args.y.address);
  if (args.vocabulary == 0 && args.tokens) throw Error("embedding: {} tokens, but a vocabulary of 0", args.tokens);
  return {.x = args.tokens ? args.tokens : 1};  // an empty grid cannot be launched
}

void add_embedding_kernels(std::vector<Entry>& all) { all.push_back(entry<Embedding>()); }

}  // namespace heddle::kernels
