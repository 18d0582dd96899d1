// What tokenizer.json may not say. Every error names the place.
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/text/json/json_fixture.h"
#include "text/tokenizer.h"

namespace heddle::text {
namespace {

using Json = nlohmann::json;

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
