// Buffers: bytes arrive, nothing is freed twice, and what does not fit is refused with numbers.
#include "cuda/memory.h"

#include <numeric>

#include "tests/cuda/fake_test.h"

namespace heddle::cuda {
namespace {

class FakeMemory : public Fake {};

TEST_F(FakeMemory, BytesGoThereAndBack) {
  Context context;
  std::vector<int> data(100);
  std::iota(data.begin(), data.end(), 0);
  Buffer buffer = Buffer::of(context, std::span<const int>(data));
  EXPECT_EQ(buffer.bytes(), 400u);
  EXPECT_EQ(buffer.get<int>(100), data);
  EXPECT_EQ(buffer.get<int>(3, 40), (std::vector{10, 11, 12}));
  const int patch[] = {-1, -2};
  buffer.write(patch, 8, 4);
  EXPECT_EQ(buffer.get<int>(4), (std::vector{0, -1, -2, 3}));
  buffer.fill(0xff);
  EXPECT_EQ(buffer.get<int>(100), std::vector<int>(100, -1));
}

TEST_F(FakeMemory, CallsWithoutAStreamWaitUntilTheyAreDone) {
  Context context;
  Buffer buffer(context, 16);
  char bytes[16] = {};
  auto last = [&] { return control().calls.back(); };
  buffer.write(bytes, 16);
  EXPECT_EQ(last(), "cuStreamSynchronize");
  buffer.read(bytes, 16);
  EXPECT_EQ(last(), "cuStreamSynchronize");
  buffer.fill(1);
  EXPECT_EQ(last(), "cuStreamSynchronize");
  fill_device(context, buffer.address(), 2, 16);
  EXPECT_EQ(last(), "cuStreamSynchronize");
}

TEST_F(FakeMemory, CallsWithAStreamDoNot) {
  Context context;
  Stream stream(context);
  Buffer a(context, 16), b(context, 32);
  PinnedBuffer pinned(context, 16);
  a.fill(stream, 3);
  b.fill(stream, 4);
  b.copy(stream, a);
  b.read(stream, pinned.data(), 16, 8);
  EXPECT_EQ(control().count("cuStreamSynchronize"), 0u);
  stream.synchronize();
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(pinned.as<uint8_t>()[i], i < 8 ? 3 : 4);
  pinned.as<uint8_t>()[0] = 9;
  a.write(stream, pinned.data(), 1, 15);
  stream.synchronize();
  EXPECT_EQ(a.get<uint8_t>(1, 15).at(0), 9);
}

TEST_F(FakeMemory, AddressesInTheMiddle) {
  Context context;
  Stream stream(context);
  Buffer buffer(context, 8);
  uint8_t bytes[4] = {1, 2, 3, 4};
  fill_device(context, buffer.address(), 0, 8);
  write_device(context, buffer.address() + 2, bytes, 4);
  copy_device(stream, buffer.address() + 6, buffer.address() + 2, 2);
  fill_device(stream, buffer.address(), 7, 1);
  EXPECT_EQ(buffer.get<uint8_t>(8), (std::vector<uint8_t>{7, 0, 1, 2, 3, 4, 1, 2}));
  read_device(context, bytes, buffer.address(), 2);
  EXPECT_EQ(bytes[0], 7);
  write_device(stream, buffer.address(), bytes + 2, 1);
  read_device(stream, bytes + 3, buffer.address(), 1);
  EXPECT_EQ(bytes[3], 3);
}

TEST_F(FakeMemory, MovedIsFreedOnce) {
  Context context;
  {
    Buffer a(context, 16), b(context, 32);
    const uint64_t address = a.address();
    Buffer c = std::move(a);
    EXPECT_EQ(a.bytes(), 0u);
    EXPECT_EQ(a.address(), 0u);
    EXPECT_EQ(c.address(), address);
    b = std::move(c);
    EXPECT_EQ(b.address(), address);
    EXPECT_EQ(b.bytes(), 16u);
    EXPECT_EQ(control().count("cuMemFree_v2"), 1u);  // what b was before
    EXPECT_THROW(a.fill(0), std::logic_error);
    Buffer& same = b;
    b = std::move(same);
    EXPECT_EQ(b.address(), address);

    PinnedBuffer p(context, 8);
    PinnedBuffer q = std::move(p);
    EXPECT_EQ(p.bytes(), 0u);
    EXPECT_EQ(p.data(), nullptr);
    EXPECT_EQ(q.bytes(), 8u);
  }
  EXPECT_EQ(control().count("cuMemFree_v2"), 2u);
  EXPECT_EQ(control().count("cuMemFreeHost"), 1u);
}

TEST_F(FakeMemory, NothingIsEnough) {
  Context context;
  Buffer buffer(context, 0);
  EXPECT_EQ(buffer.address(), 0u);
  buffer.fill(1);
  buffer.write(nullptr, 0);
  EXPECT_TRUE(buffer.get<int>(0).empty());
  EXPECT_EQ(control().count("cuMemAlloc_v2"), 0u);
  EXPECT_EQ(PinnedBuffer(context, 0).bytes(), 0u);
}

TEST_F(FakeMemory, WhatDoesNotFitSaysHowMuchThereIs) {
  Context context;
  control().free_bytes = 100 << 20;
  try {
    Buffer b(context, 5ull << 30);
    FAIL();
  } catch (const OutOfMemory& e) {
    expect_says(e.what(), {"cuMemAlloc_v2 of 5.00 GiB (5368709120 bytes)", "out of memory", "100.0 MiB", "8.00 GiB"});
    EXPECT_EQ(e.asked, 5ull << 30);
    EXPECT_EQ(e.free, 100u << 20);
    EXPECT_FALSE(e.context_lost);
  }
  control().fail["cuMemHostAlloc"] = 2;
  expect_says(message<OutOfMemory>([&] { PinnedBuffer p(context, 4096); }), {"cuMemHostAlloc of 4096 bytes"});
  control().fail = {{"cuMemGetInfo_v2", 999}, {"cuMemAlloc_v2", 2}};
  expect_says(message<OutOfMemory>([&] { Buffer b(context, 4096); }), {"4096 bytes: out of memory"});
}

TEST_F(FakeMemory, CopiesBeyondTheEndAreRefused) {
  Context context;
  Stream stream(context);
  Buffer buffer(context, 16), small(context, 8);
  char bytes[32] = {};
  expect_says(message<Error>([&] { buffer.write(bytes, 17); }), {"write of 17 bytes at offset 0", "has 16 bytes"});
  expect_says(message<Error>([&] { buffer.read(bytes, 1, 16); }), {"read of 1 bytes at offset 16"});
  expect_says(message<Error>([&] { buffer.read(stream, bytes, 8, size_t(-4)); }), {"has 16 bytes"});
  expect_says(message<Error>([&] { small.copy(stream, buffer); }), {"copy of 16 bytes", "has 8 bytes"});
  buffer.write(bytes, 0, 16);
}

// The driver gets a tensor's description in its own order.
class FakeTensorMap : public Fake {};

TEST_F(FakeTensorMap, IsEncodedByTheDriver) {
  Context context;
  const EncodedTensorMap map = encode_tensor_map(context, {.type = TensorType::bf16,
                                                           .rank = 3,
                                                           .address = 0x7000,
                                                           .size = {128, 64, 3},
                                                           .stride = {0, 256, 16384},
                                                           .box = {64, 8, 1},
                                                           .swizzle = TensorSwizzle::b128});
  EXPECT_EQ(map.words[15], 0xababababababababu);
  EXPECT_EQ(control().tensor_map, (std::vector<int64_t>{9, 3, 0x7000, 128, 64, 3, 256, 16384, 64, 8, 1, 3}));
  control().fail["cuTensorMapEncodeTiled"] = 1;
  expect_says(message<DriverError>([&] { encode_tensor_map(context, {}); }),
              {"cuTensorMapEncodeTiled: invalid argument"});
}

}  // namespace
}  // namespace heddle::cuda
