// From spec to launch on a fake driver: what is assembled, how often, and which attributes are set.
#include "gpu/library.h"

#include <thread>

#include "cuda/driver.h"
#include "kernels/attention/cluster_attention.h"
#include "kernels/layer/elementwise.h"
#include "kernels/layer/norm.h"
#include "kernels/product/tile_pack.h"
#include "ptx/builder.h"
#include "tests/cuda/fake_test.h"

namespace heddle::gpu {
namespace {

using cuda::Context;
using cuda::expect_says;
using cuda::message;
using kernels::AnySpec;
using kernels::ClusterAttention;
using kernels::RmsNorm;
using kernels::SoftcapRows;
using kernels::TilePack;

TEST(TargetFor, TakesTheArchitecturesOwnOrTheNearestBelow) {
  const std::vector<std::pair<uint32_t, const char*>> expected{
      {75, "sm_75"},  {80, "sm_80"},    {86, "sm_86"},   {87, "sm_86"},    {89, "sm_89"},
      {90, "sm_90a"}, {100, "sm_100a"}, {103, "sm_100"}, {120, "sm_120a"}, {121, "sm_120"}};
  for (auto [sm, name] : expected)
    EXPECT_EQ(target_for({.sm = sm, .shared_per_block_optin = 64 << 10}).name, name) << sm;
}

TEST(TargetFor, HasNothingOfTheArchitecturesOwnAndNoMoreSharedMemoryThanTheGpu) {
  const ptx::Target target = target_for({.sm = 90, .specific = false, .shared_per_block_optin = 99 << 10});
  EXPECT_EQ(target.name, "sm_90");
  EXPECT_EQ(target.max_shared_bytes, 99u << 10);
  EXPECT_EQ(target_for({.sm = 86, .shared_per_block_optin = 227 << 10}).max_shared_bytes, 99u << 10);
}

TEST(TargetFor, RefusesWhatIsOlder) {
  for (uint32_t sm : {35u, 70u, 72u})
    EXPECT_EQ(message<Error>([&] { target_for({.sm = sm}); }),
              fmt::format("compute capability {}.{} is too old: heddle's kernels are for 7.5 (Turing) and later",
                          sm / 10, sm % 10));
}

// With the driver of CUDA 11.8: newer ones report how many bytes of arguments a kernel takes, which the fake driver
// knows only for the texts of tests/cuda.
class FakeLibrary : public cuda::Fake {
 protected:
  void SetUp() override {
    Fake::SetUp();
    use_driver(11080);
  }
  size_t assembled() { return control().count("cuLinkComplete"); }
  // What a kernel was set to, or -1.
  int setting(const std::string& kernel, int attribute) {
    auto found = control().function_settings.find(fmt::format("{} {}", kernel, attribute));
    return found == control().function_settings.end() ? -1 : found->second;
  }
  template <class Spec>
  static cuda::Launch launch_of(Library& library, const Spec& spec, const typename Spec::Args& args) {
    return library.get(spec).launch(spec.grid(args), 0, &args, sizeof args);
  }
};

TEST_F(FakeLibrary, ASpecIsAssembledOnce) {
  Library library(Context(), nullptr);
  EXPECT_EQ(library.target().name, "sm_90a");
  EXPECT_EQ(assembled(), 0u);
  const Loaded& first = library.get(RmsNorm{});
  EXPECT_EQ(assembled(), 1u);
  EXPECT_EQ(&library.get(RmsNorm{}), &first);
  EXPECT_EQ(assembled(), 1u);
  const Loaded& other = library.get(RmsNorm{.threads = 64});
  EXPECT_NE(&other, &first);
  EXPECT_EQ(assembled(), 2u);
  EXPECT_EQ(first.block, (cuda::Dim3{256, 1, 1}));
  EXPECT_EQ(other.block, (cuda::Dim3{64, 1, 1}));
  EXPECT_EQ(first.function.name(), "rms_norm");
}

TEST_F(FakeLibrary, SeveralAtOnceAndOnlyWhatIsMissing) {
  Library library(Context(), nullptr);
  const Loaded* before = &library.get(RmsNorm{});
  library.load({AnySpec(RmsNorm{}), AnySpec(SoftcapRows{}), AnySpec(TilePack{})});
  EXPECT_EQ(assembled(), 3u);
  EXPECT_EQ(&library.get(RmsNorm{}), before);
  EXPECT_EQ(library.get(TilePack{}).function.name(), "tile_pack");
  EXPECT_EQ(library.get(SoftcapRows{}).function.name(), "softcap_rows");
  library.load({AnySpec(SoftcapRows{}), AnySpec(TilePack{})});
  library.load({});
  EXPECT_EQ(assembled(), 3u);
}

TEST_F(FakeLibrary, ASecondStartTakesThemFromTheCache) {
  cuda::Folder folder;
  cuda::CubinCache cache(folder.path());
  Library(Context(), &cache).load({AnySpec(RmsNorm{}), AnySpec(TilePack{})});
  EXPECT_EQ(assembled(), 2u);
  Library second(Context(), &cache);
  second.load({AnySpec(RmsNorm{}), AnySpec(TilePack{})});
  EXPECT_EQ(assembled(), 2u);
  EXPECT_EQ(cache.counts().hits, 2u);
  EXPECT_EQ(second.get(TilePack{}).function.name(), "tile_pack");
}

TEST_F(FakeLibrary, ThreadsThatAskForTheSameGetTheSame) {
  Library library(Context(), nullptr);
  std::vector<const Loaded*> seen(4);
  std::vector<std::thread> threads;
  for (const Loaded*& mine : seen) threads.emplace_back([&] { mine = &library.get(RmsNorm{}); });
  for (std::thread& t : threads) t.join();
  for (const Loaded* one : seen) EXPECT_EQ(one, &library.get(RmsNorm{}));
}

TEST_F(FakeLibrary, WhatFailedIsTriedAgain) {
  Library library(Context(), nullptr);
  control().fail["cuLinkComplete"] = 218;
  EXPECT_THROW(library.load({AnySpec(RmsNorm{}), AnySpec(TilePack{})}), cuda::DriverError);
  control().fail.clear();
  EXPECT_EQ(library.get(RmsNorm{}).function.name(), "rms_norm");
  EXPECT_EQ(library.get(TilePack{}).function.name(), "tile_pack");
}

TEST_F(FakeLibrary, AKernelForAnotherGpuIsRefusedBeforeItIsAssembled) {
  control().sm = 86;
  Library library(Context(), nullptr);
  EXPECT_EQ(library.target().name, "sm_86");
  const std::string text = message<Error>([&] { library.get(RmsNorm{.chained = 1}); });
  expect_says(text, {"rms_norm", "sm_90", "sm_86"});
  EXPECT_EQ(assembled(), 0u);
}

TEST_F(FakeLibrary, AnOldGpuIsRefusedAtOnce) {
  control().sm = 70;
  Context context;
  expect_says(message<Error>([&] { Library(context, nullptr); }), {"compute capability 7.0 is too old"});
}

TEST_F(FakeLibrary, OnlyAKernelThatWaitsByItselfMayStartEarly) {
  Library library(Context(), nullptr);
  cuda::Stream stream(library.context());
  const RmsNorm::Args args{.rows = 5, .cols = 64, .eps = 1e-5f};
  for (uint32_t chained : {0u, 1u}) {
    launch(stream, launch_of(library, RmsNorm{.chained = chained}, args));
    const fake::LaunchRecord& seen = control().launches.back();
    EXPECT_EQ(seen.overlap, chained == 1) << chained;
    EXPECT_EQ(seen.kernel, "rms_norm");
    EXPECT_EQ(seen.grid[0], 5u);
    EXPECT_EQ(seen.block[0], 256u);
    EXPECT_EQ(seen.cluster[0], 0u);
    EXPECT_EQ(seen.shared, 0u);
    // the second is to share an SM with the one before it
    EXPECT_EQ(setting("rms_norm", cuda::function_attribute::shared_carveout), chained ? 100 : -1);
  }
  EXPECT_EQ(setting("rms_norm", cuda::function_attribute::max_dynamic_shared), -1);
  EXPECT_EQ(setting("rms_norm", cuda::function_attribute::large_clusters), -1);
}

TEST_F(FakeLibrary, ArgumentsArePassedOnAndMustHaveTheirSize) {
  Library library(Context(), nullptr);
  const RmsNorm::Args args{.y = {4096}, .rows = 5, .cols = 64, .eps = 1e-5f};
  const cuda::Launch l = launch_of(library, RmsNorm{}, args);
  ASSERT_EQ(l.args.size(), sizeof args);
  EXPECT_EQ(std::memcmp(l.args.data(), &args, sizeof args), 0);
  const Loaded& loaded = library.get(RmsNorm{});
  for (size_t bytes : {sizeof args - 8, sizeof args + 8, size_t(0)}) {
    const std::vector<std::byte> other(bytes + 1);
    EXPECT_EQ(message<Error>([&] {
                loaded.launch({5, 1, 1}, 0, other.data(), bytes);
              }),
              fmt::format("kernel rms_norm: expected arguments of {} bytes, found {}", sizeof args, bytes));
  }
}

ClusterAttention::Args some_attention() {
  ClusterAttention::Args args{};
  args.sequences = 1;
  args.heads = 8;
  args.kv_heads = 2;
  args.max_len = 64;
  return args;
}

TEST_F(FakeLibrary, MoreThan48KBOfSharedMemoryIsAskedFor) {
  using namespace cuda::function_attribute;
  Library library(Context(), nullptr);
  cuda::Stream stream(library.context());
  const ClusterAttention spec{.splits = 8, .stages = 3};
  const uint32_t bytes = ptx::dynamic_shared_offset(spec.build());
  ASSERT_GT(bytes, 3 * spec.stage_bytes());
  const Loaded& loaded = library.get(spec);
  EXPECT_EQ(loaded.shared_bytes, bytes);
  EXPECT_EQ(setting("cluster_attention", max_dynamic_shared), int(bytes));
  EXPECT_EQ(setting("cluster_attention", shared_carveout), 100);
  const ClusterAttention::Args args = some_attention();
  launch(stream, loaded.launch(spec.grid(args), 0, &args, sizeof args));
  EXPECT_EQ(control().launches.back().shared, bytes);
  EXPECT_FALSE(control().launches.back().overlap);
}

// Shared memory whose size is known at launch only.
struct Staged {
  static constexpr std::string_view name = "staged";
  struct Args {
    ptx::DevicePtr<float> y;
  };
  auto operator<=>(const Staged&) const = default;
  static auto fields() { return std::tuple<>(); }
  ptx::Kernel build() const {
    ptx::Builder<Args> k(std::string(name), 32);
    const auto room = k.dynamic_shared<float>();
    store(room + k.thread(), 1.0f);
    k.barrier();
    store(k.arg(&Args::y) + k.thread(), load(room + (k.thread() ^ 1u)));
    return k.finish();
  }
};

TEST_F(FakeLibrary, WhatALaunchAddsIsAskedForWhenItIsNeeded) {
  using namespace cuda::function_attribute;
  Library library(Context(), nullptr);
  cuda::Stream stream(library.context());
  const Staged::Args args{};
  auto asked = [&](uint32_t bytes) {
    const cuda::Launch l = library.get(Staged{}).launch({1, 1, 1}, bytes, &args, sizeof args);
    launch(stream, l);
    EXPECT_EQ(control().launches.back().shared, bytes);
    return setting("staged", max_dynamic_shared);
  };
  EXPECT_EQ(asked(16 << 10), -1);
  EXPECT_EQ(asked(60 << 10), 60 << 10);
  EXPECT_EQ(asked(52 << 10), 60 << 10);  // what was asked for stays
  expect_says(message<Error>([&] {
                library.get(Staged{}).launch({1, 1, 1}, 300'000, &args, sizeof args);
              }),
              {"kernel staged: ", "at most 232448"});
}

TEST_F(FakeLibrary, ClustersAboveEightAreAskedFor) {
  using cuda::function_attribute::large_clusters;
  Library library(Context(), nullptr);
  cuda::Stream stream(library.context());
  const ClusterAttention::Args args = some_attention();
  for (uint32_t splits : {1u, 8u, 16u}) {
    launch(stream, launch_of(library, ClusterAttention{.splits = splits}, args));
    EXPECT_EQ(setting("cluster_attention", large_clusters), splits > 8 ? 1 : -1) << splits;
    const fake::LaunchRecord& seen = control().launches.back();
    EXPECT_EQ(uint64_t(seen.cluster[0]) * seen.cluster[1] * seen.cluster[2], splits > 1 ? splits : 0) << splits;
  }
}

}  // namespace
}  // namespace heddle::gpu
