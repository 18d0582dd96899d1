// NCCL on the fake: found or not, ranks as threads, its work in plans and graphs, and what fails.
#include "cuda/nccl.h"

#include <thread>

#include "cuda/memory.h"
#include "cuda/plan.h"
#include "tests/cuda/fake_test.h"

namespace heddle::cuda {
namespace {

class FakeNccl : public Fake {
 protected:
  void SetUp() override {
    Fake::SetUp();
    setenv("HEDDLE_LIBNCCL", driver_path(13000).c_str(), 1);
  }
  void TearDown() override {
    unsetenv("HEDDLE_LIBNCCL");
    Fake::TearDown();
  }
  // f(communicator, context, rank) in a thread for each rank.
  void with_ranks(uint32_t ranks, const std::function<void(Communicator&, const Context&, uint32_t)>& f) {
    const NcclId id = make_nccl_id();
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        const Context context;
        Communicator communicator(context, id, rank, ranks);
        f(communicator, context, rank);
      });
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(FakeNccl, IsLookedForUnderBothNames) {
  unsetenv("HEDDLE_LIBNCCL");
  try {
    nccl();
    GTEST_SKIP() << "this machine has NCCL";
  } catch (const NoNccl& e) {
    expect_says(e.what(), {"no NCCL library", "libnccl.so.2: ", "; libnccl.so: ", "HEDDLE_LIBNCCL"});
  }
}

TEST_F(FakeNccl, ThatIsNotThereOrNoneIsNamed) {
  setenv("HEDDLE_LIBNCCL", "/nowhere/libnccl.so.2", 1);
  expect_says(message<NoNccl>([] { nccl(); }), {"/nowhere/libnccl.so.2", "No such file"});
  setenv("HEDDLE_LIBNCCL", "libm.so.6", 1);
  expect_says(message<NoNccl>([] { make_nccl_id(); }), {"libm.so.6 has no nccl", "NCCL 2."});
}

TEST_F(FakeNccl, HasAVersion) { EXPECT_EQ(nccl().version_text(), "2.28.3"); }

TEST_F(FakeNccl, SumsAndGathersInPlansAndGraphs) {
  with_ranks(3, [](Communicator& group, const Context& context, uint32_t rank) {
    Stream stream(context);
    const std::vector<float> part{float(rank), 10.0f * float(rank), 1};
    Buffer values = Buffer::of<float>(context, part), all(context, 9 * 4);
    Plan plan;
    plan.call([&](Stream& to) { group.sum(to, values.address(), 3); });
    plan.call([&](Stream& to) { group.gather(to, values.address(), all.address(), 3); });
    plan.run(stream);
    EXPECT_EQ(values.get<float>(3), (std::vector<float>{3, 30, 3}));
    Graph graph = plan.graph(context);
    EXPECT_EQ(values.get<float>(3), (std::vector<float>{3, 30, 3}));  // recorded, not run
    for (float times : {9.0f, 27.0f}) {
      graph.launch(stream);
      EXPECT_EQ(values.get<float>(3), (std::vector<float>{times, 10 * times, times}));
      EXPECT_EQ(all.get<float>(9)[7], 10 * times);
    }
    EXPECT_EQ(group.failure(), "");
  });
}

TEST_F(FakeNccl, SendsFromOneRankToAnother) {
  with_ranks(2, [](Communicator& group, const Context& context, uint32_t rank) {
    Stream stream(context);
    Buffer values = Buffer::of<float>(context, std::vector<float>{float(rank), 5});
    if (rank == 0)
      group.send(stream, 1, values.address(), 2);
    else
      group.receive(stream, 0, values.address(), 2);
    EXPECT_EQ(values.get<float>(2), (std::vector<float>{0, 5}));
  });
}

TEST_F(FakeNccl, ARankThatLeavesIsNoticedAndNothingIsWaitedFor) {
  with_ranks(2, [](Communicator& group, const Context& context, uint32_t rank) {
    if (rank == 1) {
      group.abort();
      EXPECT_EQ(group.failure(), "the group was ended");
      Stream stream(context);
      expect_says(message<NcclError>([&] { group.sum(stream, 0, 1); }), {"was ended"});
      return;
    }
    Stream stream(context);
    Buffer values(context, 4);
    group.sum(stream, values.address(), 1);
    EXPECT_EQ(group.failure(), "remote process error (NCCL error 6)");
  });
}

TEST_F(FakeNccl, FailedCallsAreNamed) {
  control().fail["ncclGetUniqueId"] = 2;
  expect_says(message<NcclError>([] { make_nccl_id(); }), {"ncclGetUniqueId: some error (NCCL error 2)"});
  control().fail.clear();
  const NcclId id = make_nccl_id();
  const Context context;
  control().fail["ncclCommInitRank"] = 2;
  expect_says(message<NcclError>([&] { Communicator(context, id, 0, 1); }), {"ncclCommInitRank"});
  control().fail.clear();
  Communicator alone(context, id, 0, 1);
  control().fail["ncclAllReduce"] = 5;
  Stream stream(context);
  expect_says(message<NcclError>([&] { alone.sum(stream, 0, 0); }), {"ncclAllReduce"});
}

}  // namespace
}  // namespace heddle::cuda
