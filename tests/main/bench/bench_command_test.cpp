// heddle bench on weft: what is timed, and what is refused.
#include "main/bench/bench_command.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/main/heddle_command.h"
#include "tests/model/fixture.h"
#include "tests/support/folder.h"
#include "tests/support/refused.h"

namespace heddle::test {
namespace {

using nlohmann::json;

TEST(Bench, TimesPromptsAndTokens) {
  const Result result = heddle({"bench", "-p", "16,32", "-n", "4", "-b", "1,3", "-d", "0,40", "-t", "1,2", "-r", "2",
                                "--json", "--device", "cpu"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json bench = json::parse(result.out);
  ASSERT_EQ(bench["results"].size(), 2u * 2 * (2 + 2));  // threads, depths, prompts and batches
  for (const json& row : bench["results"]) {
    EXPECT_GT(row["tokens_per_second"], 0);
    ASSERT_EQ(row["runs"].size(), 2u);
    EXPECT_LE(row["runs"][0], row["runs"][1]);
    EXPECT_EQ(row.contains("share_of_limit"), row["test"] == "decode");
    if (row["test"] != "decode") continue;
    // 8.6 MB of weights for each step, and the cache; streams may take turns
    const double steps = row["tokens_per_second"].get<double>() / row["rows_per_step"].get<double>();
    EXPECT_GT(row["rows_per_step"], 0.6 * row["batch"].get<double>());
    EXPECT_LE(row["rows_per_step"], row["batch"]);
    EXPECT_NEAR(row["bytes_per_second"].get<double>() / steps, 8.6e6, 2e6);
    EXPECT_LE(row["share_of_limit"], 1.0) << "weights that fit into a cache are read from there";
  }
  EXPECT_GT(bench["memory_bytes_per_second"], 0);
  EXPECT_GT(bench["load_seconds"], 0);
  EXPECT_GT(bench["first_token_seconds"], bench["load_seconds"]);
  EXPECT_GT(bench["peak_memory_bytes"], 8'000'000);
}

// Each stream begins with the snapshot after its prompt, so all begin at once.
TEST(Bench, TimesStreamsOfAModelWithStates) {
  const Folder folder;
  const Fixture fixture("qwen35");
  fixture.write(folder, fixture.config);
  const Result result = heddle({"bench", folder.path().string(), "-p", "0", "-n", "8", "-b", "12", "-d", "40", "-r",
                                "2", "--json", "--device", "cpu"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json bench = json::parse(result.out);
  for (const json& rate : bench["results"][0]["runs"]) EXPECT_GT(rate, 0);
}

TEST(Bench, PrintsATableThatFitsATerminal) {
  const Result table = heddle({"bench", "-p", "8", "-n", "2", "-b", "1,12", "-d", "100", "-r", "1", "--device", "cpu"});
  ASSERT_EQ(table.status, 0) << table.err;
  expect_says(table.out, {"weft: CPU (", "\nloaded in ", " s, first token after ", " of weights can be read at ",
                          "GB/s\n", "test ", "threads", "tok/s", "GB/s", "of limit\n", "prompt 8 after 100",
                          "decode 2 after 100", "decode 2 x 12 after 100", " %\n", "peak memory "});
  EXPECT_EQ(table.out.find("products"), std::string::npos);
  std::istringstream lines(table.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

// The time of the tests with one number of threads is not in the first token of the next.
TEST(Bench, SlowFirstTokenIsThatOfItsOwnModel) {
  const Result result = heddle({"bench", "-p", "500", "-n", "0", "-r", "6", "-t", "1,1", "--device", "cpu"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto numbers_after = [&](const std::string& mark) {
    std::vector<double> numbers;
    for (size_t at = result.out.find(mark); at != result.out.npos; at = result.out.find(mark, at + 1))
      numbers.push_back(std::stod(result.out.substr(at + mark.size())));
    return numbers;
  };
  const std::vector<double> first = numbers_after("first token after "),
                            rates = numbers_after("prompt 500                     1");
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_LT(first[1], 0.5 * 6 * 500 / rates[0]) << result.out;
}

TEST(Bench, TimesADraft) {
  const std::vector<std::string> arguments{"bench",    "-p",  "8",  "-n",  "60",      "-r",   "1",
                                           "--device", "cpu", "-b", "1,3", "--draft", "weft", "--json"};
  const auto bench = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    const Result result = heddle(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out);
  };
  EXPECT_EQ(bench({})["draft"]["model"], "weft");
  const json forced = bench({"--draft-accept", "0.7", "--draft-tokens", "4"});
  const double proposed = forced["draft"]["proposed"], accepted = forced["draft"]["accepted"];
  EXPECT_GT(proposed, 100);
  EXPECT_NEAR(accepted / proposed, 0.7, 0.1);
  EXPECT_EQ(forced["draft"]["forced_share"], 0.7);
  for (const json& row : forced["results"]) EXPECT_FALSE(row.contains("bytes_per_second"));
  const Result table =
      heddle({"bench", "-p", "0", "-n", "30", "-r", "1", "--device", "cpu", "--draft", "weft", "--draft-accept", "1"});
  expect_says(table.out, {"draft weft: up to 8 tokens at once, of which a share is taken as right: the text is "
                          "meaningless",
                          "accepted (100 %, forced)"});
  expect_says(heddle({"bench", "--draft-accept", "0.5"}).err, {"--draft-accept: expected --draft or --mtp with it"});
  expect_says(heddle({"bench", "--draft", "weft", "--draft-accept", "1.5"}).err, {"0 to 1, found 1.5"});
}

TEST(Bench, TimesTheModelsOwnHead) {
  const Folder folder;
  const Fixture fixture("qwen35moe-mtp");
  fixture.write(folder, fixture.config);
  const Result result = heddle({"bench", folder.path().string(), "-p", "8", "-n", "40", "-r", "1", "--device", "cpu",
                                "-b", "1,3", "--mtp", "--draft-accept", "0.6", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json forced = json::parse(result.out);
  const double proposed = forced["draft"]["proposed"], accepted = forced["draft"]["accepted"];
  EXPECT_EQ(forced["draft"]["model"], "by the model's own head");
  EXPECT_GT(proposed, 100);
  EXPECT_NEAR(accepted / proposed, 0.6, 0.1);
}

TEST(Bench, NothingToTimeIsRefused) {
  EXPECT_EQ(heddle({"bench", "-p", "0", "-n", "0"}).status, 1);
  EXPECT_EQ(heddle({"bench", "-r", "0"}).status, 2);
  EXPECT_EQ(heddle({"bench", "/there/is/none.gguf"}).status, 1);
}

}  // namespace
}  // namespace heddle::test
