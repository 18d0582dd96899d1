// A plan does the same work in the same order, whether it is run or made into a graph.
#include "cuda/plan.h"

#include "cuda/memory.h"
#include "tests/cuda/fake_test.h"

namespace heddle::cuda {
namespace {

struct Add {  // the fake kernel's: *at += value
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
  a.fill(1), b.fill(1);
  graph.launch(stream);  // the plan and its functions are gone
  EXPECT_EQ(b.get<int32_t>(1).at(0), 107);
  EXPECT_EQ(control().count("cuModuleUnload"), 0u);
  graph = {};
  EXPECT_EQ(control().count("cuModuleUnload"), 1u);
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
  plan.launch(l);  // behind a fill
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
