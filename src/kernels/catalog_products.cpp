// The catalog's lines for the products of a matrix with few columns, and for the lookup of its rows.
#include "kernels/embedding.h"
#include "kernels/entry.h"
#include "kernels/gemv_presets.h"

namespace heddle::kernels {

void add_products(std::vector<Entry>& all) {
  all.push_back(entry<Gemv>());
  for (const GemvPreset& p : gemv_presets()) all.push_back(preset(p.name, p.summary, p.spec));
  all.push_back(entry<Embedding>());
}

}  // namespace heddle::kernels
