// What altup refuses, and that it assembles for as many streams as it takes. Its results are cases of the proof.
#include "kernels/layer/altup.h"

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(AltupKernel, RefusesWhatItCannotDo) {
  EXPECT_NE(refused([] { Altup{.streams = 1}.build(); }), "");
  EXPECT_NE(refused([] { Altup{.streams = 17}.build(); }), "");
  EXPECT_EQ(refusal(Altup{}, {.stream_stride = 100, .rows = 2, .cols = 0}), "altup: rows of 0 columns");
  EXPECT_EQ(refusal(Altup{}, {.stream_stride = 100, .rows = 3, .cols = 40}),
            "altup: streams 100 values apart, but 3 rows of 40");
  EXPECT_EQ(Altup{}.grid({.stream_stride = 0, .rows = 0, .cols = 8}).x, 1u);
}

TEST(AltupKernel, AssemblesWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::vector<Altup> specs;
  for (uint32_t step : {Altup::predict, Altup::correct})
    for (uint32_t streams : {2u, 4u, 16u}) specs.push_back({.step = step, .streams = streams});
  expect_no_spills(specs, "sm_75");
}

}  // namespace
}  // namespace heddle::kernels
