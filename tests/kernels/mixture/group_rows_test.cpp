// What group_rows refuses, and how many slots and tiles suffice.
#include "kernels/mixture/group_rows.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(GroupRows, RefusesWhatItCannotDo) {
  const GroupRows::Args good{.tiles = {512}, .rows = 10, .used = 4, .experts = 100, .slots = 2560, .tile_rows = 64};
  EXPECT_EQ(GroupRows{}.grid(good).x, 1u);
  auto with = [&](auto&& change) {
    GroupRows::Args args = good;
    change(args);
    return refusal(GroupRows{}, args);
  };
  EXPECT_EQ(with([](auto& a) { a.experts = 129; }), "group_rows: 129 experts, 1 to 128 expected");
  EXPECT_EQ(with([](auto& a) { a.used = 0; }), "group_rows: 0 experts for each row");
  EXPECT_EQ(with([](auto& a) { a.tile_rows = 12; }), "group_rows: tiles of 12 rows, expected a multiple of 8");
  EXPECT_EQ(with([](auto& a) { a.slots = 2559; }),
            "group_rows: 2559 slots, but 10 rows with 4 of 100 experts each may need 2560");
  EXPECT_EQ(with([](auto& a) { a.tiles.address = 8; }), "group_rows: tiles must be 16-byte aligned");
  EXPECT_EQ(with([](auto& a) { a.rows = 1 << 23; }),
            "group_rows: 8388608 rows with 4 experts each are more than 16777216");
  EXPECT_EQ(refused([] { GroupRows{.warps = 8}.build(); }).substr(0, 24), "group_rows: warps = 8 is");
}

TEST(GroupRows, SlotsAndTilesSufficeForTheWorstChoice) {
  EXPECT_EQ(GroupRows::max_slots(0, 128, 8), 0u);
  EXPECT_EQ(GroupRows::max_slots(8, 128, 8), 64u);  // eight experts with one row each
  EXPECT_EQ(GroupRows::max_slots(16384, 128, 64), (128u + 254) * 64);
  EXPECT_EQ(GroupRows::max_tiles(8, 128, 8), 8u);
  EXPECT_EQ(GroupRows::max_tiles(129, 128, 8), 128u);
  EXPECT_EQ(GroupRows::max_tiles(16384, 128, 128), 128u + 127);
}

}  // namespace
}  // namespace heddle::kernels
