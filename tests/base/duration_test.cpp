#include "base/duration.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(Duration, OfNumbersAndUnits) {
  const std::pair<const char*, double> cases[] = {
      {"0", 0},      {"90", 90}, {"2.5", 2.5},    {"1.5s", 1.5}, {"500ms", 0.5},   {"10m", 600},   {"1h30m", 5400},
      {"1d", 86400}, {"-1", -1}, {"-1m30s", -90}, {"0s", 0},     {"1h0m2s", 3602}, {"24h", 86400}, {"1m500ms", 60.5}};
  for (const auto& [text, seconds] : cases) EXPECT_EQ(read_duration(text), seconds) << text;
}

TEST(Duration, NothingElse) {
  for (const char* text :
       {"", "-", "m", "10 m", "10x", "1h30", "--1", "1-", "nan", "inf", "1e400", "1m-30s", "+5", "5s "})
    EXPECT_EQ(read_duration(text), std::nullopt) << text;
}

}  // namespace
}  // namespace heddle
