// What argmax refuses.
#include "kernels/sample/argmax.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(Argmax, RefusesColumnsAndRows) {
  const Argmax spec{.vec = 4};
  EXPECT_EQ(refusal(spec, {.ids = {}, .x = {16}, .best = {}, .arrived = {}, .rows = 2, .cols = 8}), "");
  EXPECT_EQ(refusal(spec, {.ids = {}, .x = {16}, .best = {}, .arrived = {}, .rows = 2, .cols = 0}),
            "argmax: 0 columns, but with vec = 4 they must be a positive multiple of 4");
  EXPECT_NE(refusal(spec, {.ids = {}, .x = {8}, .best = {}, .arrived = {}, .rows = 2, .cols = 8}), "");
  EXPECT_EQ(refusal(spec, {.ids = {}, .x = {16}, .best = {}, .arrived = {}, .rows = 70000, .cols = 8}),
            "argmax: 70000 rows, 65535 at most");
}

}  // namespace
}  // namespace heddle::kernels
