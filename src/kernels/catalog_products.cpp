// The catalog's lines for the products of a matrix with few columns, for the lookup of its rows and for its layouts.
#include "kernels/embedding.h"
#include "kernels/entry.h"
#include "kernels/gemm.h"
#include "kernels/gemv_presets.h"
#include "kernels/mma_product.h"
#include "kernels/tile_pack.h"
#include "kernels/tile_unpack.h"

namespace heddle::kernels {

void add_products(std::vector<Entry>& all) {
  all.push_back(entry<Gemv>());
  for (const GemvPreset& p : gemv_presets()) all.push_back(preset(p.name, p.summary, p.spec));
  all.push_back(entry<Embedding>());
  all.push_back(entry<TilePack>());
  all.push_back(entry<TileUnpack>());
  all.push_back(entry<Gemm>());
  all.push_back(entry<MmaProduct>());
}

}  // namespace heddle::kernels
