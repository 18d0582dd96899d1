// What rank_squares and norm_across refuse. Their results are cases of the proof.
#include "kernels/layer/norm_across.h"

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(NormAcrossKernels, RefuseWhatTheyCannotDo) {
  RankSquares::Args squares{.rows = 2, .cols = 8, .x_stride = 8, .sums_stride = 3, .places = 3, .place = 2};
  EXPECT_EQ(refusal(RankSquares{}, squares), "");
  squares.place = 4;
  EXPECT_EQ(refusal(RankSquares{}, squares), "rank_squares: place 4 of 3");
  squares.place = 3;  // nowhere
  EXPECT_EQ(refusal(RankSquares{}, squares), "");
  EXPECT_NE(refusal(RankSquares{.gated = 1}, squares), "");  // no stride
  squares.sums_stride = 2;
  EXPECT_NE(refusal(RankSquares{}, squares), "");

  NormAcross::Args norm{.rows = 2, .cols = 8, .x_stride = 8, .sums_stride = 3, .count = 16};
  EXPECT_EQ(refusal(NormAcross{}, norm), "");
  norm.count = 7;
  EXPECT_EQ(refusal(NormAcross{}, norm), "norm_across: sums over 7 values, but 8 of this rank");
  norm.count = 16;
  norm.x_stride = 7;
  EXPECT_NE(refusal(NormAcross{}, norm), "");
}

}  // namespace
}  // namespace heddle::kernels
