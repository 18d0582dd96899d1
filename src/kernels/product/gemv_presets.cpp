// The list: seven ways to multiply with Q4_K, then one for each format.
#include "kernels/product/gemv_presets.h"

namespace heddle::kernels {

const std::vector<GemvPreset>& gemv_presets() {
  static const std::vector<GemvPreset> all = [] {
    std::vector<GemvPreset> list{
        {"tiled_q4k_gemv", "Q4_K gemv: x in shared memory, one warp per row, several rows per block",
         Gemv{.warps = 8, .x = Gemv::staged}},
        {"chunked_tiled_q4k_gemv", "Q4_K gemv: x in shared memory in chunks of 8192 values, for any length",
         Gemv{.warps = 4, .x = Gemv::chunked}},
        {"coalesced_q4k_gemv", "Q4_K gemv: the scales of a super-block read once and handed on by shuffle",
         Gemv{.load = 4, .scales = Gemv::shuffled}},
        {"wide_q4k_gemv", "Q4_K gemv: eight warps per row, their sums merged in shared memory",
         Gemv{.warps = 8, .warps_per_row = 8}},
        {"vectorized_q4k_gemv", "Q4_K gemv: a word of nibbles per lane, 128 bytes per warp and access",
         Gemv{.load = 4}},
        {"mwv_q4k_gemv", "Q4_K gemv: four warps per row and 16-byte loads", Gemv{.warps = 4, .warps_per_row = 4}},
        {"mwv_dp4a_q4k_gemv", "Q4_K gemv: q8_1 activations, integer dot products, three warps per row",
         Gemv{.warps = 3, .warps_per_row = 3, .x = Gemv::q8_1}},
    };
    for (quant::Format format : gemv_formats) {
      std::string name(quant::name(format));
      if (name.ends_with("_k")) name.erase(name.size() - 2, 1);
      list.push_back({name + "_gemv", fmt::format("gemv with weights in {}", quant::name(format)),
                      Gemv{.format = uint32_t(format), .warps = 4, .rows = 2}});
    }
    return list;
  }();
  return all;
}

}  // namespace heddle::kernels
