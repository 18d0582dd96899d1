// A trace is JSON that a browser can show, and a table that adds up.
#include "main/device/kernel_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/refused.h"

namespace heddle::test {
namespace {

const std::vector<model::KernelTime> times{{"product", "qkv", 0, 0.001, 10e-6, 20'000'000},
                                           {"attention", "attend", 0, 0.00101, 4e-6, 0},
                                           {"product", "qkv", 1, 0.00102, 10e-6, 20'000'000},
                                           {"sample \"x\"", "", -1, 0.00103, 0, 8}};

TEST(KernelTrace, IsJsonForABrowser) {
  const auto file = nlohmann::json::parse(trace_json(times));
  const auto& events = file.at("traceEvents");
  ASSERT_EQ(events.size(), 4u);
  for (const auto& event : events) EXPECT_EQ(event.at("ph"), "X");
  EXPECT_EQ(events[0].at("name"), "qkv product");
  EXPECT_EQ(events[3].at("name"), "sample \"x\"");
  EXPECT_DOUBLE_EQ(events[1].at("ts"), 1010);
  EXPECT_DOUBLE_EQ(events[1].at("dur"), 4);
  EXPECT_EQ(events[2].at("args").at("layer"), 1);
  EXPECT_EQ(events[2].at("args").at("bytes"), 20'000'000);
  EXPECT_DOUBLE_EQ(events[2].at("args").at("GB/s"), 2000);
  EXPECT_EQ(events[3].at("args").at("GB/s"), 0);
  EXPECT_TRUE(nlohmann::json::parse(trace_json({})).at("traceEvents").empty());
}

TEST(KernelTrace, ATableByPhase) {
  const std::string table = trace_table(times);
  expect_says(table, {"phase", "calls", "GB/s", "\nqkv ", "2 ", "20.0 ", "40000000", "2000", "\nattend ", "\nall ",
                      "4 ", "24.0", "100.0%", "40000008"});
  expect_says(trace_table({}), {"\nall ", "0"});
}

}  // namespace
}  // namespace heddle::test
