// Modules and functions: a kernel's attributes, which can be set, and how long it stays loaded.
#include "cuda/module.h"

#include "cuda/driver.h"
#include "tests/cuda/fake_test.h"

namespace heddle::cuda {
namespace {

class FakeModule : public Fake {};

TEST_F(FakeModule, FunctionsReportTheirAttributes) {
  Context context;
  const Module module = load(context, source("norm", 24, "shared 1024"));
  EXPECT_EQ(module.name(), "norm");
  const Function f = module.function("norm", 24);
  EXPECT_EQ(f.name(), "norm");
  EXPECT_EQ(control().count("cuFuncLoad"), 1u);
  EXPECT_EQ(f.args_bytes(), 24u);
  EXPECT_EQ(f.registers(), 12u);
  EXPECT_EQ(f.local_bytes(), 16u);
  EXPECT_EQ(f.shared_bytes(), 1024u);
  EXPECT_EQ(f.max_threads(), 1024u);
  EXPECT_EQ(f.max_dynamic_shared(), 47u << 10);
  EXPECT_EQ(f.blocks_per_sm(256), 8u);
  EXPECT_EQ(f.blocks_per_sm(256, 100000), 2u);
}

TEST_F(FakeModule, AKernelThatIsNotThereIsNamed) {
  Context context;
  const Module module = load(context, source("norm", 24));
  for (int twice = 0; twice < 2; ++twice)
    expect_says(message<DriverError>([&] { module.function("nrom"); }),
                {"cuModuleGetFunction, kernel nrom: named symbol not found (CUDA_ERROR_NOT_FOUND)"});
}

TEST_F(FakeModule, ArgumentsOfAnotherSizeAreRefusedWhenLoaded) {
  Context context;
  const Module module = load(context, source("norm", 24));
  expect_says(message<Error>([&] { module.function("norm", 32); }),
              {"kernel norm: expected arguments of 32 bytes, it takes 24"});
  EXPECT_EQ(load(context, source("none")).function("none").args_bytes(), 0u);
}

TEST_F(FakeModule, StaysLoadedAsLongAsItsFunctions) {
  Context context;
  {
    Function f;
    {
      const Module module = load(context, source("norm"));
      f = module.function("norm");
    }
    EXPECT_EQ(control().count("cuModuleUnload"), 0u);
    EXPECT_EQ(f.name(), "norm");
  }
  EXPECT_EQ(control().count("cuModuleUnload"), 1u);
}

TEST_F(FakeModule, SettingsReachTheDriver) {
  Context context;
  const Module module = load(context, source("norm", 0, "shared 448"));
  Function f = module.function("norm");
  f.set_max_dynamic_shared(232000);
  EXPECT_EQ(module.function("norm").max_dynamic_shared(), 232000u);  // the kernel's, not the handle's
  f.allow_large_clusters();
  f.prefer_shared(75);
  EXPECT_EQ(control().function_settings,
            (std::map<std::string, int>{{"norm 8", 232000}, {"norm 14", 1}, {"norm 9", 75}}));
  expect_says(message<Error>([&] { f.set_max_dynamic_shared(232001); }),
              {"kernel norm: 232001 bytes of dynamic and 448 of static", "at most 232448"});
  expect_says(message<Error>([&] { f.prefer_shared(101); }), {"kernel norm", "101"});
  control().fail["cuFuncSetAttribute"] = 1;
  expect_says(message<DriverError>([&] { f.prefer_shared(1); }), {"cuFuncSetAttribute, kernel norm: invalid argument"});
}

TEST_F(FakeModule, WhatIsNoCubinIsRefusedByName) {
  Context context;
  const std::vector<std::byte> bytes(64);
  expect_says(message<DriverError>([&] { Module m(context, bytes, "norm"); }), {"cuModuleLoadData, kernel norm"});
  expect_says(message<Error>([&] { Module m(context, {}, "norm"); }), {"kernel norm: an empty cubin"});
  EXPECT_THROW(Module().function("norm"), std::logic_error);
  EXPECT_THROW(Function().name(), std::logic_error);
}

}  // namespace
}  // namespace heddle::cuda
