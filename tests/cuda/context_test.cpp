// A context: how long it is held, what its errors say, and what still works after it was lost.
#include "cuda/context.h"

#include <thread>

#include "cuda/context_state.h"
#include "cuda/memory.h"
#include "cuda/plan.h"
#include "tests/cuda/fake_test.h"

namespace heddle::cuda {
namespace {

class FakeContext : public Fake {};

TEST_F(FakeContext, IsRetainedOnceAndReleasedWithTheLastThatHoldsIt) {
  Buffer buffer;
  {
    Context context;
    const Context copy = context;
    EXPECT_EQ(control().retained, 1);
    EXPECT_EQ(copy.info().name, "Fake GPU 0");
    EXPECT_EQ(copy.driver_version(), "13.0");
    buffer = Buffer(copy, 16);
  }
  EXPECT_EQ(control().retained, 1);  // the buffer holds it
  buffer = {};
  EXPECT_EQ(control().retained, 0);
}

TEST_F(FakeContext, OfAGpuThatIsNotThere) {
  control().devices = 2;
  EXPECT_EQ(Context(1).info().ordinal, 1u);
  expect_says(message<NoDevice>([] { Context c(2); }), {"no GPU 2", "the driver has 2"});
}

TEST_F(FakeContext, ThatTheDriverRefuses) {
  control().fail["cuDevicePrimaryCtxRetain"] = 46;
  expect_says(message<NoDevice>([] { Context c; }),
              {"GPU 0 (Fake GPU 0) cannot be used", "cuDevicePrimaryCtxRetain", "error 46"});
  control().fail = {{"cuCtxSetCurrent", 201}};
  expect_says(message<NoDevice>([] { Context c; }), {"cuCtxSetCurrent", "CUDA_ERROR_INVALID_CONTEXT"});
}

TEST_F(FakeContext, ReportsItsMemory) {
  Context context;
  EXPECT_EQ(context.memory().free, 1u << 20);
  EXPECT_EQ(context.memory().total, 8ull << 30);
  context.synchronize();
  EXPECT_EQ(control().count("cuCtxSynchronize"), 1u);
}

TEST_F(FakeContext, IsMadeCurrentOncePerThreadThatUsesIt) {
  Context context;
  context.synchronize();
  context.synchronize();
  EXPECT_EQ(control().count("cuCtxSetCurrent"), 1u);
  std::thread other([&] {
    Buffer buffer(context, 16);  // fails unless the context is current here
    buffer.fill(1);
  });
  other.join();
  EXPECT_EQ(control().count("cuCtxSetCurrent"), 2u);
  context.use();
  EXPECT_EQ(control().count("cuCtxSetCurrent"), 3u);
}

TEST_F(FakeContext, TwoInTurnAreEachMadeCurrent) {
  control().devices = 2;
  Context a(0), b(1);
  const size_t before = control().count("cuCtxSetCurrent");
  a.synchronize();
  b.synchronize();
  b.synchronize();
  a.synchronize();
  EXPECT_EQ(control().count("cuCtxSetCurrent"), before + 3);
}

TEST_F(FakeContext, AfterAnotherWasReleasedIsMadeCurrentAgain) {
  { Context first; }
  Context second;
  second.synchronize();
}

TEST_F(FakeContext, ErrorsNameCallAndReasonAndLeaveItUsable) {
  Context context;
  control().fail["cuCtxSynchronize"] = 1;
  try {
    context.synchronize();
    FAIL();
  } catch (const DriverError& e) {
    EXPECT_STREQ(e.what(), "cuCtxSynchronize: invalid argument (CUDA_ERROR_INVALID_VALUE)");
    EXPECT_EQ(e.code, 1);
    EXPECT_EQ(e.name, "CUDA_ERROR_INVALID_VALUE");
    EXPECT_FALSE(e.context_lost);
    EXPECT_TRUE(e.kernel.empty());
  }
  EXPECT_FALSE(context.lost());
  control().fail.clear();
  context.synchronize();
}

TEST_F(FakeContext, LostStaysLostAndNothingCrashes) {
  Context context;
  Stream stream(context), other(context);
  Event event(context);
  Buffer buffer(context, 64);
  PinnedBuffer pinned(context, 64);
  Function kernel = load(context, source("broken", 4)).function("broken");
  Plan plan;
  plan.launch(make_launch(kernel, {1}, {32}, 7));
  Graph graph = plan.graph(context);
  plan.run(stream);

  control().fail["cuStreamSynchronize"] = 700;
  try {
    stream.synchronize();
    FAIL();
  } catch (const DriverError& e) {
    expect_says(e.what(), {"cuStreamSynchronize: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)",
                           "launched last: broken", "the GPU context is lost"});
    EXPECT_TRUE(e.context_lost);
    EXPECT_EQ(e.code, 700);
  }
  EXPECT_TRUE(context.lost());
  expect_says(context.why_lost(), {"illegal memory access"});

  const size_t calls = control().calls.size();
  auto refused = [&](auto&& f) {
    try {
      f();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const DriverError& e) {
      expect_says(e.what(), {"the GPU context was lost: cuStreamSynchronize: an illegal memory access"});
      EXPECT_TRUE(e.context_lost);
      EXPECT_EQ(e.code, 700);
    }
  };
  refused([&] { stream.synchronize(); });
  refused([&] { stream.done(); });
  refused([&] { other.wait(event); });
  refused([&] { event.record(stream); });
  refused([&] { buffer.fill(0); });
  refused([&] { Buffer another(context, 16); });
  refused([&] { plan.run(stream); });
  refused([&] { graph.launch(stream); });
  refused([&] { plan.graph(context); });
  refused([&] { load(context, source("k")); });
  refused([&] { context.synchronize(); });
  refused([&] { context.memory(); });
  refused([&] { context.use(); });
  std::thread([&] { refused([&] { context.synchronize(); }); }).join();
  EXPECT_EQ(control().calls.size(), calls) << "the driver was called";
}

TEST_F(FakeContext, EveryErrorThatLosesItIsKnown) {
  for (int c : {4, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719}) EXPECT_TRUE(loses_context(c)) << c;
  for (int c : {1, 2, 100, 200, 201, 218, 500, 600, 701, 704, 705, 720, 801, 900, 912, 999})
    EXPECT_FALSE(loses_context(c)) << c;
}

TEST_F(FakeContext, TheFirstReasonIsKept) {
  Context context;
  control().fail["cuMemAlloc_v2"] = 719;
  expect_says(message<DriverError>([&] { Buffer b(context, 16); }),
              {"cuMemAlloc_v2 of 16 bytes: unspecified launch failure", "the GPU context is lost"});
  // another thread's call fails after the first
  expect_says(message<DriverError>([&] { context.state()->fail(700, "cuCtxSynchronize"); }), {"illegal memory access"});
  expect_says(message<DriverError>([&] { context.synchronize(); }), {"was lost: cuMemAlloc_v2 of 16 bytes"});
}

TEST_F(FakeContext, ManyThreadsMayLoseItAtOnce) {
  Context context;
  control().fail["cuCtxSynchronize"] = 700;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) EXPECT_THROW(context.synchronize(), DriverError);
    });
  for (auto& t : threads) t.join();
  EXPECT_TRUE(context.lost());
}

}  // namespace
}  // namespace heddle::cuda
