// What the kernels of a mixture of experts refuse.
#include "kernels/mixture/mixture.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(Route, RefusesMoreExpertsThanTheModelHas) {
  auto said = [](uint32_t experts, uint32_t used, uint32_t stride, const Route& spec = {}) {
    return refusal(
        spec,
        {.ids = {}, .weights = {}, .logits = {}, .rows = 2, .experts = experts, .used = used, .logits_stride = stride});
  };
  EXPECT_EQ(said(512, 32, 512), "");
  EXPECT_EQ(said(513, 8, 513), "route: 513 experts, 1 to 512 expected");
  EXPECT_EQ(said(65, 8, 65, {.largest = 64}), "route: 65 experts, 1 to 64 expected");
  EXPECT_EQ(said(8, 9, 8), "route: 9 of 8 experts are used; 1 to 32, not above that, expected");
  EXPECT_NE(said(64, 33, 64), "");
  EXPECT_NE(said(64, 0, 64), "");
  EXPECT_EQ(said(64, 8, 63), "route: logits have a stride of 63, but 64 experts");
}

TEST(Route, RefusesGroupsThatTheExpertsDoNotHave) {
  auto said = [](uint32_t experts, uint32_t groups, uint32_t used_groups, uint32_t used, uint32_t kind) {
    return refusal(Route{.groups = kind}, {.rows = 2,
                                           .experts = experts,
                                           .used = used,
                                           .logits_stride = experts,
                                           .groups = groups,
                                           .groups_used = used_groups});
  };
  EXPECT_EQ(said(256, 8, 4, 8, groups_by_two), "");
  EXPECT_EQ(said(256, 9, 4, 8, groups_by_two),
            "route: 4 of 9 groups of 256 experts; 1 to 32 equal groups of 2 or more expected");
  EXPECT_EQ(said(8, 8, 4, 4, groups_by_best), "");
  EXPECT_NE(said(8, 8, 4, 4, groups_by_two), "");
  EXPECT_NE(said(256, 64, 4, 8, groups_by_best), "");
  EXPECT_NE(said(256, 8, 0, 8, groups_by_best), "");
  EXPECT_NE(said(256, 8, 9, 8, groups_by_best), "");
  EXPECT_EQ(said(64, 16, 1, 5, groups_by_best), "route: 5 experts are used, but the groups have 4");
}

TEST(Mix, RefusesWhatDoesNotFitItsGrid) {
  Mix::Args a{};
  a.rows = 2;
  a.cols = 65535 * 32;
  a.used = 2;
  EXPECT_EQ(refusal(Mix{.threads = 32}, a), "");
  a.cols += 1;
  EXPECT_EQ(refusal(Mix{.threads = 32}, a), "mix: 2097121 columns, 2097120 at most");
  a.rows = 0;
  a.cols = 0;
  EXPECT_EQ(Mix{}.grid(a).x, 1u);
}

}  // namespace
}  // namespace heddle::kernels
