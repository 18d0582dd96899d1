// The line of a long computation, on a clock that the test moves.
#include "main/progress.h"

#include <gtest/gtest.h>

#include <sstream>

namespace heddle::test {
namespace {

struct Progress : testing::Test {
  double now = 100;
  std::ostringstream out;
  std::function<double()> clock = [this] { return now; };
  // What was written since the last call.
  std::string written() {
    const std::string text = out.str();
    out.str("");
    return text;
  }
};

TEST_F(Progress, CountsAndEstimatesTheTimeLeft) {
  {
    ProgressLine line(out, clock);
    line.count("prompt", 0, 2000, "tokens");
    now += 0.9;
    line.count("prompt", 90, 2000, "tokens");
    EXPECT_EQ(written(), "") << "what takes less than a second shows nothing";
    now += 0.6;
    line.count("prompt", 150, 2000, "tokens");
    EXPECT_EQ(written(), "\r\x1b[Kprompt 150 of 2000 tokens, 19 s left");
    now += 0.1;
    line.count("prompt", 160, 2000, "tokens");
    EXPECT_EQ(written(), "") << "five times a second are enough";
    now += 0.2;
    line.count("prompt", 180, 2000, "tokens");
    EXPECT_EQ(written(), "\r\x1b[Kprompt 180 of 2000 tokens, 18 s left");
    line.clear();
    line.clear();
    EXPECT_EQ(written(), "\r\x1b[K");
    now += 1;
    line.count("prompt", 2000, 2000, "tokens");
    EXPECT_EQ(written(), "\r\x1b[Kprompt 2000 of 2000 tokens");
  }
  EXPECT_EQ(written(), "\r\x1b[K");
}

TEST_F(Progress, TheSpeedIsThatOfWhatCameAfterTheFirstCount) {
  ProgressLine line(out, clock);
  line.count("loading", 500, 1000);
  now += 2;
  line.count("loading", 510, 1000);
  EXPECT_EQ(written(), "\r\x1b[Kloading 51 %, 1 min 38 s left");
  now += 398;
  line.count("loading", 511, 1000000);
  EXPECT_NE(written().find(" h "), std::string::npos);
  now += 1;
  line.count("loading", 0, 0);
  EXPECT_EQ(written(), "\r\x1b[Kloading 100 %");
}

TEST_F(Progress, ATransferHasABarASpeedAndTheTimeLeft) {
  ProgressLine line(out, clock);
  line.transfer("m", 1'000'000, 9'000'000);  // that many were there from before
  now += 2;
  line.transfer("m", 3'000'000, 9'000'000);
  EXPECT_EQ(written(), "\r\x1b[Km [========>               ] 33 % of 9.0 MB, 1.0 MB/s, 6 s left");
  now += 1;
  line.transfer("m", 9'000'000, 9'000'000);
  EXPECT_EQ(written(), "\r\x1b[Km [========================] 100 % of 9.0 MB, 2.7 MB/s, 0 s left");
  now += 1;
  line.transfer("m", 0, 0);
  EXPECT_EQ(written(), "\r\x1b[Km [========================] 100 % of 0 B");
}

TEST_F(Progress, ATextIsFormattedOnlyIfItIsShown) {
  {
    ProgressLine line(out, clock);
    line.show([]() -> std::string { throw std::logic_error("not shown in the first second"); });
    now += 1.5;
    line.show([] { return std::string("one"); });
    line.show([]() -> std::string { throw std::logic_error("too soon"); });
    now += 0.3;
    line.show([] { return std::string("two"); });
    EXPECT_NEAR(line.seconds(), 1.8, 1e-9);
  }
  EXPECT_EQ(out.str(), "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K");
}

TEST_F(Progress, IsForTerminals) {
  std::ostringstream file;
  ProgressLine none(nullptr), elsewhere(&file);
  for (ProgressLine* line : {&none, &elsewhere}) {
    line->count("prompt", 1, 2, "tokens");
    line->show([] { return std::string("x"); });
  }
  EXPECT_EQ(file.str(), "");
}

}  // namespace
}  // namespace heddle::test
