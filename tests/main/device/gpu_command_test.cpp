// `heddle devices`, `selftest` and `bench kernels` without a driver, without a GPU, and on one with kernels that
// compute nothing: they must say so, and the last must be called wrong.
#include "main/device/gpu_command.h"

#include <nlohmann/json.hpp>

#include "kernels/spec/catalog.h"
#include "tests/cuda/fake_test.h"
#include "tests/main/heddle_command.h"

namespace heddle {
namespace {

using cuda::expect_says;

using test::heddle;
using test::Result;

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

const std::vector<std::vector<std::string>> commands{
    {"devices"}, {"selftest"}, {"selftest", "rms_norm", "--sweep", "quick"}, {"bench", "kernels"}};

// One line on stderr, nothing else.
void expect_refused(const std::vector<std::string>& command, std::initializer_list<const char*> parts) {
  const Result result = heddle(command);
  EXPECT_EQ(result.status, 1) << command[0];
  EXPECT_EQ(result.out, "") << command[0];
  EXPECT_EQ(result.err.rfind("heddle: ", 0), 0u) << result.err;
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  EXPECT_EQ(result.err.find("bug"), std::string::npos) << result.err;
  expect_says(result.err, parts);
}

class WithoutDriver : public testing::Test {
 protected:
  void SetUp() override { setenv("HEDDLE_LIBCUDA", "/nowhere/libcuda.so", 1); }
  void TearDown() override { unsetenv("HEDDLE_LIBCUDA"); }
};

TEST_F(WithoutDriver, EveryCommandSaysWhatIsMissing) {
  for (auto& command : commands)
    expect_refused(command, {"heddle: no NVIDIA driver library (tried /nowhere/libcuda.so"});
}

TEST_F(WithoutDriver, WrongWordsAreNamedBeforeADriverIsLookedFor) {
  expect_refused({"selftest", "rms_norm", "no_such_kernel"},
                 {"heddle: no kernel is called no_such_kernel; there are ", "rms_norm", "any_attention", "heads"});
  expect_refused({"selftest", "--sweep", "some"}, {"heddle: --sweep: expected quick, normal or full, found \"some\""});
  expect_refused({"bench", "kernels", "no_such_kernel"},
                 {"heddle: no kernel is called no_such_kernel; there are ", "product", "rms_norm"});
  expect_refused({"bench", "kernels", "--shape", "no_such_shape"}, {"heddle: no shape contains \"no_such_shape\""});
}

// Of CUDA 11.8: the fake driver of a newer one does not know what arguments these kernels take.
class OnFake : public cuda::Fake {
 protected:
  void SetUp() override {
    Fake::SetUp();
    use_driver(11080);
    control().free_bytes = size_t(128) << 20;
    setenv("HEDDLE_CACHE_DIR", "off", 1);
  }
  void TearDown() override {
    unsetenv("HEDDLE_CACHE_DIR");
    Fake::TearDown();
  }
};

TEST_F(OnFake, WithoutAGpuEveryCommandSaysSo) {
  control().devices = 0;
  for (auto& command : commands) expect_refused(command, {"heddle: no GPU: the driver finds none"});
}

TEST_F(OnFake, AGpuThatIsNotThereIsNamed) {
  for (auto command : {std::vector<std::string>{"selftest"}, {"bench", "kernels"}}) {
    command.insert(command.end(), {"--device", "3"});
    expect_refused(command, {"heddle: there is no GPU 3: the driver has 1, numbered from 0"});
  }
}

TEST_F(OnFake, DevicesShowsEachGpu) {
  control().devices = 2;
  const Result result = heddle({"devices"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  expect_says(result.out, {"cuda:0  Fake GPU 0\n", "cuda:1  Fake GPU 1\n", "  compute capability    9.0\n",
                           "  driver                CUDA 11.8\n", "  multiprocessors       132\n",
                           "  L2 cache              60 MiB\n", "  shared memory         227 KiB per block\n",
                           "0.1 GiB free)\n", "  kernels for           sm_90a\n", " GB/s, measured\n"});
  EXPECT_EQ(count(result.out, "kernels for"), 2u) << result.out;
  EXPECT_EQ(count(result.out, "cannot be used"), 0u) << result.out;
}

TEST_F(OnFake, DevicesShowsAGpuAsAnother) {
  expect_says(heddle({"devices", "--gpu-as", "sm_86"}).out,
              {"  compute capability    8.6\n", "  path                  cp.async and mma, one launch after the other",
               "  shared memory         99 KiB per block\n", "  kernels for           sm_86\n"});
  expect_says(heddle({"devices"}).out, {"  path                  wgmma", "  kernels for           sm_90a\n"});
  EXPECT_EQ(count(heddle({"devices", "--help"}).out, "gpu-as"), 0u);
  for (auto command : commands) {
    command.insert(command.end(), {"--gpu-as", "sm_61"});
    expect_refused(command, {"heddle: GPUs cannot be treated as \"sm_61\": expected one of sm_75, sm_80, "});
  }
}

TEST_F(OnFake, DevicesShowsWhyAGpuCannotBeUsed) {
  control().sm = 70;
  const Result result = heddle({"devices"});
  EXPECT_EQ(result.status, 0);
  expect_says(result.out, {"  compute capability    7.0\n", "cannot be used", "compute capability 7.0 is too old"});
  EXPECT_EQ(count(result.out, "measured"), 0u) << result.out;
}

// The table's line of a kernel.
std::string line_of(const std::string& out, const std::string& kernel) {
  const size_t at = ("\n" + out).find("\n" + kernel + " ");
  return at == out.npos ? "" : out.substr(at, out.find('\n', at) - at);
}

// Every case that has something to compare must fail where kernels compute nothing: else it is no proof.
TEST_F(OnFake, SelftestFailsWhereKernelsComputeNothing) {
  const Result result = heddle({"selftest", "--sweep", "quick", "--threads", "2"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, "");
  expect_says(result.out, {"Fake GPU 0, compute capability 9.0, driver 11.8\n", "\nFAILED ", "... and "});
  EXPECT_EQ(count(result.out, "\nFAILED "), 20u) << "the first twenty are shown";
  uint32_t tested = 0;
  const size_t header = result.out.find("\nkernel ");
  ASSERT_NE(header, std::string::npos) << result.out;
  for (size_t begin = result.out.find('\n', header + 1) + 1; result.out.compare(begin, 7, "FAILED ") != 0;
       begin = result.out.find('\n', begin) + 1) {
    std::istringstream line(result.out.substr(begin, result.out.find('\n', begin) - begin));
    std::string name;
    uint32_t cases = 0, failed = 0;
    line >> name >> cases >> failed;
    EXPECT_GT(cases, 0u) << line.str();
    EXPECT_EQ(failed, cases) << line.str();
    ++tested;
  }
  EXPECT_EQ(tested, kernels::catalog().size());
  EXPECT_NE(result.out.find(fmt::format("\n{} kernels, ", tested)), std::string::npos) << result.out;
}

TEST_F(OnFake, SelftestRunsWhatWasAskedFor) {
  const Result result = heddle({"selftest", "rms_norm", "norm_add", "--sweep", "quick"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(line_of(result.out, "rms_norm"), "");
  EXPECT_NE(line_of(result.out, "norm_add"), "");
  EXPECT_EQ(line_of(result.out, "layer_norm"), "");
  expect_says(result.out, {"\nFAILED rms_norm ", "\nFAILED norm_add ", "\n2 kernels, 2 cases, ", " 2 failed, "});
}

TEST_F(OnFake, SelftestSaysWhatIsNotForThisGpu) {
  control().sm = 86;
  const Result result = heddle({"selftest", "cluster_attention", "--sweep", "quick"});
  EXPECT_EQ(result.status, 1) << "nothing was run, so nothing is proved";
  expect_says(result.out, {"(2 not for this GPU)\n", "1 kernels, 0 cases, 0 values compared"});
}

TEST_F(OnFake, SelftestShowsWhatTheDriverRefuses) {
  control().fail["cuLinkComplete"] = 218;
  const Result result = heddle({"selftest", "rms_norm", "--sweep", "quick", "--threads", "1"});
  EXPECT_EQ(result.status, 1);
  expect_says(result.out, {"FAILED rms_norm ", "cuLinkComplete", "CUDA_ERROR_INVALID_PTX"});
}

TEST_F(OnFake, BenchDoesNotTimeWhatIsWrong) {
  const Result result = heddle({"bench", "kernels", "rms_norm"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, "");
  expect_says(result.out, {"Fake GPU 0", "streaming limit", "kernels start in", "\nrms_norm ", "FAILED rms_norm "});
  EXPECT_EQ(count(result.out, "%\n"), 0u) << result.out;
}

TEST_F(OnFake, BenchPrintsJson) {
  const Result result = heddle({"bench", "kernels", "rms_norm", "--json"});
  EXPECT_EQ(result.status, 1);
  const auto all = nlohmann::json::parse(result.out);
  EXPECT_EQ(all.at("device"), "Fake GPU 0");
  EXPECT_EQ(all.at("compute_capability"), 9.0);
  EXPECT_GT(all.at("streaming_limit_gb_s"), 0);
  EXPECT_EQ(all.at("kernels_loaded"), kernels::catalog().size());
  ASSERT_FALSE(all.at("kernels").empty());
  for (auto& one : all.at("kernels")) {
    EXPECT_EQ(one.at("kernel"), "rms_norm");
    EXPECT_NE(one.at("failure"), "");
    EXPECT_FALSE(one.contains("microseconds"));
  }
}

}  // namespace
}  // namespace heddle
