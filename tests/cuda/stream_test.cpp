// Streams and events: waiting, timing and ownership.
#include "cuda/stream.h"

#include <chrono>
#include <thread>

#include "tests/cuda/fake_test.h"

namespace heddle::cuda {
namespace {

class FakeStream : public Fake {};

TEST_F(FakeStream, WaitsNoLongerThanAsked) {
  Context context;
  Stream stream(context);
  EXPECT_TRUE(stream.done());
  control().busy = true;
  EXPECT_FALSE(stream.done());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(stream.done_within(0.02));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
  control().busy = false;
  EXPECT_TRUE(stream.done_within(10));
  stream.synchronize();
}

TEST_F(FakeStream, AFailureIsNotTakenForBusy) {
  Context context;
  Stream stream(context);
  Event event(context);
  control().fail["cuStreamQuery"] = 1;
  expect_says(message<DriverError>([&] { stream.done_within(1); }), {"cuStreamQuery: invalid argument"});
  control().fail["cuEventQuery"] = 700;
  expect_says(message<DriverError>([&] { event.done(); }), {"cuEventQuery: an illegal memory access"});
}

TEST_F(FakeStream, EventsTimeAndOrder) {
  Context context;
  Stream a(context), b(context);
  Event start(context), end(context), mark(context, Event::untimed);
  start.record(a);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  end.record(a);
  mark.record(a);
  b.wait(mark);
  end.synchronize();
  EXPECT_TRUE(end.done());
  EXPECT_GE(end.milliseconds_since(start), 5.0f);
  EXPECT_LT(start.milliseconds_since(end), 0.0f);
  control().busy = true;
  EXPECT_FALSE(end.done());
  control().busy = false;
}

TEST_F(FakeStream, MovedIsDestroyedOnce) {
  Context context;
  {
    Stream a(context);
    void* handle = a.handle();
    Stream b = std::move(a);
    EXPECT_EQ(b.handle(), handle);
    a = Stream(context);
    b = std::move(a);
    EXPECT_EQ(control().count("cuStreamDestroy_v2"), 1u);
    Event e(context);
    Event f = std::move(e);
    f.record(b);
    EXPECT_THROW(e.synchronize(), std::logic_error);
    EXPECT_THROW(a.synchronize(), std::logic_error);
  }
  EXPECT_EQ(control().count("cuStreamDestroy_v2"), 2u);
  EXPECT_EQ(control().count("cuEventDestroy_v2"), 1u);
}

}  // namespace
}  // namespace heddle::cuda
