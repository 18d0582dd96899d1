// For tests of what the interpreter reports: run a kernel, get the report or none.
#pragma once
#include <gtest/gtest.h>

#include <optional>

#include "ptx/builder.h"
#include "ptx/interpret.h"

namespace heddle::ptx {

using Kind = Report::Kind;

// A kernel of one buffer of words. `build` gets the builder and the buffer.
struct WordArgs {
  DevicePtr<uint32_t> out;
};
using WordBuilder = Builder<WordArgs>;

struct Outcome {
  std::optional<Report> report;
  std::vector<uint32_t> out;
  uint32_t line = 0;  // of the call of run_words, to place the report

  Kind kind() const { return report ? report->kind : Kind(-1); }
  std::string what() const { return report ? report->what() : "no report"; }
};

struct RunOptions {
  Launch launch{.threads = 64};
  Grid grid{};
  size_t words = 1024;
  InterpretOptions interpret{};
};

template <class F>
Outcome run_words(F build, RunOptions o = {}) {
  WordBuilder k("test_kernel", o.launch);
  build(k, k.arg(&WordArgs::out));
  Kernel kernel = k.finish();
  Memory memory;
  std::vector<uint32_t> zeros(o.words);
  auto out = memory.put(zeros);
  Outcome r;
  try {
    interpret(kernel, o.grid, WordArgs{out}, memory, o.interpret);
  } catch (const Report& report) {
    r.report = report;
  }
  r.out = memory.get(out, o.words);
  return r;
}

#define EXPECT_CLEAN(outcome) EXPECT_FALSE((outcome).report) << (outcome).what()
#define EXPECT_REPORT(k, outcome)                   \
  do {                                              \
    const Outcome o_ = (outcome);                   \
    ASSERT_TRUE(o_.report) << "nothing reported";   \
    EXPECT_EQ(int(o_.kind()), int(k)) << o_.what(); \
  } while (false)

}  // namespace heddle::ptx
