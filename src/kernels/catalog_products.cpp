// The catalog's lines for the products of a matrix with few columns, and for the lookup of its rows.
#include "kernels/embedding.h"
#include "kernels/entry.h"
#include "kernels/gemv.h"

namespace heddle::kernels {

void add_products(std::vector<Entry>& all) {
  using quant::Format;
  all.push_back(entry<Gemv>());

  // points of the design space, for Q4_K
  all.push_back(preset("tiled_q4k_gemv", "Q4_K gemv: x in shared memory, one warp per row, several rows per block",
                       Gemv{.warps = 8, .x = Gemv::staged}));
  all.push_back(preset("chunked_tiled_q4k_gemv",
                       "Q4_K gemv: x in shared memory in chunks of 8192 values, for any length",
                       Gemv{.warps = 4, .x = Gemv::chunked}));
  all.push_back(preset("coalesced_q4k_gemv",
                       "Q4_K gemv: the scales of a super-block read once and handed on by shuffle",
                       Gemv{.load = 4, .scales = Gemv::shuffled}));
  all.push_back(preset("wide_q4k_gemv", "Q4_K gemv: eight warps per row, their sums merged in shared memory",
                       Gemv{.warps = 8, .warps_per_row = 8}));
  all.push_back(preset("vectorized_q4k_gemv", "Q4_K gemv: a word of nibbles per lane, 128 bytes per warp and access",
                       Gemv{.load = 4}));
  all.push_back(
      preset("mwv_q4k_gemv", "Q4_K gemv: four warps per row and 16-byte loads", Gemv{.warps = 4, .warps_per_row = 4}));
  all.push_back(preset("mwv_dp4a_q4k_gemv", "Q4_K gemv: q8_1 activations, integer dot products, three warps per row",
                       Gemv{.warps = 3, .warps_per_row = 3, .x = Gemv::q8_1}));

  // one for each format
  for (Format format : quant::all_formats()) {
    std::string name(quant::name(format));
    if (name.ends_with("_k")) name.erase(name.size() - 2, 1);
    all.push_back(preset(name + "_gemv", fmt::format("gemv with weights in {}", quant::name(format)),
                         Gemv{.format = uint32_t(format), .warps = 4, .rows = 2}));
  }
  all.push_back(entry<Embedding>());
}

}  // namespace heddle::kernels
