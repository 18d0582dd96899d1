// Finding the driver and its GPUs: no driver, one that is too old, no GPU, several.
#include "cuda/driver.h"

#include "cuda/device.h"
#include "cuda/memory.h"
#include "tests/cuda/fake_test.h"

namespace heddle::cuda {
namespace {

class FakeDriver : public Fake {};

TEST_F(FakeDriver, IsLookedForUnderBothNames) {
  unsetenv("HEDDLE_LIBCUDA");
  try {
    driver();
    GTEST_SKIP() << "this machine has a driver";
  } catch (const NoDriver& e) {
    expect_says(e.what(), {"no NVIDIA driver library", "libcuda.so.1: ", "; libcuda.so: "});
  }
}

TEST_F(FakeDriver, ThatIsNotThereIsNamedAndTriedAgain) {
  setenv("HEDDLE_LIBCUDA", "/nowhere/libcuda.so.1", 1);
  expect_says(message<NoDriver>([] { devices(); }), {"/nowhere/libcuda.so.1", "No such file"});
  expect_says(message<NoDriver>([] { Context c; }), {"/nowhere/libcuda.so.1"});
  expect_says(message<NoDriver>([] { driver_version(); }), {"/nowhere/libcuda.so.1"});
  setenv("HEDDLE_LIBCUDA", driver_path(13000).c_str(), 1);
  EXPECT_EQ(driver_version(), "13.0");
}

TEST_F(FakeDriver, ThatIsNoDriverAtAll) {
  setenv("HEDDLE_LIBCUDA", "libm.so.6", 1);
  expect_says(message<NoDriver>([] { devices(); }), {"libm.so.6 has no cuDriverGetVersion", "of unknown version"});
}

TEST_F(FakeDriver, ThatIsTooOldNamesTheFunctionAndTheVersionNeeded) {
  use_driver(11040);
  expect_says(message<NoDriver>([] { Context c; }),
              {"fake_driver_11040.so has no cuLaunchKernelEx", "CUDA 11.8 or newer", "this one is for CUDA 11.4"});
}

TEST_F(FakeDriver, ThatLacksOnlyWhatIsOptionalWorks) {
  use_driver(11080);
  Context context;
  EXPECT_EQ(context.driver_version(), "11.8");
  const Function f = load(context, source("k", 16)).function("k");
  EXPECT_FALSE(f.args_known());
  EXPECT_EQ(load(context, source("k", 16)).function("k", 16).args_bytes(), 16u);
  expect_says(message<NoDriver>([&] { encode_tensor_map(context, {}); }), {"CUDA 12.0", "CUDA 11.8"});
}

TEST_F(FakeDriver, ThatRefusesToStartGivesItsReason) {
  control().fail["cuInit"] = code::no_device;
  setenv("CUDA_VISIBLE_DEVICES", "9", 1);
  expect_says(message<NoDevice>([] { devices(); }),
              {"no GPU", "cuInit", "no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)",
               "CUDA_VISIBLE_DEVICES is \"9\""});
  EXPECT_EQ(driver_version(), "13.0");  // needs no GPU
  control().fail.clear();
  EXPECT_EQ(devices().size(), 1u);
}

TEST_F(FakeDriver, WithoutAGpu) {
  control().devices = 0;
  expect_says(message<NoDevice>([] { devices(); }), {"no GPU: the driver finds none"});
  expect_says(message<NoDevice>([] { Context c; }), {"no GPU: the driver finds none"});
}

TEST_F(FakeDriver, UnknownErrorsKeepTheirNumber) {
  EXPECT_EQ(driver().reason(700), "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)");
  EXPECT_EQ(driver().reason(4711), "unknown error (error 4711)");
}

TEST_F(FakeDriver, DescribesEveryDevice) {
  control().devices = 2;
  control().sm = 121;
  const std::vector<DeviceInfo> all = devices();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].ordinal, 1u);
  EXPECT_EQ(all[1].name, "Fake GPU 1");
  EXPECT_EQ(all[0].sm, 121u);
  EXPECT_EQ(all[0].sms, 132u);
  EXPECT_EQ(all[0].memory, 8ull << 30);
  EXPECT_EQ(all[0].l2_bytes, 60u << 20);
  EXPECT_EQ(all[0].shared_per_block, 49152u);
  EXPECT_EQ(all[0].shared_per_block_optin, 232448u);
  EXPECT_EQ(all[0].shared_per_sm, 233472u);
  EXPECT_EQ(all[0].registers_per_sm, 65536u);
  EXPECT_EQ(all[0].threads_per_sm, 2048u);
  EXPECT_EQ(all[0].blocks_per_sm, 32u);
  EXPECT_EQ(all[0].clock_khz, 1980000u);
  EXPECT_EQ(all[0].bus_width, 6144u);
  EXPECT_NEAR(all[0].memory_bytes_per_second(), 4.917e12, 1e9);
  EXPECT_TRUE(all[0].ecc);
  EXPECT_FALSE(all[0].integrated);
  EXPECT_EQ(all[0].pci, "0000:1B:00.0");
  EXPECT_EQ(all[0].uuid, "GPU-00112233-4455-6677-8899-aabbccddeeff");
}

TEST_F(FakeDriver, ADeviceThatCannotBeAskedIsNamed) {
  control().fail["cuDeviceTotalMem_v2"] = 999;
  expect_says(message<NoDevice>([] { devices(); }), {"GPU 0 cannot be used", "cuDeviceTotalMem_v2", "error 999"});
}

TEST_F(FakeDriver, DescribesGpusAsOthers) {
  treat_gpus_as("sm_86");
  DeviceInfo info = devices()[0];
  EXPECT_EQ(info.sm, 86u);
  EXPECT_EQ(info.own_sm, 90u);
  EXPECT_FALSE(info.specific);
  EXPECT_EQ(info.shared_per_block_optin, 99u * 1024);
  EXPECT_EQ(info.shared_per_sm, 100u * 1024);
  EXPECT_EQ(info.threads_per_sm, 1536u);
  EXPECT_EQ(Context().info().sm, 86u);
  // one that is newer lends its limits
  treat_gpus_as("sm_120");
  info = devices()[0];
  EXPECT_EQ(info.sm, 90u);
  EXPECT_EQ(info.shared_per_block_optin, 99u * 1024);
  treat_gpus_as("");
  info = devices()[0];
  EXPECT_EQ(info.sm, 90u);
  EXPECT_TRUE(info.specific);
}

TEST_F(FakeDriver, RefusesToDescribeGpusAsWhatTheyCannotBe) {
  EXPECT_EQ(message<Error>([] { treat_gpus_as("sm_70"); }),
            "GPUs cannot be treated as \"sm_70\": expected one of sm_75, sm_80, sm_86, sm_89, sm_90, sm_100, sm_120");
  control().sm = 80;
  treat_gpus_as("sm_90");
  EXPECT_EQ(message<NoDevice>([] { devices(); }),
            "GPU 0 (Fake GPU 0) has compute capability 8.0 and cannot be treated as sm_90");
  treat_gpus_as("");
}

}  // namespace
}  // namespace heddle::cuda
