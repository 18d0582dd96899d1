// Texts become modules: in parallel, with the assembler's log when one is wrong, and only once when there is a cache.
#include "cuda/compile.h"

#include "tests/cuda/fake_test.h"

namespace heddle::cuda {
namespace {

class FakeCompile : public Fake {
 protected:
  static std::vector<Source> sources(int count) {
    std::vector<Source> all;
    for (int i = 0; i < count; ++i) all.push_back(source(fmt::format("k{}", i), 8));
    return all;
  }
  Folder folder_;
};

TEST_F(FakeCompile, GivesModulesInOrderWithTheLog) {
  Context context;
  const std::vector<Module> modules = compile(context, sources(20), nullptr, 4);
  ASSERT_EQ(modules.size(), 20u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(modules[size_t(i)].name(), fmt::format("k{}", i));
    EXPECT_EQ(modules[size_t(i)].function(fmt::format("k{}", i), 8).args_bytes(), 8u);
    EXPECT_EQ(modules[size_t(i)].log(), "ptxas info    : Used 12 registers");
  }
  EXPECT_TRUE(compile(context, {}, nullptr).empty());
}

TEST_F(FakeCompile, UsesAsManyThreadsAsItMay) {
  Context context;
  control().meet = 4;  // the assembler waits for four at a time
  compile(context, sources(12), nullptr, 4);
  EXPECT_EQ(control().max_linking, 4u);
  EXPECT_LE(control().linking_threads.size(), 4u);
  control().meet = 0;
  control().linking_threads.clear();
  compile(context, sources(12), nullptr, 1);
  EXPECT_EQ(control().linking_threads, (std::set{std::this_thread::get_id()}));
}

TEST_F(FakeCompile, AnErrorHasNameLogAndLine) {
  Context context;
  const Source bad = source("gemv", 8, "mov.u32 %r1, oops;");
  try {
    compile(context, std::span(&bad, 1), nullptr);
    FAIL();
  } catch (const CompileError& e) {
    expect_says(e.what(), {"cuLinkAddData_v2, kernel gemv for sm_90a", "a PTX JIT compilation failed",
                           "line 3; error   : Unknown symbol 'oops'", "\n     3 | mov.u32 %r1, oops;"});
    EXPECT_EQ(e.kernel, "gemv");
    EXPECT_EQ(e.code, 218);
    EXPECT_FALSE(e.context_lost);
    expect_says(e.log, {"ptxas fatal   : Ptx assembly aborted due to errors"});
  }
}

TEST_F(FakeCompile, TheFirstErrorInOrderIsReported) {
  Context context;
  std::vector<Source> all = sources(30);
  for (size_t i : {29u, 11u, 7u}) all[i].text += "oops";
  for (int repeat = 0; repeat < 20; ++repeat)
    expect_says(message<CompileError>([&] { compile(context, all, nullptr, 8); }), {"kernel k7 "});
}

TEST_F(FakeCompile, OtherFailuresOfTheAssemblerNameTheKernelToo) {
  Context context;
  for (const char* call : {"cuLinkAddData_v2", "cuLinkComplete"}) {
    control().fail = {{call, 999}};
    expect_says(message<CompileError>([&] { load(context, source("norm")); }), {call, "kernel norm", "error 999"});
  }
  control().fail = {{"cuLinkCreate_v2", 999}};
  expect_says(message<DriverError>([&] { load(context, source("norm")); }), {"cuLinkCreate_v2", "error 999"});
  control().fail = {{"cuLinkComplete", 700}};
  expect_says(message<DriverError>([&] { load(context, source("norm")); }), {"cuLinkComplete, kernel norm", "lost"});
}

TEST_F(FakeCompile, WithACacheEachIsAssembledOnce) {
  Context context;
  CubinCache cache(folder_.path() / "cubin");
  compile(context, sources(10), &cache, 3);
  EXPECT_EQ(control().count("cuLinkComplete"), 10u);
  EXPECT_EQ(cache.counts().written, 10u);
  EXPECT_EQ(cache.counts().misses, 10u);

  const std::vector<Module> again = compile(context, sources(10), &cache, 3);
  EXPECT_EQ(control().count("cuLinkComplete"), 10u);
  EXPECT_EQ(cache.counts().hits, 10u);
  EXPECT_EQ(again[3].log(), "");
  EXPECT_EQ(again[3].function("k3", 8).name(), "k3");
  EXPECT_EQ(cache.problem(), "");
}

// The linker would ignore the instruction.
TEST_F(FakeCompile, ATextThatMovesRegistersIsLoadedAsAWhole) {
  Context context;
  CubinCache cache(folder_.path());
  const Source s = source("k", 8, "setmaxnreg.inc.sync.aligned.u32 232;");
  const Module module = std::move(compile(context, std::span(&s, 1), &cache).at(0));
  EXPECT_EQ(module.function("k").args_bytes(), 8u);
  EXPECT_EQ(control().count("cuLinkComplete"), 0u);
  EXPECT_EQ(cache.counts().written, 0u);

  const Source bad = source("k", 8, "setmaxnreg.inc.sync.aligned.u32 oops;");
  expect_says(message<CompileError>([&] { compile(context, std::span(&bad, 1), &cache); }),
              {"kernel k for sm_90a", "line 3; error   : Unknown symbol 'oops'", "\n     3 | setmaxnreg"});
  control().refused_texts = {".entry k("};
  expect_says(message<DriverError>([&] { compile(context, std::span(&s, 1), &cache); }),
              {"cuModuleLoadData, kernel k"});
}

TEST_F(FakeCompile, TextTargetGpuAndDriverAreTheKey) {
  CubinCache cache(folder_.path());
  auto assembled = [&](const Source& s) {
    const size_t before = control().count("cuLinkComplete");
    Context context;
    compile(context, std::span(&s, 1), &cache);
    return control().count("cuLinkComplete") - before;
  };
  Source s = source("k", 8);
  EXPECT_EQ(assembled(s), 1u);
  EXPECT_EQ(assembled(s), 0u);
  s.target = "sm_90";
  EXPECT_EQ(assembled(s), 1u);
  s.text += " ";
  EXPECT_EQ(assembled(s), 1u);
  control().sm = 100;
  EXPECT_EQ(assembled(s), 1u);
  EXPECT_EQ(assembled(s), 0u);
  use_driver(11080);
  control().sm = 100;
  EXPECT_EQ(assembled(s), 1u);
  EXPECT_EQ(assembled(s), 0u);
}

TEST_F(FakeCompile, AKeptCubinThatDoesNotLoadIsAssembledAgain) {
  Context context;
  CubinCache cache(folder_.path());
  const Source s = source("k", 8);
  const CubinKey key = CubinKey::of(s.text, s.target, "sm_90", "13.0");
  const std::vector<std::byte> nonsense(100, std::byte('x'));
  cache.put(key, nonsense);
  const Module module = std::move(compile(context, std::span(&s, 1), &cache).at(0));
  EXPECT_EQ(module.function("k").args_bytes(), 8u);
  EXPECT_EQ(control().count("cuLinkComplete"), 1u);
  compile(context, std::span(&s, 1), &cache);
  EXPECT_EQ(control().count("cuLinkComplete"), 1u);
}

TEST_F(FakeCompile, WhatDoesNotLoadIsNotKept) {
  Context context;
  CubinCache cache(folder_.path());
  control().refused_texts = {".entry k("};
  const Source s = source("k", 8);
  expect_says(message<DriverError>([&] { compile(context, std::span(&s, 1), &cache); }),
              {"cuModuleLoadData, kernel k"});
  EXPECT_EQ(cache.counts().written, 0u);
}

TEST_F(FakeCompile, ACacheThatCannotBeUsedIsNoReasonToFail) {
  Context context;
  std::ofstream(folder_.path() / "file") << "in the way";
  CubinCache blocked(folder_.path() / "file" / "cubin");
  CubinCache off = CubinCache::off("not wanted");
  for (CubinCache* cache : {&blocked, &off}) EXPECT_EQ(compile(context, sources(2), cache).size(), 2u);
  EXPECT_EQ(control().count("cuLinkComplete"), 4u);
  expect_says(blocked.problem(), {"cannot make the folder", "file"});
  EXPECT_EQ(off.problem(), "not wanted");
}

TEST_F(FakeCompile, TheCapIsKept) {
  Context context;
  CubinCache cache(folder_.path(), 500);  // three or four of these
  compile(context, sources(20), &cache);
  uint64_t total = 0;
  for (auto& file : std::filesystem::directory_iterator(folder_.path())) total += file.file_size();
  EXPECT_LE(total, 500u);
  EXPECT_GT(total, 100u);
}

}  // namespace
}  // namespace heddle::cuda
