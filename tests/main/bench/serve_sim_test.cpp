// bench serve-sim: the traffic it makes up, and what it says about it.
#include "main/bench/serve_sim.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "main/bench/traffic.h"
#include "main/device/device_memory.h"
#include "model/session.h"
#include "tests/main/small_model.h"
#include "tests/support/refused.h"

namespace heddle::test {
namespace {

TEST(LengthMix, IsANumberARangeOrAMixture) {
  const LengthMix one("--prompt", "512"), range("--prompt", "16-18"), mix("--prompt", "5:0.75,100-200:0.25");
  EXPECT_EQ(one.draw(0.9, 0.9), 512u);
  EXPECT_EQ(range.draw(0.5, 0), 16u);
  EXPECT_EQ(range.draw(0.5, 0.34), 17u);
  EXPECT_EQ(range.draw(0.5, 0.999), 18u);
  EXPECT_EQ(mix.draw(0.74, 0.5), 5u);
  EXPECT_EQ(mix.draw(0.76, 0), 100u);
  EXPECT_EQ(mix.draw(0.999, 0.9999), 200u);
  EXPECT_EQ(one.longest(), 512u);
  EXPECT_EQ(mix.longest(), 200u);
}

TEST(LengthMix, RefusesOtherTexts) {
  for (const char* text : {"", "0", "-5", "5-", "9-5", "5,", ",5", "5:0", "5:-1", "5:x", "5:inf", "5:nan", "x", "5 ",
                           "5;6", "99999999999", "16777217"})
    EXPECT_REFUSED(LengthMix("--generate", text), "--generate: expected lengths such as 512", "found", text);
}

TEST(LongPrompt, HasATimeOrNone) {
  EXPECT_EQ(long_prompt("4096").tokens, 4096u);
  EXPECT_EQ(long_prompt("4096").at, std::nullopt);
  EXPECT_EQ(long_prompt("10@2.5").at, 2.5);
  for (const char* text : {"", "0", "5@", "5@x", "@5", "5@-1", "5@inf", "5@1s", "-3"})
    EXPECT_REFUSED(long_prompt(text), "--long: expected tokens and seconds", text);
}

TrafficOptions some_traffic() {
  return {.prompts = LengthMix("", "3-40"),
          .answers = LengthMix("", "1-9"),
          .requests = 2000,
          .rate = 50,
          .shared = 7,
          .long_one = LongPrompt{100, 1.5},
          .seed = 3};
}

TEST(Traffic, IsWhatWasAskedFor) {
  const std::vector<Arrival> all = make_traffic(some_traffic(), 1000);
  ASSERT_EQ(all.size(), 2001u);
  EXPECT_NEAR(*all[1999].at, 40, 4);  // 2000 at 50 per second
  double lengths = 0;
  for (size_t i = 0; i < 2000; ++i) {
    if (i > 0) {
      EXPECT_GT(*all[i].at, *all[i - 1].at);
    }
    EXPECT_GE(all[i].prompt.size(), 10u);
    EXPECT_LE(all[i].prompt.size(), 47u);
    EXPECT_TRUE(std::equal(all[0].prompt.begin(), all[0].prompt.begin() + 7, all[i].prompt.begin()));
    EXPECT_GE(all[i].answer, 1u);
    EXPECT_LE(all[i].answer, 9u);
    lengths += double(all[i].prompt.size());
    for (const uint32_t token : all[i].prompt) ASSERT_LT(token, 1000u);
  }
  EXPECT_NEAR(lengths / 2000, 7 + 21.5, 1);
  EXPECT_NE(std::vector(all[0].prompt.begin() + 7, all[0].prompt.begin() + 10),
            std::vector(all[1].prompt.begin() + 7, all[1].prompt.begin() + 10));
  EXPECT_EQ(all.back().prompt.size(), 100u);
  EXPECT_EQ(all.back().at, 1.5);
}

TEST(Traffic, IsTheSameForASeed) {
  TrafficOptions options = some_traffic();
  const auto prompts = [](const std::vector<Arrival>& all) {
    std::vector<std::vector<uint32_t>> texts;
    for (const Arrival& arrival : all) texts.push_back(arrival.prompt);
    return texts;
  };
  const std::vector<Arrival> one = make_traffic(options, 1000), two = make_traffic(options, 1000);
  EXPECT_EQ(prompts(one), prompts(two));
  EXPECT_EQ(one[1000].at, two[1000].at);
  options.rate = 0;  // another rate, the same requests
  const std::vector<Arrival> at_once = make_traffic(options, 1000);
  EXPECT_EQ(prompts(one), prompts(at_once));
  EXPECT_EQ(at_once[1000].at, 0.0);
  options.seed = 4;
  EXPECT_NE(prompts(at_once), prompts(make_traffic(options, 1000)));
}

TEST(Traffic, HasLaterTurns) {
  TrafficOptions options = some_traffic();
  options.turns = 3;
  const std::vector<Arrival> all = make_traffic(options, 1000), once = make_traffic(some_traffic(), 1000);
  EXPECT_EQ(all[7].prompt, once[7].prompt) << "the first turn is that of a request alone";
  EXPECT_TRUE(once[7].later.empty());
  ASSERT_EQ(all[7].later.size(), 2u);
  EXPECT_NE(all[7].later[0].prompt, all[7].later[1].prompt);
  EXPECT_NE(all[7].later[0].prompt, all[8].later[0].prompt);
  for (const Arrival::Turn& turn : all[7].later) {
    EXPECT_TRUE(turn.prompt.size() >= 3 && turn.prompt.size() <= 40);
    EXPECT_TRUE(turn.answer >= 1 && turn.answer <= 9);
  }
  EXPECT_TRUE(all.back().later.empty()) << "the long one";
}

struct BenchServe : testing::Test {
  Folder folder;
  std::string model = write_small_model(folder, "zero.gguf", true);

