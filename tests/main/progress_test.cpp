// The line of a long computation, on a clock and a terminal of the test, and in a real one.
#include "main/progress.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/ptxas.h"
#include "tests/main/terminal.h"

namespace heddle::test {
namespace {

struct Progress : testing::Test {
  double now = 100;
  size_t columns = 0;
  std::ostringstream out;
  ProgressLine line{out, [this] { return now; }, [this] { return columns; }};
  // What was written since the last call.
  std::string written() {
    const std::string text = out.str();
    out.str("");
    return text;
  }
  std::string drawn() {
    line.draw();
    return written();
  }
};

TEST_F(Progress, CountsAndEstimatesSpeedAndTimeLeft) {
  line.count("prompt", 0, 2000, "tokens");
  now += 0.9;
  EXPECT_EQ(drawn(), "") << "what takes less than a second shows nothing";
  now += 0.1;
  EXPECT_EQ(drawn(), "\r\x1b[Kprompt 0 of 2000 tokens") << "also where nothing more was said since";
  now += 0.5;
  line.count("prompt", 150, 2000, "tokens");
  EXPECT_EQ(written(), "") << "only draw() draws";
  EXPECT_EQ(drawn(), "\r\x1b[Kprompt 150 of 2000 tokens, 100 tokens/s, 19 s left");
  EXPECT_EQ(drawn(), "") << "nothing is new";
  line.clear();
  line.clear();
  EXPECT_EQ(written(), "\r\x1b[K");
  now += 1;
  EXPECT_EQ(drawn(), "");
  line.count("prompt", 2000, 2000, "tokens");
  EXPECT_EQ(drawn(), "\r\x1b[Kprompt 2000 of 2000 tokens");
}

TEST_F(Progress, TheSpeedIsThatOfWhatCameAfterTheFirstCount) {
  now += 5;  // something else
  line.count("a:", 500, 1000, "cases");
  now += 2;
  line.count("b:", 501, 1000, "cases");
  EXPECT_EQ(drawn(), "\r\x1b[Kb: 501 of 1000 cases, 16 min 38 s left") << "no speed below one in a second";
  now += 3;
  line.count("other", 7, 800, "cases");
  EXPECT_EQ(drawn(), "\r\x1b[Kother 7 of 800 cases") << "another total begins anew";
  now += 1;
  line.count("other", 8, 3608, "cases");
  now += 4;
  line.count("other", 12, 14412, "cases");
  now += 4;
  line.count("other", 16, 14412, "cases");
  EXPECT_EQ(drawn(), "\r\x1b[Kother 16 of 14412 cases, 1 cases/s, 3 h 59 min left");
}

TEST_F(Progress, ATransferHasABarASpeedAndTheTimeLeft) {
  line.transfer("m", 1'000'000, 9'000'000);  // that many were there from before
  now += 2;
  line.transfer("m", 3'000'000, 9'000'000);
  EXPECT_EQ(drawn(), "\r\x1b[Km [========>               ] 33 % of 9.0 MB, 1.0 MB/s, 6 s left");
  now += 1;
  line.transfer("m", 9'000'000, 9'000'000);
  EXPECT_EQ(drawn(), "\r\x1b[Km [========================] 100 % of 9.0 MB, 2.7 MB/s, 0 s left");
  line.transfer("m", 0, 0);
  EXPECT_EQ(drawn(), "\r\x1b[Km [========================] 100 % of 0 B");
}

TEST_F(Progress, KeepsToTheWidthOfTheTerminal) {
  now += 2;
  line.transfer("a/model:Q4_K_M", 1'990'000, 2'000'000);
  EXPECT_EQ(drawn(), "\r\x1b[Ka/model:Q4_K_M [=======================>] 99 % of 2.0 MB");
  const auto at = [&](size_t width) {
    columns = width + 2;  // for ^C
    line.clear();
    line.transfer("a/model:Q4_K_M", 1'000'000, 2'000'000);
    written();
    return drawn().substr(4);
  };
  EXPECT_EQ(at(80), "a/model:Q4_K_M [============>           ] 50 % of 2.0 MB");
  EXPECT_EQ(at(48), "a/model:Q4_K_M [=======>       ] 50 % of 2.0 MB");
  EXPECT_EQ(at(38), "a/model:Q4_K_M [==>  ] 50 % of 2.0 MB");
  EXPECT_EQ(at(37), "a/model:Q4_K_M 50 % of 2.0 MB") << "no room for a bar";
  EXPECT_EQ(at(30), "a/model:Q4_K_M 50 % of 2.0 MB");
  EXPECT_EQ(at(29), "a/model:Q4... 50 % of 2.0 MB") << "the figures stay";
  EXPECT_EQ(at(10), " 50 % ...");
  EXPECT_EQ(at(3), "..");
  EXPECT_EQ(at(1), "");
  columns = 13;
  line.show("\u65e5\u672c\u8a9e\u65e5\u672c");  // two columns each
  EXPECT_EQ(drawn(), "\r\x1b[K\u65e5\u672c\u8a9e\u65e5\u672c");
  columns = 12;
  line.show("\u65e5\u672c\u8a9e\u65e5\u672c!");
  EXPECT_EQ(drawn(), "\r\x1b[K\u65e5\u672c\u8a9e...");
  line.show("a\nb\x1b[2Jc");
  EXPECT_EQ(drawn(), "\r\x1b[Kab[2Jc") << "what a file says does not drive the terminal";
}

TEST_F(Progress, MessagesStayAndTheLineComesBackBelow) {
  line.message(out, "first");
  EXPECT_EQ(written(), "first\n");
  now += 1;
  line.show("one");
  EXPECT_EQ(drawn(), "\r\x1b[Kone");
  line.message(out, "second");
  EXPECT_EQ(written(), "\r\x1b[Ksecond\n");
  EXPECT_EQ(drawn(), "\r\x1b[Kone");
}

TEST_F(Progress, IsRemovedAtTheEnd) {
  {
    ProgressLine inner(
        out, [this] { return now; }, [] { return 0; });
    inner.show("x");
    now += 1.5;
    inner.draw();
    EXPECT_EQ(written(), "\r\x1b[Kx");
  }
  EXPECT_EQ(written(), "\r\x1b[K");
}

TEST(ProgressElsewhere, IsForTerminals) {
  std::ostringstream file;
  ProgressLine none(nullptr), elsewhere(&file);
  for (ProgressLine* line : {&none, &elsewhere}) {
    line->count("prompt", 1, 2, "tokens");
    line->transfer("prompt", 1, 2);
    line->show("x");
    line->draw();
  }
  EXPECT_EQ(file.str(), "");
  none.message(file, "said");
  EXPECT_EQ(file.str(), "said\n");
}

class ProgressTerminal : public TerminalTest {};

TEST_F(ProgressTerminal, AModelThatIsWrittenShowsHowFarItIsUntilItIsInterrupted) {
  start_shell(test::program + " synth --shape llama-3.1-8b --type Q4_K_M big.gguf", 70);
  ASSERT_TRUE(wait_until([](const std::string& all) { return all.find(" GB, ") != all.npos; })) << screen();
  const std::string seen = screen();
  EXPECT_EQ(seen.find("tensor "), 0u) << seen;
  EXPECT_NE(seen.find(" of 292 ["), seen.npos) << seen;
  EXPECT_TRUE(seen.ends_with(" left\n")) << seen;
  EXPECT_EQ(seen.find('\n'), seen.size() - 1) << "one line\n" << seen;
  press("C-c");
  expect_all("status 130\n");
  EXPECT_EQ(shell("ls " + shell_quoted(home.path())).out.find("gguf"), std::string::npos);
}

TEST_F(ProgressTerminal, ASelftestShowsHowFarItIsAndIsInterrupted) {
  start_shell(test::program + " selftest weft --device cpu --sweep full");
  EXPECT_TRUE(wait_until([](const std::string& all) {
    return all.starts_with("reference: ") && all.find(" of 600 tokens") != all.npos;
  })) << screen();
  press("C-c");
  expect_all("status 130\n");
}

TEST_F(ProgressTerminal, AssemblingAllKernelsShowsHowFarItIs) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH: without it this takes less than a second";
  start_shell(test::program + " ptx check");
  EXPECT_TRUE(wait_until([](const std::string& all) { return all.find(" checked, ") != all.npos; })) << screen();
  press("C-c");
}

}  // namespace
}  // namespace heddle::test
