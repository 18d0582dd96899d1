// The catalog's lines for the products of a matrix with few columns, for the lookup of its rows and for its layouts.
#include "kernels/layer/embedding.h"
#include "kernels/product/gemm.h"
#include "kernels/product/gemv_presets.h"
#include "kernels/product/mma_product.h"
#include "kernels/product/tile_pack.h"
#include "kernels/product/tile_unpack.h"
#include "kernels/spec/entry.h"

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
