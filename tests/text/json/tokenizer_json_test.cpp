// tokenizer.json against what Hugging Face's tokenizers compute, and what is refused: every error names the place.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/utf8.h"
#include "tests/support/refused.h"
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

TEST(TokenizerJsonConfig, GenerationNamesFurtherEnds) {
  const std::string file = test::fixture_text("llama2.json");
  const auto ends = [&](std::string_view generation) {
    return Tokenizer::from_json(file, R"({"eos_token": "</s>"})", "x", generation).end_tokens();
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(ends(""), Ids{2});
  EXPECT_EQ(ends(R"({"temperature": 0.6})"), Ids{2});
  EXPECT_EQ(ends(R"({"eos_token_id": 300})"), (Ids{2, 300}));
  EXPECT_EQ(ends(R"({"eos_token_id": [2, 480, 300, 9999]})"), (Ids{2, 480, 300}));
  EXPECT_REFUSED(ends(R"({"eos_token_id": "</s>"})"), "x/generation_config.json", "eos_token_id", "</s>");
}

using Json = nlohmann::json;

// Two texts with what post-processors put between and around them.
TEST(TokenizerJsonPairs, AreThoseOfTokenizers) {
  const Json fixtures = Json::parse(test::fixture_text("pairs.json"));
  EXPECT_EQ(fixtures.size(), 11u);
  for (const Json& fixture : fixtures) {
    SCOPED_TRACE(fixture["name"]);
    Json file = Json::parse(test::fixture_text(fixture["tokenizer"].get<std::string>() + ".json"));
    file["post_processor"] = fixture["post_processor"];
    const Tokenizer tokenizer = Tokenizer::from_json(file.dump(), "", "x");
    for (const Json& one : fixture["cases"]) {
      const EncodedPair pair = tokenizer.encode_pair(one[0].get<std::string>(), one[1].get<std::string>());
      EXPECT_EQ(pair.ids, one[2].get<std::vector<TokenId>>()) << one;
      EXPECT_EQ(pair.types, one[3].get<std::vector<uint32_t>>()) << one;
    }
  }
}

TEST(TokenizerJsonPairs, TextsArePlain) {
  const Tokenizer tokenizer = test::fixture_tokenizer("wordpiece-bert");
  const TokenId separator = *tokenizer.find("[SEP]");
  const EncodedPair pair = tokenizer.encode_pair("a [SEP] b", "c [SEP]");
  EXPECT_EQ(std::count(pair.ids.begin(), pair.ids.end(), separator), 2);
}

// Characters with a byte that has no token are unknown, and bytes overtake an unknown token that may still grow.
TEST(TokenizerJsonFile, ByteFallbackMayHaveHoles) {
  Json file = Json::parse(test::fixture_text("gemma.json"));
  Json& vocab = file["model"]["vocab"];
  vocab["zz"] = vocab["<0xC4>"];
  vocab.erase("<0xC4>");
  const auto ids = [&](std::string_view text, bool fuse) {
    file["model"]["fuse_unk"] = fuse;
    return Tokenizer::from_json(file.dump(), "", "x").encode(text, {.add_special = false});
  };
  using Ids = std::vector<TokenId>;
  for (const bool fuse : {false, true}) {
    EXPECT_EQ(ids("\u0119", fuse), (Ids{0}));
    EXPECT_EQ(ids("\u0119\u4e2da", fuse), (Ids{231, 187, 176, 0, 294}));
  }
  EXPECT_EQ(ids("\u0119\u0119a", true), (Ids{0, 294}));
  EXPECT_EQ(ids("\u0119\u0119a", false), (Ids{0, 0, 294}));
  EXPECT_EQ(ids("\u0119\u4e2d\u0119\u4e2d", true), (Ids{231, 187, 176, 231, 187, 176, 0}));
  EXPECT_EQ(ids("\u0119\u4e2d\u0119\u4e2d", false), (Ids{231, 187, 176, 0, 231, 187, 176, 0}));
}

Json small() {
  return Json::parse(R"({
    "version": "1.0", "truncation": {"max_length": 3}, "padding": null,
    "added_tokens": [{"id": 3, "content": "<s>", "special": true, "normalized": false, "lstrip": false,
                      "rstrip": false, "single_word": false}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]},
    "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})");
}

