#include "kernels/state/recurrence.h"

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(Recurrence, RefusesWhatDoesNotFit) {
  const Recurrence spec{.key = 20};
  EXPECT_EQ(spec.padded_key(), 32u);
  const Recurrence::Args good{.slot_stride = 4 * 40 * 32, .run_count = 3, .heads = 4, .key_heads = 2, .value = 40};
  EXPECT_EQ(refusal(spec, good), "");
  EXPECT_EQ(spec.grid(good).x, 8u);  // two tiles of values for each head
  EXPECT_EQ(spec.grid(good).y, 3u);
  Recurrence::Args bad = good;
  bad.key_heads = 3;
  EXPECT_EQ(refusal(spec, bad), "recurrence: 4 heads of 40 values with 3 key heads");
  bad = good;
  bad.slot_stride -= 4;
  EXPECT_NE(refusal(spec, bad).find("recurrence: slots of 5116 values"), std::string::npos) << refusal(spec, bad);
  bad = good;
  bad.runs = {4};
  EXPECT_EQ(refusal(spec, bad), "recurrence: runs must be 16-byte aligned");
  EXPECT_NE(refused([] { Recurrence{.key = 257}.build(); }), "");
}

TEST(Recurrence, AssemblesWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  const std::vector<Recurrence> specs{{}, {.key = 256}, {.key = 128, .rule = rule_ssd, .tile = 1}};
  for (const char* target : {"sm_75", "sm_90a"}) expect_no_spills(specs, target);
}

TEST(GatedNorm, RefusesWhatDoesNotFit) {
  const GatedNorm::Args good{.rows = 3, .groups = 2, .size = 8, .stride = 16, .gate_stride = 16};
  EXPECT_EQ(refusal(GatedNorm{}, good), "");
  GatedNorm::Args bad = good;
  bad.stride = 15;
  EXPECT_EQ(refusal(GatedNorm{}, bad), "gated_norm: 2 groups of 8 values, with strides of 15 and 16");
}

}  // namespace
}  // namespace heddle::kernels
