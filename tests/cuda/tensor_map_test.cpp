// The driver gets a tensor's description in its own order.
#include "cuda/tensor_map.h"

#include "tests/cuda/fake_test.h"

namespace heddle::cuda {
namespace {

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