std::string error_of(const Json& json, std::string_view config = "") {
  try {
    Tokenizer::from_json(json.dump(), config, "folder");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The error for small() with `value` in place of what is there, or "" when it is accepted.
std::string error_with(const std::string& pointer, const Json& value) {
  Json json = small();
  json[Json::json_pointer(pointer)] = value;
  return error_of(json);
}

void expect_mentions(const std::string& error, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts)
    EXPECT_NE(error.find(part), std::string::npos) << "expected " << part << " in: " << error;
}

TEST(TokenizerJsonRefused, TheSmallOneIsFine) {
  EXPECT_EQ(error_of(small()), "");
  EXPECT_EQ(Tokenizer::from_json(small().dump(), "", "x").encode("ab a<s>b"), (std::vector<TokenId>{2, 0, 3, 1}));
}

TEST(TokenizerJsonRefused, UnknownTypesAreNamed) {
  expect_mentions(error_with("/normalizer/normalizers/0/type", "Fancy"),
                  {"folder/tokenizer.json: normalizer.normalizers[0]", "\"Fancy\"", "NFKC"});
  expect_mentions(error_with("/pre_tokenizer/type", "UnicodeScripts"),
                  {"pre_tokenizer", "\"UnicodeScripts\"", "Split"});
  expect_mentions(error_with("/decoder/type", "CTC"), {"decoder", "\"CTC\"", "ByteLevel"});
  expect_mentions(error_with("/post_processor", {{"type", "Odd"}}),
                  {"post_processor", "\"Odd\"", "TemplateProcessing"});
  expect_mentions(error_with("/model/type", "Trigram"), {"model.type", "\"Trigram\"", "Unigram"});
  expect_mentions(error_with("/version", "2.0"), {"version", "2.0"});
}

TEST(TokenizerJsonRefused, UnknownFieldsAreNamed) {
  for (const char* pointer : {"/extra", "/model/extra", "/normalizer/extra", "/normalizer/normalizers/0/extra",
                              "/pre_tokenizer/extra", "/decoder/extra", "/added_tokens/0/extra"})
    expect_mentions(error_with(pointer, 1), {"folder/tokenizer.json", "unknown field \"extra\""});
}

TEST(TokenizerJsonRefused, Vocabularies) {
  expect_mentions(error_with("/model/vocab/c", 1), {"model.vocab", "\"b\"", "\"c\"", "id 1"});
  expect_mentions(error_with("/model/vocab/c", 4000000000u), {"model.vocab", "4000000000"});
  expect_mentions(error_with("/model/vocab/c", -1), {"model.vocab", "-1"});
  expect_mentions(error_with("/model/vocab/c", 2.5), {"model.vocab", "2.5"});
  expect_mentions(error_with("/model/vocab", Json::array()), {"model.vocab", "object"});
  expect_mentions(error_with("/added_tokens/0/id", 7), {"added_tokens[0]", "<s>", "7", "3"});
  expect_mentions(error_of(Json::object()), {"\"model\" is missing"});
  // holes are allowed
  EXPECT_EQ(error_with("/model/vocab/c", 20), std::string("folder/tokenizer.json: added_tokens[0]: \"<s>\" has id 3, "
                                                          "but a vocabulary of 4 gives it 4"));
}

TEST(TokenizerJsonRefused, Merges) {
  expect_mentions(error_with("/model/merges/0", {"a", "x"}), {"model.merges[0]", "\"x\" is not a token"});
  expect_mentions(error_with("/model/merges/0", {"b", "a"}), {"model.merges[0]", "\"ba\" is not a token"});
  expect_mentions(error_with("/model/merges/0", "a b c"), {"model.merges[0]", "a b c"});
  expect_mentions(error_with("/model/merges/0", 5), {"model.merges[0]", "5"});
  expect_mentions(error_with("/model/dropout", 0.1), {"model.dropout", "0.1"});
  EXPECT_EQ(error_with("/model/dropout", 0.0), "");
  EXPECT_EQ(error_with("/model/merges/0", "a b"), "");
}

TEST(TokenizerJsonRefused, Settings) {
  const Json split = {{"type", "Split"}, {"pattern", {{"Regex", "[a"}}}, {"behavior", "Isolated"}, {"invert", false}};
  EXPECT_NE(error_with("/pre_tokenizer", split), "");
  Json odd = split;
  odd["pattern"] = {{"String", "a"}};
  odd["behavior"] = "Shuffled";
  expect_mentions(error_with("/pre_tokenizer", odd), {"behavior", "Shuffled", "MergedWithNext"});
  const Json metaspace = {{"type", "Metaspace"}, {"replacement", "__"}};
  expect_mentions(error_with("/pre_tokenizer", metaspace), {"replacement", "__"});
  expect_mentions(
      error_with(
          "/pre_tokenizer",
          {{"type", "Metaspace"}, {"replacement", "_"}, {"add_prefix_space", false}, {"prepend_scheme", "first"}}),
      {"add_prefix_space", "first"});
  expect_mentions(error_with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}}),
                  {"normalizer"});
  expect_mentions(error_with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "!"}}), {"base64"});
  expect_mentions(error_with("/model/byte_fallback", "yes"), {"model.byte_fallback", "yes"});
  expect_mentions(
      error_with("/post_processor", {{"type", "BertProcessing"}, {"sep", {"<s>", 99}}, {"cls", {"<s>", 3}}}),
      {"post_processor", "99"});
}

