// What cut_gate refuses. Its results are cases of the proof.
#include "kernels/layer/cut_gate.h"

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(CutGateKernel, RefusesWhatItCannotDo) {
  EXPECT_NE(refused([] { CutGate{.threads = 33}.build(); }), "");
  CutGate::Args args{.rows = 2, .cols = 0, .y_stride = 8, .in_stride = 8, .cutoff = 1};
  EXPECT_EQ(refusal(CutGate{}, args), "cut_gate: rows of 0 columns");
  args.cols = 9;
  EXPECT_EQ(refusal(CutGate{}, args), "cut_gate: a stride of 8, but 9 columns");
  args.rows = 1;  // which has no stride
  EXPECT_EQ(refusal(CutGate{}, args), "");
}

}  // namespace
}  // namespace heddle::kernels
