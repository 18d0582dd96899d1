// The whole room on a real driver and GPU, by value. Skipped, with the reason, where there is none.
#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>

#include "cuda/compile.h"
#include "cuda/memory.h"
#include "cuda/plan.h"
#include "tests/cuda/fake_test.h"

namespace heddle::cuda {
namespace {

struct ScaleArgs {
  uint64_t y, x;
  uint32_t n;
  float value;
};

// y[i] = x[i] + value. `before` is put at the beginning.
Source add(const std::string& name, const std::string& target, const std::string& before = {}) {
  return {name,
          fmt::format(R"(.version 8.0
.target {}
.address_size 64
.visible .entry {}(.param .align 8 .b8 args[24])
{{
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .b64 %d<4>;
  .reg .f32 %f<3>;
  {}
  ld.param.u64 %d1, [args];
  ld.param.u64 %d2, [args+8];
  ld.param.u32 %r0, [args+16];
  ld.param.f32 %f0, [args+20];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  setp.ge.u32 %p, %r4, %r0;
  @%p ret;
  mul.wide.u32 %d3, %r4, 4;
  add.u64 %d1, %d1, %d3;
  add.u64 %d2, %d2, %d3;
  ld.global.f32 %f1, [%d2];
  add.f32 %f1, %f1, %f0;
  st.global.f32 [%d1], %f1;
  ret;
}}
)",
                      target, name, before),
          target};
}
const std::string chained = "griddepcontrol.launch_dependents;\n  griddepcontrol.wait;";

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("HEDDLE_LIBCUDA");
    try {
      context_.emplace();
    } catch (const NoDriver& e) {
      GTEST_SKIP() << e.what();
    } catch (const NoDevice& e) {
      GTEST_SKIP() << e.what();
    }
    for (uint32_t i = 0; i < n; ++i) x_.push_back(0.25f * float(i));
  }
  const Context& context() { return *context_; }
  bool needs_sm(uint32_t sm) { return context().info().sm >= sm; }

  static constexpr uint32_t n = 1000;
  std::optional<Context> context_;
  std::vector<float> x_;
};

TEST_F(OnGpu, DescribesItself) {
  const DeviceInfo& info = context().info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_GE(info.sm, 50u);
  EXPECT_GE(info.sms, 1u);
  EXPECT_GT(info.memory, 1ull << 30);
  EXPECT_GE(info.shared_per_block_optin, 48u << 10);
  EXPECT_EQ(info.uuid.size(), 40u);
  EXPECT_LE(context().memory().free, context().memory().total);
  std::printf("%s, sm_%u, %u SMs, %.1f GiB, %s, %s, CUDA %s, %.0f GB/s\n", info.name.c_str(), info.sm, info.sms,
              double(info.memory) / double(1 << 30), info.pci.c_str(), info.uuid.c_str(),
              context().driver_version().c_str(), info.memory_bytes_per_second() / 1e9);
}

TEST_F(OnGpu, AssemblesLaunchesAndKeepsTheCubin) {
  Folder folder;
  CubinCache cache(folder.path());
  const Source s = add("add", "sm_75");
  for (int round = 0; round < 2; ++round) {
    const Module module = std::move(compile(context(), std::span(&s, 1), &cache).at(0));
    EXPECT_EQ(module.log().empty(), round == 1) << module.log();
    Function f = module.function("add", sizeof(ScaleArgs));
    EXPECT_GT(f.registers(), 0u);
    EXPECT_EQ(f.local_bytes(), 0u);
    EXPECT_GE(f.blocks_per_sm(128), 1u);
    f.set_max_dynamic_shared(context().info().shared_per_block_optin);
    Stream stream(context());
    Event start(context()), end(context());
    Buffer x = Buffer::of(context(), std::span<const float>(x_)), y(context(), n * 4);
    y.fill(0xcc);
    start.record(stream);
    launch(stream, make_launch(f, {8}, {128}, ScaleArgs{y.address(), x.address(), n, 1.5f},
                               context().info().shared_per_block_optin));
    end.record(stream);
    PinnedBuffer got(context(), n * 4);
    y.read(stream, got.data(), n * 4);
    ASSERT_TRUE(stream.done_within(10));
    for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(got.as<float>()[i], x_[i] + 1.5f) << i;
    EXPECT_GT(end.milliseconds_since(start), 0.0f);
  }
  EXPECT_EQ(cache.counts().hits, 1u);
  EXPECT_EQ(cache.problem(), "");
}

