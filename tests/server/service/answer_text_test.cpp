#include "server/service/answer_text.h"

#include <gtest/gtest.h>

#include "tests/text/counting_tokenizer.h"

namespace heddle::server {
namespace {

class AnswerTexts : public testing::Test {
 protected:
  void rules(std::vector<std::string> stops, bool reports = false) {
    rules_.emplace(AnswerRules{tokenizer_, std::move(stops), {98}, reports});
    answer_.emplace(*rules_);
  }
  text::TokenId id(char c) const { return text::TokenId(c - 31); }
  // Pushes the letters; pieces as "text/tokens" with "|" behind each.
  std::string push(std::string_view letters) {
    std::string out;
    for (const char c : letters) out += show(answer_->push({.id = id(c), .log_probability = -1}));
    return out;
  }
  static std::string show(const Piece& piece) {
    std::string out = piece.text;
    if (!piece.reports.empty()) out += "/";
    for (const TokenReport& report : piece.reports) out += report.token.bytes;
    return out + "|";
  }

  text::Tokenizer tokenizer_ = test::counting_tokenizer();
  std::optional<AnswerRules> rules_;
  std::optional<AnswerText> answer_;
};

TEST_F(AnswerTexts, AreShownTokenByToken) {
  rules({});
  EXPECT_EQ(push("abc"), "a|b|c|");
  EXPECT_FALSE(answer_->over());
  EXPECT_EQ(show(answer_->finish()), "|");
  EXPECT_EQ(answer_->made(), 3);
  EXPECT_EQ(answer_->mean_log_probability(), -1);
}

TEST_F(AnswerTexts, EndWithATokenThatIsNoText) {
  rules({}, true);
  EXPECT_EQ(push("ab"), "a/a|b/b|");
  EXPECT_EQ(show(answer_->push({.id = 98})), "|");
  EXPECT_TRUE(answer_->over());
  EXPECT_FALSE(answer_->met_stop_text());
  EXPECT_EQ(answer_->made(), 3) << "the token that ended it counts";
  EXPECT_EQ(push("c"), "|") << "nothing comes after the end";
  EXPECT_EQ(answer_->made(), 3);
}

TEST_F(AnswerTexts, HoldBackWhatMayBecomeAStopText) {
  rules({"cde"}, true);
  EXPECT_EQ(push("abcdx"), "a/a|b/b|||cdx/cdx|");
  EXPECT_EQ(push("cd"), "||");
  EXPECT_EQ(show(answer_->finish()), "cd/cd|");
  EXPECT_FALSE(answer_->over());
}

TEST_F(AnswerTexts, DoNotShowAStopTextNorReportItsTokens) {
  rules({"cde", "zz"}, true);
  EXPECT_EQ(push("abcdef"),
            "a/a|b/b||||"
            "|");
  EXPECT_TRUE(answer_->over());
  EXPECT_TRUE(answer_->met_stop_text());
  EXPECT_EQ(answer_->made(), 5) << "up to the token that completed it";
  EXPECT_EQ(show(answer_->finish()), "|");
}

TEST_F(AnswerTexts, WaitForTheSecondHalfOfACharacter) {
  rules({}, true);
  EXPECT_EQ(show(answer_->push({.id = 96})), "|");
  EXPECT_EQ(show(answer_->push({.id = 97})), "\u00e9/\u00e9|") << "both tokens are reported with it";
  EXPECT_EQ(show(answer_->push({.id = 96})), "|");
  EXPECT_EQ(show(answer_->finish()), "\ufffd/\xc3|") << "it will never come";
}

TEST_F(AnswerTexts, FindAStopTextOfHalvesOfCharacters) {
  rules({"b\u00e9c"});
  EXPECT_EQ(push("ab"), "a||");
  EXPECT_EQ(show(answer_->push({.id = 96})) + show(answer_->push({.id = 97})) + push("c"), "|||");
  EXPECT_TRUE(answer_->met_stop_text());
}

TEST_F(AnswerTexts, FindAStopTextInWhatWasHeldBackToTheEnd) {
  rules({"\ufffd"}, true);
  push("a");
  answer_->push({.id = 96});
  EXPECT_EQ(show(answer_->finish()), "|");
  EXPECT_TRUE(answer_->over());
  EXPECT_TRUE(answer_->met_stop_text());
}

TEST_F(AnswerTexts, ReportTokensWithoutText) {
  rules({}, true);
  EXPECT_EQ(show(answer_->push({.id = 99})), "|");
  EXPECT_EQ(push("a"), "a/<|other|>a|");
  EXPECT_EQ(show(answer_->push({.id = 99})) + show(answer_->finish()), "|/<|other|>|");
}

TEST_F(AnswerTexts, GoOnFromAPrompt) {
  rules({"bc"});
  EXPECT_EQ(answer_->follow(std::vector<text::TokenId>{0, id('b'), id('c'), id('b')}), "bcb")
      << "stops are not looked for";
  EXPECT_EQ(push("cb"), "c||") << "nor across the border";
  EXPECT_EQ(answer_->made(), 2);
}

TEST(AnswerReports, HaveTheMostLikelyTokens) {
  const text::Tokenizer tokenizer = test::counting_tokenizer();
  const TokenReport report =
      report_of(tokenizer, {.id = 66, .log_probability = -0.5f, .top = {{66, -0.5f}, {98, -1.5f}, {1000, -2.f}}});
  EXPECT_EQ(report.token.bytes, "a");
  EXPECT_EQ(report.token.log_probability, -0.5);
  EXPECT_TRUE(report.has_chance);
  ASSERT_EQ(report.top.size(), 3);
  EXPECT_EQ(report.top[1].bytes, "<|im_end|>");
  EXPECT_EQ(report.top[1].log_probability, -1.5);
  EXPECT_EQ(report.top[2].bytes, "") << "a model may have logits for more tokens than the vocabulary has";
}

}  // namespace
}  // namespace heddle::server
