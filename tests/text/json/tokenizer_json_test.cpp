#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "base/utf8.h"
#include "tests/support/shared_data.h"
#include "tests/text/json/json_fixture.h"
#include "text/completion_text.h"
#include "text/pipeline.h"
#include "text/tokenizer.h"

namespace heddle::text {
namespace {

class TokenizerJson : public testing::TestWithParam<std::string> {};

TEST_P(TokenizerJson, GivesTheIdsAndTextsOfTokenizers) {
  const Tokenizer tokenizer = test::fixture_tokenizer(GetParam());
  const auto cases = test::fixture_cases(GetParam());
  ASSERT_EQ(cases.size(), 110u);
  for (const auto& one : cases) {
    EXPECT_EQ(tokenizer.encode(one.text), one.ids) << one.text;
    EXPECT_EQ(replace_invalid_utf8(tokenizer.decode(one.ids)), one.decoded) << one.text;
  }
}

TEST_P(TokenizerJson, StreamsWhatItDecodes) {
  const Tokenizer tokenizer = test::fixture_tokenizer(GetParam());
  for (const bool special : {false, true}) {
    for (const auto& one : test::fixture_cases(GetParam())) {
      StreamDecoder stream(tokenizer, special);
      std::string joined;
      for (const TokenId id : one.ids) joined += stream.push(id);
      joined += stream.finish();
      EXPECT_EQ(joined, replace_invalid_utf8(tokenizer.decode(one.ids, special))) << one.text;
    }
  }
}

TEST_P(TokenizerJson, TakesAnyBytes) {
  const Tokenizer tokenizer = test::fixture_tokenizer(GetParam());
  for (const std::string_view text : {"\xff", "a\xc3", "\xe2\x96", "x\x80y \xf0\x9f\x98 z", "\xed\xa0\x80"})
    EXPECT_NO_THROW(tokenizer.decode(tokenizer.encode(text))) << test::fixture_names()[0];
  EXPECT_TRUE(tokenizer.encode("", {.add_special = false}).empty());
}

// A megabyte of what is bad for careless code; a quadratic step anywhere would take minutes.
TEST_P(TokenizerJson, SlowIsLinear) {
  const Tokenizer tokenizer = test::fixture_tokenizer(GetParam());
  const auto repeated = [](std::string_view piece) {
    std::string text;
    while (text.size() < (1u << 20)) text += piece;
    return text;
  };
  for (const std::string_view piece :
       {"a", " ", "\n", "\u0301", "\u0300\u0327\u0315", "\u4e00", "\u2581", "ab ", "<s", "\u1100\u1161", "\xff", "'"}) {
    const auto begin = std::chrono::steady_clock::now();
    const std::string text = repeated(piece);
    tokenizer.decode(tokenizer.encode(text));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), 5) << "a megabyte of " << replace_invalid_utf8(piece);
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TokenizerJson, testing::ValuesIn(test::fixture_names()), [](const auto& its) {
  std::string name = its.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(TokenizerJsonFile, ReadsStories) {
  SHARED_DATA(folder, "weights/stories260K-hf-f32");
  const Tokenizer tokenizer = Tokenizer::from_json(test::read_text(folder / "tokenizer.json"),
                                                   test::read_text(folder / "tokenizer_config.json"), folder.string());
  EXPECT_EQ(tokenizer.size(), 512u);
  EXPECT_EQ(tokenizer.bos(), TokenId(1));
  const std::string text = "Once upon a time, \u00e9\U0001f600";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(TokenizerJsonFile, KnowsItsTokens) {
  const Tokenizer tokenizer = test::fixture_tokenizer("llama2");
  EXPECT_EQ(tokenizer.find("<s>"), TokenId(1));
  EXPECT_TRUE(tokenizer.is_special(1));
  EXPECT_EQ(tokenizer.pipeline().tokens[0].type, TokenType::unknown);
  EXPECT_EQ(tokenizer.pipeline().tokens[3].type, TokenType::byte);
  EXPECT_EQ(tokenizer.bytes(*tokenizer.find("<0x41>")), "A");
  EXPECT_EQ(tokenizer.pipeline().tokens[*tokenizer.find("<mask>")].type, TokenType::user_defined);
  EXPECT_EQ(tokenizer.pipeline().prefix, std::vector<TokenId>{1});
  EXPECT_TRUE(tokenizer.pipeline().strip_first_space);
}

TEST(TokenizerJsonFile, PlainTextNamesNoSpecialTokens) {
  const Tokenizer tokenizer = test::fixture_tokenizer("llama2");
  const auto ids = tokenizer.encode("<s>", {.add_special = false, .parse_special = false});
  EXPECT_GT(ids.size(), 1u);
  EXPECT_EQ(tokenizer.decode(ids), "<s>");
}

// The configuration decides about BOS and EOS for the Llama family, and names the tokens for all.
TEST(TokenizerJsonConfig, AddsTokens) {
  const std::string file = test::fixture_text("llama2.json");
  const auto ids = [&](std::string_view config) { return Tokenizer::from_json(file, config, "x").encode("a"); };
  const std::vector<TokenId> plain = Tokenizer::from_json(file, "", "x").encode("a", {.add_special = false});
  const auto around = [&](std::vector<TokenId> before, std::vector<TokenId> after) {
    before.insert(before.end(), plain.begin(), plain.end());
    before.insert(before.end(), after.begin(), after.end());
    return before;
  };
  const std::string tokens = R"("bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false})";
  EXPECT_EQ(ids("{" + tokens + "}"), around({1}, {}));
  EXPECT_EQ(ids(R"({"tokenizer_class":"LlamaTokenizerFast","add_bos_token":false,)" + tokens + "}"), around({}, {}));
  EXPECT_EQ(ids(R"({"tokenizer_class":"LlamaTokenizer","add_eos_token":true,)" + tokens + "}"), around({1}, {2}));
  EXPECT_EQ(ids(R"({"tokenizer_class":"PreTrainedTokenizerFast","add_bos_token":false,)" + tokens + "}"),
            around({1}, {}));
  const Tokenizer tokenizer = Tokenizer::from_json(file, "{" + tokens + "}", "x");
  EXPECT_EQ(tokenizer.bos(), TokenId(1));
  EXPECT_EQ(tokenizer.eos(), TokenId(2));
  EXPECT_EQ(tokenizer.end_tokens(), std::vector<TokenId>{2});
}

}  // namespace
}  // namespace heddle::text