  nlohmann::json json(std::vector<std::string> with) {
    with.insert(with.begin(), {"bench", "serve-sim", model, "--device", "cpu", "--json"});
    const Result result = heddle(with);
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out);
  }
};

TEST_F(BenchServe, CountsWhatItMade) {
  const auto all = json({"-n", "6", "-p", "10", "-g", "5"});
  EXPECT_EQ(all["requests"], 6);
  EXPECT_EQ(all["refused"], 0);
  EXPECT_EQ(all["failed"], 0);
  EXPECT_EQ(all["generated_tokens"], 30);
  EXPECT_EQ(all["prompt_tokens"], 60);
  EXPECT_GE(all["sequences_per_step"]["max"], 2);
  EXPECT_EQ(all["kv_blocks"]["all"], 6 * (10 + 5 + 32) / 32 + 1);
  EXPECT_GT(all["generated_tokens_per_second"], 0);
}

// A turn has the prompt and the answer of the one before: 40 + 6 tokens of 56, of which all but the last was computed.
TEST_F(BenchServe, ShowsWhatALaterTurnComputes) {
  const auto all = json({"-n", "3", "-p", "10", "--shared", "30", "-g", "6", "--turns", "3", "--speculate", "off"});
  EXPECT_EQ(all["requests"], 9);
  EXPECT_EQ(all["failed"], 0);
  EXPECT_EQ(all["generated_tokens"], 9 * 6);
  ASSERT_EQ(all["turns"].size(), 3u);
  uint64_t before = 0;
  for (const auto& turn : all["turns"]) {
    EXPECT_EQ(turn["prompt_tokens"], before ? before + 3 * (6 + 10) : 3 * (30 + 10));
    EXPECT_EQ(uint64_t(turn["computed_tokens"]) + uint64_t(turn["cached_tokens"]), turn["prompt_tokens"]);
    EXPECT_TRUE(before == 0 || turn["computed_tokens"] <= 3 * (10 + 32)) << "what is new, and up to a block";
    before = turn["prompt_tokens"];
  }
  const auto alone = json({"-n", "3", "-p", "10", "--shared", "30", "-g", "6", "--turns", "3", "-c", "1"});
  EXPECT_EQ(alone["answers"], all["answers"]) << "in any order";
  const Result table =
      heddle({"bench", "serve-sim", model, "--device", "cpu", "-n", "1", "-p", "10", "-g", "5", "--turns", "2"});
  EXPECT_NE(table.out.find("turn 2"), table.out.npos) << table.out;
  const auto refused = [&](std::vector<std::string> with) {
    with.insert(with.begin(), {"bench", "serve-sim", model, "--device", "cpu"});
    return heddle(with).err;
  };
  EXPECT_NE(refused({"--turns", "0"}).find("--turns: expected at least one"), std::string::npos);
  EXPECT_NE(refused({"--turns", "2", "--long", "50"}).find("--turns: expected one turn with --long"),
            std::string::npos);
}

TEST_F(BenchServe, KeepsToAConcurrencyAndARate) {
  const auto closed = json({"-n", "6", "-c", "2", "-p", "10", "-g", "5"});
  EXPECT_EQ(closed["sequences_per_step"]["max"], 2);
  EXPECT_EQ(closed["generated_tokens"], 30);
  const auto open = json({"-n", "5", "--rate", "100", "-p", "10", "-g", "2"});
  EXPECT_EQ(open["generated_tokens"], 10);
  EXPECT_GT(open["seconds"], 0.01);
}

TEST_F(BenchServe, AnswersDoNotDependOnTheWay) {
  const auto plain = json({"-p", "10-30", "-g", "1-9", "--shared", "40", "--no-prefix-cache", "--speculate", "off"});
  EXPECT_EQ(plain["cached_tokens"], 0);
  EXPECT_EQ(plain["speculation"]["proposed"], 0);
  const auto reused = json({"-p", "10-30", "-g", "1-9", "--shared", "40", "--speculate", "on", "-c", "3"});
  EXPECT_GT(reused["cached_tokens"], 0);
  EXPECT_GT(reused["speculation"]["accepted"], 0);  // all logits are 0: it is always the same token
  EXPECT_EQ(plain["answers"], reused["answers"]);
  EXPECT_NE(plain["answers"], json({"-p", "10-30", "-g", "2-9"})["answers"]);
}

TEST_F(BenchServe, ALongPromptComesBetween) {
  for (const char* when : {"100", "100@0.001"}) {
    const auto all =
        json({"-n", "3", "-p", "10", "-g", "20", "--long", when, "--kv-tokens", "300", "--max-stall-ms", "5"});
    EXPECT_EQ(all["requests"], 4);
    EXPECT_EQ(all["long_prompt"]["tokens"], 100);
    EXPECT_GT(all["long_prompt"]["first_token_seconds"], 0);
    EXPECT_EQ(all["kv_tokens"], 320);
  }
}

TEST_F(BenchServe, SaysItInWords) {
  const Result result = heddle({"bench", "serve-sim", model, "--device", "cpu", "-n", "2", "-p", "8", "-g", "3"});
  EXPECT_EQ(result.status, 0) << result.err;
  expect_says(result.out, {"zero: CPU", "2 in ", "0 refused", "generated", "6 tokens, ", "prompt tokens", "16, ",
                           "first token", "p50", "between tokens", "longest stall", "steps", "KV cache",
                           "0 preemptions", "speculation", "auto: "});
}

TEST_F(BenchServe, RefusesWhatCannotBe) {
  const auto refused = [&](std::vector<std::string> with) {
    with.insert(with.begin(), {"bench", "serve-sim", model, "--device", "cpu"});
    const Result result = heddle(with);
    EXPECT_EQ(result.status, 1);
    return result.err;
  };
  expect_says(refused({"-p", "120", "-g", "9"}), {"expected streams of at most 128 tokens", "found 129"});
  expect_says(refused({"-n", "0"}), {"--requests"});
  expect_says(refused({"--rate", "-1"}), {"--rate", "found -1"});
  expect_says(refused({"--speculate", "maybe"}), {"--speculate", "maybe"});
  expect_says(refused({"--kv", "q4"}), {"--kv", "q4"});
  expect_says(refused({"--max-stall-ms", "0"}), {"--max-stall-ms"});
  expect_says(refused({"--rows", "1"}), {"expected at least 2", "found 1"});
}

// A cache for many is as large as memory lets it be, whatever one sequence may have.
TEST_F(BenchServe, CachesFitIntoMemory) {
  const auto running = open_running(model, {.device = "cpu"});
  DeviceOptions options{.device = "cpu", .cache_tokens = 3200};
  const auto bytes = [&](uint32_t blocks) {
    model::Limits limits = limits_for(options, 128, 64);
    limits.kv_blocks = blocks;
    return memory_for(running->model, options, limits).total();
  };
  EXPECT_EQ(fit(running->model, options, 64, bytes(100)).limits.kv_blocks, 100u);
  EXPECT_EQ(fit(running->model, options, 64, bytes(100) - 1).limits.kv_blocks, 99u);
  EXPECT_EQ(fit(running->model, options, 64, bytes(4)).limits.kv_blocks, 4u);
  EXPECT_EQ(fit(running->model, options, 64, bytes(4) - 1).context, 0u);
  EXPECT_EQ(fit(running->model, options, 64, 0).limits.kv_blocks, 100u);
  options.cache_tokens = 40;  // less than one sequence could have
  EXPECT_EQ(fit(running->model, options, 64, bytes(2)).limits.kv_blocks, 2u);
  options.cache_tokens = 0;
  EXPECT_EQ(fit(running->model, options, 64, bytes(100)).limits.kv_blocks, 4u);
}

}  // namespace
}  // namespace heddle::test
