// What causal_softmax refuses, and its grid.
#include "kernels/attention/causal_softmax.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(CausalSoftmax, RefusesRowsThatAreNoWholeQueries) {
  CausalSoftmax::Args a{
      .y = {}, .x = {}, .rows = 6, .queries = 3, .keys = 5, .offset = 0, .window = 0, .scale = 1, .cap = 0};
  EXPECT_EQ(refusal(CausalSoftmax{}, a), "");
  EXPECT_EQ((CausalSoftmax{.warps = 4, .row_per = CausalSoftmax::warp}.grid(a).x), 2u);
  EXPECT_EQ(refusal(CausalSoftmax{.capped = 1}, a), "causal_softmax: a cap of 0; it must be above 0");
  a.queries = 4;
  EXPECT_EQ(refusal(CausalSoftmax{}, a), "causal_softmax: 6 rows are not a multiple of 4 queries");
  a.queries = 0;
  EXPECT_NE(refusal(CausalSoftmax{}, a), "");
  a.rows = 0;
  EXPECT_EQ(CausalSoftmax{}.grid(a).x, 1u);
}

}  // namespace
}  // namespace heddle::kernels
