// What latent_expand refuses, and that it assembles.
#include "kernels/attention/latent_expand.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(LatentExpand, RefusesWhatItCannotTake) {
  const LatentExpand::Args args{.page_size = 16, .positions = 130, .stride = 144, .heads = 16};
  auto said = [&](auto&& change) {
    LatentExpand::Args wrong = args;
    change(wrong);
    return refusal(LatentExpand{}, wrong);
  };
  EXPECT_EQ(said([](auto&) {}), "");
  EXPECT_EQ(said([](auto& a) { a.page_size = 0; }), "latent_expand: pages of 0 positions");
  EXPECT_EQ(said([](auto& a) { a.stride = 129; }),
            "latent_expand: 129 positions from head to head, but a sequence of 130");
  EXPECT_EQ(said([](auto& a) { a.heads = 0; }), "latent_expand: 0 heads, 1 to 32767 expected");
  EXPECT_EQ(said([](auto& a) { a.heads = 32768; }), "latent_expand: 32768 heads, 1 to 32767 expected");
  EXPECT_THROW(LatentExpand{.rank = 24}.build(), Error);
}

// A block for 128 positions, and 128 values of a key or value.
TEST(LatentExpand, DividesHeadsOfManyValues) {
  LatentExpand::Args args{.page_size = 16, .positions = 129, .stride = 129, .heads = 3};
  EXPECT_EQ(LatentExpand{}.grid(args).x, 2u);
  EXPECT_EQ(LatentExpand{}.grid(args).y, 6u);
  EXPECT_EQ((LatentExpand{.plain = 192, .value = 256}.grid(args).y), 12u);
  args.positions = 0;  // an empty grid cannot be launched
  EXPECT_EQ(LatentExpand{}.grid(args).x, 1u);
}

TEST(LatentExpand, AssemblesWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  for (const char* target : {"sm_90", "sm_90a", "sm_100", "sm_120"})
    expect_no_spills<LatentExpand>({{.chained = 1}, {.plain = 192, .value = 256, .cache = kv_q8}}, target);
}

}  // namespace
}  // namespace heddle::kernels
