#include "kernels/state/chunked_recurrence.h"

#include "tests/kernels/refusal.h"
#include "tests/kernels/small_gpus.h"

namespace heddle::kernels {
namespace {

ChunkedArgs good_args() {
  ChunkedArgs args{};
  args.slot_stride = 4 * 40 * 32;
  args.run_count = 3;
  args.heads = 4;
  args.key_heads = 2;
  args.value = 40;
  args.chunk_count = 7;
  return args;
}

TEST(RecurrencePrepare, RefusesWhatDoesNotFit) {
  const RecurrencePrepare spec{.key = 20};
  EXPECT_EQ(refusal(spec, good_args()), "");
  EXPECT_EQ(spec.grid(good_args()).x, 4u);
  EXPECT_EQ(spec.grid(good_args()).y, 7u);
  ChunkedArgs bad = good_args();
  bad.heads = 3;
  EXPECT_EQ(refusal(spec, bad), "recurrence_prepare: 3 heads of 40 values with 2 key heads");
  bad = good_args();
  bad.scores = {8};
  EXPECT_EQ(refusal(spec, bad), "recurrence_prepare: a buffer at 0x8, expected a multiple of 16");
  bad = good_args();
  bad.chunk_count = 65536;
  EXPECT_EQ(refusal(spec, bad), "recurrence_prepare: 65536 chunks, 65535 at most");
  EXPECT_NE(refused([] { RecurrencePrepare{.key = 129}.build(); }), "");
}

TEST(RecurrenceScan, RefusesWhatDoesNotFit) {
  const RecurrenceScan spec{.key = 20};
  EXPECT_EQ(refusal(spec, good_args()), "");
  EXPECT_EQ(spec.grid(good_args()).x, 8u);  // two tiles of values for each head
  EXPECT_EQ(spec.grid(good_args()).y, 3u);
  ChunkedArgs bad = good_args();
  bad.slot_stride -= 4;
  EXPECT_EQ(refusal(spec, bad),
            "recurrence_scan: slots of 5116 values at 0x0; expected 5120 or more, a multiple of 4, 16-byte aligned");
  bad = good_args();
  bad.run_count = 65536;
  EXPECT_EQ(refusal(spec, bad), "recurrence_scan: 65536 runs, 65535 at most");
  EXPECT_NE(refused([] { RecurrenceScan{.key = 129}.build(); }), "");
}

TEST(RecurrenceScan, FitsEveryGpuThatHasItsInstructions) {
  for (const uint32_t rule : {rule_ssd, rule_delta})
    for (const uint32_t key : {16u, 100u, 128u}) {
      ScanShape shape{
          .key = key, .rule = rule, .heads = 32, .value = 128, .runs = 1, .sms = 132, .shared_per_block = 227 * 1024};
      EXPECT_EQ(scan_choice(shape).stages, 2u);
      for (const SmallGpu& gpu : small_gpus())
        for (const uint32_t runs : {1u, 10u}) {
          if (gpu.limits.shared_per_block < 99 * 1024) continue;  // sm_75
          shape.shared_per_block = gpu.limits.shared_per_block;
          shape.runs = runs;
          const RecurrenceScan spec = scan_choice(shape);
          EXPECT_LE(spec.shared_bytes(), gpu.limits.shared_per_block) << field_text(spec);
          EXPECT_EQ(spec.build().shared_bytes, spec.shared_bytes()) << field_text(spec);
        }
    }
}

TEST(RecurrenceScan, HasAsManyBlocksAsSms) {
  ScanShape shape{
      .key = 128, .rule = rule_delta, .heads = 32, .value = 128, .runs = 2, .sms = 132, .shared_per_block = 227 * 1024};
  EXPECT_EQ(scan_choice(shape).columns, 32u);  // 128 blocks of 64
  shape.runs = 3;
  EXPECT_EQ(scan_choice(shape).columns, 64u);
  shape.value = 32;
  EXPECT_EQ(scan_choice(shape).columns, 32u);
}

TEST(RecurrenceScan, AssemblesWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  const std::vector<RecurrencePrepare> prepare{{}, {.key = 16}, {.rule = rule_ssd}};
  const std::vector<RecurrenceScan> scan{{}, {.key = 48}, {.rule = rule_ssd}};
  for (const char* target : {"sm_80", "sm_90a"}) {
    expect_no_spills(prepare, target);
    expect_no_spills(scan, target);
  }
  expect_no_spills<RecurrenceScan>({{.stages = 2, .chained = 1}, {.columns = 64, .stages = 2}}, "sm_90a");
}

}  // namespace
}  // namespace heddle::kernels