TEST(TokenizerJsonRefused, Templates) {
  const auto with = [](const Json& single, const Json& pair) {
    return Json{{"type", "TemplateProcessing"},
                {"single", single},
                {"pair", pair},
                {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {3}}, {"tokens", {"<s>"}}}}}}};
  };
  const auto text = [](const char* id) { return Json{{"Sequence", {{"id", id}, {"type_id", 0}}}}; };
  const Json token = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 1}}}}, a = text("A"), b = text("B");
  EXPECT_EQ(error_with("/post_processor", with({token, a}, {token, a, b})), "");
  expect_mentions(error_with("/post_processor", with(Json::array({token}), Json::array())),
                  {"post_processor.single", "A"});
  expect_mentions(error_with("/post_processor", with({a, b}, Json::array())), {"single[1].Sequence", "\"B\""});
  expect_mentions(error_with("/post_processor", with(Json::array({a}), {a, b, a})), {"pair[2].Sequence", "\"A\""});
  expect_mentions(error_with("/post_processor", with(Json::array({a}), {a, text("C")})), {"pair[1].Sequence", "\"C\""});
  Json other = with(Json::array({a}), Json::array());
  other["future"] = 1;
  expect_mentions(error_with("/post_processor", other), {"post_processor", "unknown field \"future\""});

  Json json = small();
  json["post_processor"] = with({token, a}, Json::array());
  const Tokenizer tokenizer = Tokenizer::from_json(json.dump(), "", "x");
  EXPECT_EQ(tokenizer.encode("a"), (std::vector<TokenId>{3, 0}));
  EXPECT_REFUSED(tokenizer.encode_pair("a", "b"), "two texts", "post_processor.pair");
}

TEST(TokenizerJsonRefused, DecodersThatNeedTheWholeText) {
  expect_mentions(error_with("/decoder", {{"type", "BPEDecoder"}, {"suffix", "</w>"}}), {"decoder", "BPEDecoder"});
  const Json regex = {{"type", "Replace"}, {"pattern", {{"Regex", "a+"}}}, {"content", "b"}};
  expect_mentions(error_with("/decoder", regex), {"decoder", "Replace", "a+"});
}

TEST(TokenizerJsonRefused, Configurations) {
  expect_mentions(error_of(small(), R"({"bos_token": "<bos>"})"),
                  {"folder/tokenizer_config.json", "bos_token", "<bos>"});
  expect_mentions(error_of(small(), R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true})"),
                  {"add_bos_token", "no bos_token"});
  expect_mentions(error_of(small(), "["), {"folder/tokenizer_config.json"});
}

}  // namespace
}  // namespace heddle::text
