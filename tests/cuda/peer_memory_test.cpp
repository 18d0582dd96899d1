// Memory of another process, as far as a fake driver can show it: it is named, opened, and closed once.
#include "cuda/peer_memory.h"

#include "tests/cuda/fake_test.h"

namespace heddle::cuda {
namespace {

class FakePeerMemory : public Fake {
  void SetUp() override {
    Fake::SetUp();
    control().free_bytes = 8 << 20;
  }
};

TEST_F(FakePeerMemory, IsTheSameMemory) {
  const Context context;
  Buffer buffer(context, shared_page);
  buffer.fill(7);
  {
    const PeerMemory peer(context, share(buffer));
    std::vector<uint8_t> found(4);
    read_device(context, found.data(), peer.address() + 100, 4);
    EXPECT_EQ(found, (std::vector<uint8_t>{7, 7, 7, 7}));
    EXPECT_EQ(control().opened, 1);
  }
  EXPECT_EQ(control().opened, 0);
}

TEST_F(FakePeerMemory, SharesWholePagesOnly) {
  const Context context;
  EXPECT_EQ(message<Error>([&] { share(Buffer(context, 1000)); }),
            "a buffer of 1000 bytes cannot be shared: expected a multiple of 2097152");
}

TEST_F(FakePeerMemory, FailuresAreNamed) {
  const Context context;
  const Buffer buffer(context, shared_page);
  control().fail["cuIpcGetMemHandle"] = 801;
  expect_says(message<DriverError>([&] { share(buffer); }), {"cuIpcGetMemHandle"});
  control().fail.clear();
  const MemoryHandle handle = share(buffer);
  control().fail["cuIpcOpenMemHandle_v2"] = 217;
  expect_says(message<DriverError>([&] { PeerMemory(context, handle); }), {"cuIpcOpenMemHandle_v2"});
}

}  // namespace
}  // namespace heddle::cuda
