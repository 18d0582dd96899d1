// Rows by expert: the order in which a product takes the rows of a batch that go to one expert after the other.
#pragma once
#include <algorithm>
#include <compare>

#include "kernels/product/product.h"
#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// A pair is a row and one of its experts. Each pair gets a slot: those of an expert follow each other in the order of
// the rows, and begin at a multiple of tile_rows. Slots between two experts, and behind the last one, have no row. An
// expert's slots are cut into tiles of up to tile_rows. One block, so that nothing has to be cleared or merged.
struct GroupRows {
  static constexpr std::string_view name = "group_rows", summary = "the rows of a batch by expert, in tiles",
                                    lowest_target = "sm_75";
  static constexpr uint32_t no_row = 0xffffffff;
  struct Args {
    ptx::DevicePtr<uint32_t> list;         // (slots): the row of each slot, or no_row
    ptx::DevicePtr<uint32_t> slot_of;      // (rows, used): the slot of each pair, or no_row of one that is skipped
    ptx::DevicePtr<ExpertTile> tiles;      // (max_tiles), of which tile_count are written; 16-byte aligned
    ptx::DevicePtr<uint32_t> tile_count;   // (1)
    ptx::DevicePtr<uint32_t> ids;          // (rows, used): experts, all below `experts` but for those that are skipped
    uint32_t rows, used, experts;          // experts: not above `largest`
    uint32_t slots;                        // of the list, max_slots() or more
    uint32_t tile_rows;                    // a multiple of 8
    ptx::DevicePtr<float> weights{};       // (rows, used); read with `weights`
    ptx::DevicePtr<float> slot_weights{};  // (slots): those of the pairs; of slots without a row nothing is written
  };
  uint32_t largest = 128;  // number of experts
  uint32_t warps = 32;
  uint32_t weights = 0;  // of the pairs, by slot
  uint32_t skips = 0;    // pairs of experts from `experts` on
  uint32_t chained = 0;
  auto operator<=>(const GroupRows&) const = default;
  static auto fields() {
    using F = Field<GroupRows>;
    return std::tuple(F{"largest", &GroupRows::largest, one_of({32, 64, 128, 256, 512})},
                      F{"warps", &GroupRows::warps, one_of({16, 32})}, F{"weights", &GroupRows::weights, yes_or_no()},
                      F{"skips", &GroupRows::skips, yes_or_no()}, F{"chained", &GroupRows::chained, yes_or_no()});
  }

  // The number of slots and tiles that suffice for any choice of experts.
  static uint32_t max_slots(uint32_t pairs, uint32_t experts, uint32_t tile_rows) {
    return max_tiles(pairs, experts, tile_rows) * tile_rows;
  }
  static uint32_t max_tiles(uint32_t pairs, uint32_t experts, uint32_t tile_rows) {
    const uint32_t hit = std::min(pairs, experts);  // experts, each with a tile that is not full
    return hit + (pairs - hit) / tile_rows;
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels
