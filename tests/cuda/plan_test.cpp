// A launch reaches the driver as it was asked for, or is refused with the kernel's name. A plan does the same work in
// the same order, whether it is run or made into a graph.
#include "cuda/plan.h"

#include "cuda/memory.h"
#include "tests/cuda/fake_test.h"

namespace heddle::cuda {
namespace {

// --- launches -------------------------------------------------------------------------------------------------------
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

// --- plans ----------------------------------------------------------------------------------------------------------
struct Add {  // arguments of the fake kernel, which does *at += value
  uint64_t at;
  int32_t value, unused = 0;
};

class FakePlan : public Fake {
 protected:
  void SetUp() override {
    Fake::SetUp();
    control().on_launch = [](const fake::LaunchRecord& l) {
      Add add{};
      std::memcpy(&add, l.args.data(), sizeof add);
      *reinterpret_cast<int32_t*>(add.at) += add.value;
    };
  }
};

TEST_F(FakePlan, RunsAndIsAGraph) {
  Context context;
  Stream stream(context);
  Buffer a(context, 4), b(context, 4);
  b.fill(0);
  Graph graph;
  {
    Plan plan;
    const Function f = load(context, source("add", sizeof(Add))).function("add");
    EXPECT_EQ(plan.fill(a.address(), 0, 4), 0u);
    EXPECT_EQ(plan.launch(make_launch(f, {1}, {1}, Add{a.address(), 5})), 1u);
    EXPECT_EQ(plan.launch(make_launch(f, {1}, {1}, Add{a.address(), 7})), 2u);
    EXPECT_EQ(plan.copy(b.address(), a.address(), 4), 3u);
    EXPECT_EQ(plan.size(), 4u);
    EXPECT_EQ(plan.launches(), 2u);
    plan.run(stream);
    EXPECT_EQ(b.get<int32_t>(1).at(0), 12);

    b.fill(0);
    plan.set_args(1, Add{a.address(), 100});
    graph = plan.graph(context);
    EXPECT_EQ(b.get<int32_t>(1).at(0), 0) << "capturing must not run anything";
    plan.set_args(1, Add{a.address(), 1000});  // too late for the graph
  }
  graph.upload(stream);
  graph.launch(stream);
  EXPECT_EQ(b.get<int32_t>(1).at(0), 107);
  a.fill(1);
  b.fill(1);
  graph.launch(stream);  // the plan and its functions are gone
  EXPECT_EQ(b.get<int32_t>(1).at(0), 107);
  EXPECT_EQ(control().count("cuModuleUnload"), 0u);
  graph = {};
  EXPECT_EQ(control().count("cuModuleUnload"), 1u);
}

TEST_F(FakePlan, RunsInPieces) {
  Context context;
  Stream stream(context);
  Buffer a(context, 4);
  a.fill(0);
  Plan plan;
  const Function f = load(context, source("add", sizeof(Add))).function("add");
  auto add = [&](int32_t value) {
    Launch l = make_launch(f, {1}, {1}, Add{a.address(), value});
    l.after_previous_starts = true;
    plan.launch(l);
  };
  add(1);
  add(2);
  plan.run(stream);
  EXPECT_EQ(a.get<int32_t>(1).at(0), 3);
  add(4);
  plan.run(stream, 2);
  EXPECT_EQ(a.get<int32_t>(1).at(0), 7);
  EXPECT_TRUE(control().launches.back().overlap) << "with the last one of the piece before";
  plan.run(stream, 3);
  EXPECT_EQ(a.get<int32_t>(1).at(0), 7);
}

TEST_F(FakePlan, OverlapsOnlyWithALaunch) {
  Context context;
  Stream stream(context);
  Buffer a(context, 4);
  Launch l = make_launch(load(context, source("add", sizeof(Add))).function("add"), {1}, {1}, Add{a.address(), 1});
  l.after_previous_starts = true;
  Plan plan;
  plan.launch(l);  // nothing before it
  plan.launch(l);
  plan.fill(a.address(), 0, 4);
  plan.launch(l);  // after a fill
  plan.launch(l);
  plan.run(stream);
  plan.graph(context).launch(stream);
  std::vector<bool> seen;
  for (auto& launch : control().launches) seen.push_back(launch.overlap);
  EXPECT_EQ(seen, (std::vector<bool>{false, true, false, true, false, true, false, true}));
}

TEST_F(FakePlan, OfNothingIsAGraphOfNothing) {
  Context context;
  Stream stream(context);
  Graph graph = Plan().graph(context);
  graph.launch(stream);
  EXPECT_TRUE(control().launches.empty());
}

TEST_F(FakePlan, RefusesWhatCannotBeRightWhenItIsAdded) {
  Context context;
  Plan plan;
  Launch l = make_launch(load(context, source("add", sizeof(Add))).function("add"), {1}, {1}, Add{});
  plan.fill(0, 0, 0);
  plan.launch(l);
  l.block.x = 2000;
  expect_says(message<Error>([&] { plan.launch(l); }), {"kernel add: 2000 x 1 x 1 threads"});
  EXPECT_EQ(plan.size(), 2u);
  expect_says(message<Error>([&] { plan.set_args(1, 3); }), {"kernel add: expected arguments of 16 bytes, found 4"});
  expect_says(message<Error>([&] { plan.set_args(0, Add{}); }), {"step 0 of a plan of 2 is not a launch"});
  expect_says(message<Error>([&] { plan.set_args(2, Add{}); }), {"step 2 of a plan of 2"});
}

TEST_F(FakePlan, AFailureWhileCapturingLeavesNothingBehind) {
  Context context;
  Stream stream(context);
  Buffer a(context, 4);
  Plan plan;
  const Function f = load(context, source("add", sizeof(Add))).function("add");
  plan.launch(make_launch(f, {1}, {1}, Add{a.address(), 1}));
  plan.launch(make_launch(f, {1}, {1}, Add{a.address(), 1}));
  for (const char* call :
       {"cuLaunchKernelEx", "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"}) {
    control().fail[call] = 1;
    control().fail_at[call] = std::string(call) == "cuLaunchKernelEx" ? 2 : 1;
    expect_says(message<DriverError>([&] { plan.graph(context); }), {call, "invalid argument"});
    EXPECT_TRUE(control().fail.empty());
  }
  EXPECT_FALSE(context.lost());
  Graph graph = plan.graph(context);
  graph.launch(stream);
  EXPECT_EQ(control().launches.size(), 2u);
}

TEST_F(FakePlan, ALostContextSaysWhichGraphRan) {
  Context context;
  Stream stream(context);
  Buffer a(context, 4);
  Plan plan;
  plan.fill(a.address(), 0, 4);
  plan.launch(make_launch(load(context, source("add", sizeof(Add))).function("add"), {1}, {1}, Add{a.address(), 1}));
  Graph graph = plan.graph(context);
  graph.launch(stream);
  control().fail["cuStreamSynchronize"] = 719;
  expect_says(message<DriverError>([&] { stream.synchronize(); }),
              {"launched last: a graph of 2 steps, with kernels add to add"});
}

TEST_F(FakePlan, MovedGraphsAreDestroyedOnce) {
  Context context;
  Graph a = Plan().graph(context);
  Graph b = std::move(a);
  a = std::move(b);
  b = Plan().graph(context);
  EXPECT_EQ(control().count("cuGraphExecDestroy"), 0u);
  EXPECT_EQ(control().count("cuGraphDestroy"), 2u);  // what they were made from
}

}  // namespace
}  // namespace heddle::cuda
