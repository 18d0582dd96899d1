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
  bad = good;
  bad.gate = {8};
  EXPECT_EQ(refusal(GatedNorm{.wide = 2}, bad), "");
  EXPECT_EQ(refusal(GatedNorm{.wide = 4}, bad), "gated_norm: 8 bytes, expected a multiple of 16");
  EXPECT_EQ((GatedNorm{.by_warp = 1}.grid(good).y), 1u);
  EXPECT_EQ((GatedNorm{.threads = 32, .by_warp = 1}.grid(good).y), 2u);
}

TEST(GatedNorm, TakesWarpsForSmallGroupsAndWideAccesses) {
  GatedNorm::Args args{.rows = 3, .groups = 2, .size = 128, .stride = 256, .gate_stride = 260};
  EXPECT_EQ(gated_norm_choice(true, false, args), (GatedNorm{.by_warp = 1, .wide = 4}));
  args.gate = {8};
  EXPECT_EQ(gated_norm_choice(false, true, args), (GatedNorm{.norm = 0, .gate_first = 1, .by_warp = 1, .wide = 2}));
  args.size = 77;
  EXPECT_EQ(gated_norm_choice(true, false, args), (GatedNorm{.by_warp = 1}));
  args.size = 8192;
  EXPECT_EQ(gated_norm_choice(true, false, args), (GatedNorm{.wide = 2}));
}

}  // namespace
}  // namespace heddle::kernels
