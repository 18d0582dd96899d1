// The line of a long computation, on a clock that the test moves.
#include "main/progress.h"

#include <gtest/gtest.h>

#include <iostream>
#include <sstream>

namespace heddle::test {
namespace {

struct ProgressLine : testing::Test {
  double now = 100;
  std::ostringstream out;
  std::string since() {  // what was written since it was last asked
    const std::string text = out.str();
    out.str("");
    return text;
  }
};

TEST_F(ProgressLine, SaysHowFarItIsAndHowLongItTakes) {
  {
    Progress progress(out, "prompt", "tokens", [this] { return now; });
    progress.update(0, 2000);
    now += 0.9;
    progress.update(90, 2000);
    EXPECT_EQ(since(), "") << "what takes less than a second shows nothing";
    now += 0.6;
    progress.update(150, 2000);
    EXPECT_EQ(since(), "\r\x1b[Kprompt 150 of 2000 tokens, 19 s left");
    now += 0.1;
    progress.update(160, 2000);
    EXPECT_EQ(since(), "") << "five times a second are enough";
    now += 0.2;
    progress.update(180, 2000);
    EXPECT_EQ(since(), "\r\x1b[Kprompt 180 of 2000 tokens, 18 s left");
    progress.clear();
    progress.clear();
    EXPECT_EQ(since(), "\r\x1b[K");
    now += 1;
    progress.update(2000, 2000);
    EXPECT_EQ(since(), "\r\x1b[Kprompt 2000 of 2000 tokens");
  }
  EXPECT_EQ(since(), "\r\x1b[K");
}

TEST_F(ProgressLine, CountsFromWhereItBegan) {
  Progress progress(out, "loading", "", [this] { return now; });
  progress.update(500, 1000);  // that was there already
  now += 2;
  progress.update(510, 1000);
  EXPECT_EQ(since(), "\r\x1b[Kloading 51 %, 1 min 38 s left");
  now += 398;
  progress.update(511, 1000000);
  EXPECT_NE(since().find(" h "), std::string::npos);
}

TEST_F(ProgressLine, IsForTerminals) {
  std::ostringstream other;
  Progress none(nullptr, "prompt", "tokens"), elsewhere(&other, "prompt", "tokens");
  none.update(1, 2);
  elsewhere.update(1, 2);
  EXPECT_EQ(other.str(), "");
}

}  // namespace
}  // namespace heddle::test
