// What move_parts refuses. Its results are cases of the proof.
#include "kernels/layer/move_parts.h"

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(MovePartsKernel, RefusesWhatItCannotMove) {
  MoveParts::Args args{.count = 3, .largest = 64};
  EXPECT_EQ(refusal(MoveParts{}, args), "");
  args.largest = 60;
  EXPECT_EQ(refusal(MoveParts{}, args), "move_parts: parts of up to 60 bytes, expected multiples of 16");
  EXPECT_EQ(refusal(MoveParts{.vec = 1}, args), "");
  args.count = 0;
  EXPECT_EQ(refusal(MoveParts{.vec = 1}, args), "move_parts: 0 parts, expected 1 to 65535");
}

}  // namespace
}  // namespace heddle::kernels
