// A launch reaches the driver as it was asked for, or is refused with the kernel's name.
#include "cuda/launch.h"

#include "tests/cuda/fake_test.h"

namespace heddle::cuda {
namespace {

struct Args {
  uint64_t y, x;
  uint32_t n;
  float scale;
};

class FakeLaunch : public Fake {};

TEST_F(FakeLaunch, PassesShapeAttributesAndArguments) {
  Context context;
  Stream stream(context);
  Function f = load(context, source("k", sizeof(Args))).function("k", sizeof(Args));
  f.set_max_dynamic_shared(100000);
  const Args args{1, 2, 3, 0.5f};
  Launch l{.function = f,
           .grid = {8, 6, 4},
           .block = {64, 4, 2},
           .cluster = {4, 2, 1},
           .dynamic_shared = 100000,
           .after_previous_starts = true};
  l.set_args(args);
  launch(stream, l);
  ASSERT_EQ(control().launches.size(), 1u);
  const fake::LaunchRecord& seen = control().launches[0];
  EXPECT_EQ(seen.kernel, "k");
  EXPECT_EQ(std::vector(seen.grid, seen.grid + 3), (std::vector<uint32_t>{8, 6, 4}));
  EXPECT_EQ(std::vector(seen.block, seen.block + 3), (std::vector<uint32_t>{64, 4, 2}));
  EXPECT_EQ(std::vector(seen.cluster, seen.cluster + 3), (std::vector<uint32_t>{4, 2, 1}));
  EXPECT_EQ(seen.shared, 100000u);
  EXPECT_TRUE(seen.overlap);
  EXPECT_EQ(seen.stream, stream.handle());
  ASSERT_EQ(seen.args.size(), sizeof args);
  EXPECT_EQ(std::memcmp(seen.args.data(), &args, sizeof args), 0);
}

TEST_F(FakeLaunch, AsksForNothingThatWasNotAskedFor) {
  Context context;
  Stream stream(context);
  launch(stream, {.function = load(context, source("k")).function("k"), .grid = {1}, .block = {32}});
  const fake::LaunchRecord& seen = control().launches.at(0);
  EXPECT_EQ(seen.cluster[0], 0u);
  EXPECT_FALSE(seen.overlap);
  EXPECT_TRUE(seen.args.empty());
}

TEST_F(FakeLaunch, RefusesWhatCannotBeRight) {
  Context context;
  Stream stream(context);
  const Function f = load(context, source("k", 4)).function("k");
  auto refused = [&](auto&& change, std::initializer_list<const char*> parts) {
    Launch l = make_launch(f, {4}, {32}, 7);
    change(l);
    const std::string text = message<Error>([&] { launch(stream, l); });
    expect_says(text, {"kernel k: "});
    expect_says(text, parts);
  };
  refused([](Launch& l) { l.args.resize(8); }, {"expected arguments of 4 bytes, found 8"});
  refused([](Launch& l) { l.args.clear(); }, {"expected arguments of 4 bytes, found 0"});
  refused([](Launch& l) { l.grid.x = 0; }, {"a grid of 0 x 1 x 1"});
  refused([](Launch& l) { l.grid.y = 65536; }, {"a grid of 4 x 65536 x 1"});
  refused([](Launch& l) { l.block = {1024, 2}; }, {"1024 x 2 x 1 threads per block, expected 1 to 1024"});
  refused([](Launch& l) { l.block.z = 0; }, {"32 x 1 x 0 threads"});
  refused([](Launch& l) { l.cluster.x = 3; }, {"a grid of 4 x 1 x 1 blocks", "clusters of 3 x 1 x 1"});
  refused([](Launch& l) { l.cluster.y = 0; }, {"clusters of 1 x 0 x 1"});
  refused([](Launch& l) { l.dynamic_shared = 49153; }, {"49153 bytes of dynamic shared", "at most 49152"});
  expect_says(message<Error>([&] { make_launch(f, {4}, {32}, 7.0); }), {"expected arguments of 4 bytes, found 8"});
  EXPECT_TRUE(control().launches.empty());
}

TEST_F(FakeLaunch, OlderGpusHaveNeitherClustersNorOverlap) {
  control().sm = 86;
  Context context;
  Stream stream(context);
  Launch l{.function = load(context, source("k")).function("k"), .grid = {4}, .block = {32}};
  launch(stream, l);
  l.after_previous_starts = true;
  expect_says(message<Error>([&] { launch(stream, l); }), {"overlapping launches need a GPU from sm_90", "is sm_86"});
  l.cluster.x = 2;
  expect_says(message<Error>([&] { launch(stream, l); }), {"clusters need a GPU from sm_90"});
}

TEST_F(FakeLaunch, ErrorsNameCallKernelAndReason) {
  Context context;
  Stream stream(context);
  const Launch l{.function = load(context, source("gemv")).function("gemv"), .grid = {1}, .block = {32}};
  control().fail["cuLaunchKernelEx"] = 701;
  try {
    launch(stream, l);
    FAIL();
  } catch (const DriverError& e) {
    EXPECT_STREQ(e.what(),
                 "cuLaunchKernelEx, kernel gemv: too many resources requested for launch "
                 "(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)");
    EXPECT_EQ(e.kernel, "gemv");
    EXPECT_FALSE(e.context_lost);
  }
  control().fail["cuLaunchKernelEx"] = 719;
  expect_says(message<DriverError>([&] { launch(stream, l); }),
              {"cuLaunchKernelEx, kernel gemv: unspecified launch failure", "the GPU context is lost"});
}

TEST_F(FakeLaunch, KernelAndStreamMustBeOfOneContext) {
  Context a, b;
  Stream stream(b);
  const Launch l{.function = load(a, source("k")).function("k"), .grid = {1}, .block = {32}};
  EXPECT_THROW(launch(stream, l), std::logic_error);
}

}  // namespace
}  // namespace heddle::cuda
