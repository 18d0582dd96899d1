// What router refuses, and the shapes it has for routers of several sizes.
#include "kernels/mixture/router.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(Router, RefusesWhatItCannotDo) {
  const Router::Args good{.x = {512},
                          .w = {1024},
                          .rows = 2,
                          .cols = 2048,
                          .experts = 100,
                          .router_rows = 101,
                          .used = 8,
                          .x_stride = 2048};
  EXPECT_EQ(Router{}.grid(good).x, 16u);
  EXPECT_EQ(Router{}.grid(good).y, 2u);
  auto with = [&](auto&& change) {
    Router::Args args = good;
    change(args);
    return refusal(Router{}, args);
  };
  EXPECT_EQ(with([](auto& a) { a.experts = 129; }), "router: 129 experts, 1 to 128 expected");
  EXPECT_EQ(with([](auto& a) { a.router_rows = 102; }),
            "router: 102 rows for 100 experts, expected as many or one more");
  EXPECT_EQ(with([](auto& a) { a.used = 33; }),
            "router: 33 of 100 experts are used; 1 to 32, not above that, expected");
  EXPECT_EQ(with([](auto& a) { a.cols = 2049; }), "router: 2049 columns, but 2 slices of 1024 are 2048");
  EXPECT_EQ(with([](auto& a) { a.x_stride = 2050; }),
            "router: rows of x 2050 values apart, at 0x200, and w at 0x400; expected 16-byte alignment");
  EXPECT_EQ(with([](auto& a) { a.rows = 0; }), "router: 0 rows, 1 to 65535 expected");
  EXPECT_EQ(refusal(Router{.groups = groups_by_best}, good),
            "router: 0 of 0 groups of 100 experts; 1 to 32 equal groups of 1 or more expected");
  EXPECT_EQ(refused([] { Router{.slices = 9}.build(); }),
            "router: 4 warps keep 2048 values each, but 9216 columns are more");
}

TEST(RouterChoice, HasATileForEachWarpIfTheySuffice) {
  const std::optional<Router> qwen = router_choice(128, 128, 2048);
  ASSERT_TRUE(qwen);
  EXPECT_EQ(qwen->slices * qwen->tile_cols, 2048u);
  EXPECT_EQ(qwen->splits * qwen->warps * qwen->depth, 64u);
  EXPECT_EQ(router_choice(4, 4, 64)->splits, 2u);
  EXPECT_EQ(router_choice(512, 513, 4096)->largest, 512u);
  EXPECT_EQ(router_choice(256, 256, 12288)->warps, 8u);
  EXPECT_FALSE(router_choice(8, 8, 65536));
  EXPECT_FALSE(router_choice(513, 513, 2048));
}

}  // namespace
}  // namespace heddle::kernels
