// Settings by the names of the options, and options that are words for tokens.
#include "main/chat/settings.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "main/device/running_model.h"
#include "tests/main/small_model.h"
#include "tests/support/refused.h"
#include "text/tokenizer.h"

namespace heddle::test {
namespace {

using Changed = std::vector<std::pair<std::string, std::string>>;

TEST(ChatSettings, AreTheOptionsWithoutDashes) {
  const ChatSettings defaults;
  EXPECT_EQ(defaults.changed(), Changed{});
  EXPECT_EQ(defaults.values().sampling.chain.temperature, 0.8f);
  const ChatSettings set =
      defaults.with("temp", "0.5").with("top-k", "7").with("system", "[Be] --brief").with("tokens", "12");
  EXPECT_EQ(set.values().sampling.chain.temperature, 0.5f);
  EXPECT_EQ(set.values().sampling.chain.top_k, 7);
  EXPECT_EQ(set.values().system, "[Be] --brief");
  EXPECT_EQ(set.values().tokens, 12u);
  EXPECT_EQ(set.changed(), (Changed{{"system", "[Be] --brief"}, {"tokens", "12"}, {"temp", "0.5"}, {"top-k", "7"}}));
  EXPECT_EQ(set.with("temp", "").with("tokens", "").with("system", "").changed(), (Changed{{"top-k", "7"}}));
  EXPECT_EQ(set.with("temp", "0.8").with("top-k", "40").with("tokens", "0").with("system", "").changed(), Changed{});
  EXPECT_TRUE(defaults.with("parse-special", "true").values().parse_special);
  EXPECT_EQ(defaults.with("parse-special", "true").changed(), (Changed{{"parse-special", "true"}}));
  EXPECT_EQ(defaults.with("seed", "3").changed(), (Changed{{"seed", "3"}}));
  EXPECT_EQ(defaults.with("seed", "3").with("seed", "4").values().sampling.chain.seed, 4u);
}

TEST(ChatSettings, ListsGrowUntilTheyAreEmptied) {
  const ChatSettings set = ChatSettings().with("stop", "a, b").with("stop", "[INST]");
  EXPECT_EQ(set.values().sampling.stops, (std::vector<std::string>{"a, b", "[INST]"}));
  EXPECT_TRUE(set.with("stop", "").values().sampling.stops.empty());
  // the steps are one value
  const ChatSettings steps = ChatSettings().with("samplers", "top_k").with("samplers", "min_p,temperature");
  EXPECT_EQ(steps.values().sampling.chain.order, (std::vector<std::string>{"min_p", "temperature"}));
}

TEST(ChatSettings, WhatThereIsNotIsRefused) {
  EXPECT_REFUSED(ChatSettings().with("temperature", "1"), "no setting \"temperature\"", "temp");
  EXPECT_REFUSED(ChatSettings().with("", "1"), "no setting");
  EXPECT_REFUSED(ChatSettings().with("help", ""), "no setting \"help\"");
  EXPECT_REFUSED(ChatSettings().with("temp", "warm"), "temp", "warm");
  EXPECT_REFUSED(ChatSettings().with("tokens", "-1"), "tokens");
}

struct SamplingWords : testing::Test {
  Folder folder;
  std::unique_ptr<RunningModel> running = open_running(write_small_model(folder, "zero.gguf", true), {});
  SamplingOptions options;

  engine::Sampling sampling() const { return sampling_of(options, running->tokenizer(), running->model.vocabulary); }
};

TEST_F(SamplingWords, BiasesAreReadByTheirIds) {
  options.biases = {"5=-2.5", "7=-inf", "8=false", "9=+3"};
  const engine::Sampling read = sampling();
  EXPECT_EQ(read.logit_bias, (std::map<uint32_t, float>{{5, -2.5f}, {7, -INFINITY}, {8, -INFINITY}, {9, 3.f}}));
  for (const char* wrong : {"", "5", "=1", "5=", "x=1", "5=x", "5=1x", "-1=1", "5 =1", "99999999999=1"}) {
    options.biases = {wrong};
    EXPECT_REFUSED(sampling(), "--logit-bias", "ID=VALUE");
  }
  options.biases = {"5=inf"};
  EXPECT_REFUSED(sampling(), "logit_bias of token 5", "found inf");
  options.biases = {"265=1"};
  EXPECT_REFUSED(sampling(), "below 265");
}

TEST_F(SamplingWords, BreakersAreEveryWayToSpellThem) {
  const text::Tokenizer& tokenizer = running->tokenizer();
  const auto tokens = [&](std::vector<std::string> texts) { return dry_breaker_tokens(texts, tokenizer); };
  const auto holds = [](const auto& all, std::vector<uint32_t> one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  // "h" is in the byte 'h' (107), and in "h", " h" and " hi"
  EXPECT_EQ(tokens({"h"}), (std::vector<std::vector<uint32_t>>{{107}, {260}, {262}, {263}}));
  // "hi" is in " hi" alone; other tokens end with its beginning
  const auto hi = tokens({"hi"});
  EXPECT_TRUE(holds(hi, {263}));
  std::vector<uint32_t> split = tokenizer.encode("i", {.add_special = false});
  split.insert(split.begin(), 262);
  EXPECT_TRUE(holds(hi, split));
  EXPECT_FALSE(holds(hi, {262}));

  EXPECT_TRUE(sampling().dry_breakers.empty());  // not needed without DRY
  options.chain.dry_multiplier = 1;
  EXPECT_TRUE(holds(sampling().dry_breakers, {3 + '\n'}));
  EXPECT_TRUE(holds(sampling().dry_breakers, {3 + '*'}));
  options.breakers = {"none"};
  EXPECT_TRUE(sampling().dry_breakers.empty());
}

TEST_F(SamplingWords, AnEmptyTextIsRefused) {
  options.breakers = {"", "x"};
  EXPECT_REFUSED(sampling(), "--dry-sequence-breaker", "empty");
  options.breakers = {"x"};
  options.stops = {""};
  EXPECT_REFUSED(sampling(), "--stop", "empty");
}

}  // namespace
}  // namespace heddle::test