TEST_F(OnGpu, AssemblesForTheTargetsOfItsOwnGpu) {
  const uint32_t sm = context().info().sm;
  if (sm < 90) GTEST_SKIP() << "sm_" << sm << " has no target of its own";
  // an instruction that only the exact target has
  const std::string own = sm == 90 ? "wgmma.fence.sync.aligned;" : "";
  const Source s = add("add", fmt::format("sm_{}a", sm), own);
  Source newer = s;
  if (sm != 90) newer.text.replace(0, newer.text.find('\n'), ".version 8.8");
  const Module module = std::move(compile(context(), std::span(&newer, 1), nullptr).at(0));
  std::printf("%s\n", module.log().c_str());
  Buffer x = Buffer::of(context(), std::span<const float>(x_));
  Stream stream(context());
  launch(stream, make_launch(module.function("add"), {8}, {128}, ScaleArgs{x.address(), x.address(), n, 2.0f}));
  stream.synchronize();
  EXPECT_EQ(x.get<float>(n).at(999), x_[999] + 2.0f);
}

TEST_F(OnGpu, PlansAndGraphsDoTheSame) {
  const bool overlap = needs_sm(90);
  const Source s = overlap ? add("add", "sm_90", chained) : add("add", "sm_75");
  const Function f = std::move(compile(context(), std::span(&s, 1), nullptr).at(0)).function("add");
  Buffer x = Buffer::of(context(), std::span<const float>(x_)), a(context(), n * 4), b(context(), n * 4);
  Plan plan;
  plan.fill(b.address(), 0xff, n * 4);
  plan.copy(a.address(), x.address(), n * 4);
  for (int i = 0; i < 50; ++i)  // from a to b and back, adding 1 each time
    for (auto [to, from] : {std::pair(&b, &a), std::pair(&a, &b)}) {
      Launch l = make_launch(f, {8}, {128}, ScaleArgs{to->address(), from->address(), n, 1.0f});
      l.after_previous_starts = overlap;
      if (overlap) l.cluster.x = 2;
      plan.launch(l);
    }
  Stream stream(context());
  Graph graph = plan.graph(context());
  graph.upload(stream);
  for (int round = 0; round < 4; ++round) {
    a.fill(0);
    round % 2 ? graph.launch(stream) : plan.run(stream);
    stream.synchronize();
    const std::vector<float> got = a.get<float>(n);
    for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(got[i], x_[i] + 100.0f) << i << ", round " << round;
  }
  Event start(context()), middle(context()), end(context());
  start.record(stream);
  plan.run(stream);
  middle.record(stream);
  graph.launch(stream);
  end.record(stream);
  end.synchronize();
  std::printf("100 small launches: %.3f ms one by one, %.3f ms as a graph\n", double(middle.milliseconds_since(start)),
              double(end.milliseconds_since(middle)));
}

TEST_F(OnGpu, CompilesInParallel) {
  std::vector<Source> all;
  for (int i = 0; i < 16; ++i) all.push_back(add(fmt::format("add{}", i), "sm_75"));
  const std::vector<Module> modules = compile(context(), all, nullptr);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(modules[size_t(i)].function(fmt::format("add{}", i)).max_threads(), 1024u);
}

TEST_F(OnGpu, ErrorsSayWhatIsWrong) {
  Source s = add("add", "sm_75", "mov.u32 %r1, nonsense;");
  try {
    compile(context(), std::span(&s, 1), nullptr);
    FAIL();
  } catch (const CompileError& e) {
    expect_says(e.what(), {"kernel add for sm_75", "line 10", "    10 |   mov.u32 %r1, nonsense;"});
  }
  EXPECT_THROW(Buffer(context(), 2 * context().memory().total), OutOfMemory);
  s = add("add", "sm_75");
  const Module module = std::move(compile(context(), std::span(&s, 1), nullptr).at(0));
  expect_says(message<DriverError>([&] { module.function("dda"); }), {"cuModuleGetFunction, kernel dda"});
  if (context().driver_version() >= "12.4")
    expect_says(message<Error>([&] { module.function("add", 32); }), {"expected arguments of 32 bytes, it takes 24"});
  context().synchronize();  // the context still works
}

// In a process of its own, because the context of this one is still needed.
TEST_F(OnGpu, AnIllegalAddressLosesTheContext) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto lose = [&] {
    const Source s = add("add", "sm_75");
    const Function f = std::move(compile(context(), std::span(&s, 1), nullptr).at(0)).function("add");
    Stream stream(context());
    Buffer x(context(), 16);
    launch(stream, make_launch(f, {1}, {1}, ScaleArgs{16, 16, 1, 1.0f}));
    const std::string first = message<DriverError>([&] { stream.synchronize(); });
    const std::string second = message<DriverError>([&] { Buffer y(context(), 16); });
    expect_says(first, {"cuStreamSynchronize: ", "launched last: add", "the GPU context is lost"});
    expect_says(second, {"the GPU context was lost: cuStreamSynchronize: "});
  };
  auto lose_and_exit = [&] {
    lose();
    context_.reset();
    std::fflush(nullptr);
    std::exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(lose_and_exit(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace heddle::cuda
