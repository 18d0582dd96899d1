// Strict JSON: what is taken, and what is refused with which words.
#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "tests/support/refused.h"

namespace heddle {
namespace {

Json parse(std::string_view text) { return parse_json(text, "c.json"); }

TEST(Json, ReadsEveryKindOfValue) {
  const Json json = parse(R"( {"a": [1, -2, 2.5, true, false, null, "x\u00e9\n"], "b": {"c": {}, "d": []},
                               "big": 18446744073709551615, "low": -9223372036854775808, "e": 1e-5} )");
  EXPECT_EQ(json["a"].size(), 7u);
  EXPECT_TRUE(json["a"][0].is_number_unsigned());
  EXPECT_EQ(json["a"][1], -2);
  EXPECT_EQ(json["a"][2], 2.5);
  EXPECT_EQ(json["a"][3], true);
  EXPECT_TRUE(json["a"][5].is_null());
  EXPECT_EQ(json["a"][6], "x\xc3\xa9\n");
  EXPECT_TRUE(json["b"]["c"].is_object());
  EXPECT_TRUE(json["b"]["d"].is_array());
  EXPECT_EQ(json["big"].get<uint64_t>(), ~uint64_t{0});
  EXPECT_EQ(json["low"].get<int64_t>(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(json["e"], 1e-5);
  EXPECT_EQ(parse("7"), 7);
  EXPECT_EQ(parse("\"\""), "");
  EXPECT_EQ(parse("\xef\xbb\xbf[]"), Json::array());  // a byte order mark
}

// The same document as nlohmann's own parser makes.
TEST(Json, BuildsNestedDocumentsInOrder) {
  std::string text = "[";
  for (int i = 0; i < 200; ++i)
    text += (i ? "," : "") + ("{\"k" + std::to_string(i)) + "\":[[" + std::to_string(i) + "],{\"x\":[{}]}],\"z\":\"" +
            std::string(size_t(i), 'q') + "\"}";
  text += "]";
  EXPECT_EQ(parse(text), Json::parse(text));
}

TEST(Json, RefusesWhatIsNoJson) {
  for (const char* text : {"",    " ",        "{",  "[1,]",      "{\"a\":}",    "{a:1}",   "[1] 2",    "nul",
                           "01",  "1.",       "+1", "'a'",       "[1 2]",       "// x\n1", "\"a\nb\"", "\"\\x\"",
                           "NaN", "Infinity", "]",  "{\"a\" 1}", "\"\\ud800\"", "\"abc"})
    EXPECT_REFUSED(parse(text), "c.json: no valid JSON at byte ");
  EXPECT_REFUSED(parse("[1,x]"), "c.json: no valid JSON at byte 4, near \"1,x\": ", "invalid literal");
  EXPECT_REFUSED(parse("1e999"), "c.json: no valid JSON");
  EXPECT_REFUSED(parse(std::string_view("[\0]", 3)), "c.json: no valid JSON at byte 2");
}

TEST(Json, RefusesInvalidUtf8WithAMessageThatIsValid) {
  for (const char* text :
       {"\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"abc\xe2\x82\"", "\xff"}) {
    const std::string message = test::refusal([&] { parse(text); });
    test::expect_says(message, {"c.json: no valid JSON"});
    EXPECT_TRUE(is_utf8(message)) << message;
  }
  // a message stays short, and does not cut a character
  for (size_t shift = 0; shift < 3; ++shift) {
    std::string text = "\"" + std::string(shift, 'a');
    for (int i = 0; i < 1000; ++i) text += "\xe2\x82\xac";
    const std::string message = test::refusal([&] { parse(text); });
    EXPECT_LT(message.size(), 300u);
    EXPECT_TRUE(is_utf8(message)) << message;
  }
}

TEST(Json, BoundsTheDepth) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse(nested(64)));
  EXPECT_REFUSED(parse(nested(65)), "c.json: nested deeper than 64 levels");
  EXPECT_REFUSED(parse(std::string(10'000'000, '[')), "c.json: nested deeper than 64 levels");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_REFUSED(parse(objects), "c.json: nested deeper than 64 levels");
  EXPECT_NO_THROW(parse_json("[[1]]", "c.json", 2));
  EXPECT_REFUSED(parse_json("[[[1]]]", "c.json", 2), "nested deeper than 2 levels");
  EXPECT_REFUSED(parse_json("[]", "c.json", 0), "nested deeper than 0 levels");
  EXPECT_EQ(parse_json("1", "c.json", 0), 1);
}

TEST(Json, RefusesAKeyTwiceInOneObjectOnly) {
  EXPECT_EQ(parse(R"({"a": {"a": 1}, "b": {"a": 2}})")["b"]["a"], 2);
  EXPECT_REFUSED(parse(R"({"a": 1, "b": 2, "a": 1})"), "c.json: the key \"a\" is there twice in one object");
  EXPECT_REFUSED(parse(R"([{"x": {"": 1, "": 2}}])"), "the key \"\" is there twice");
  EXPECT_REFUSED(parse(R"({"a": 1, "\u0061": 1})"), "the key \"a\" is there twice");
  EXPECT_REFUSED(parse(R"({"a\n": 1, "a\n": 1})"), "the key \"a\\n\" is there twice");
}

TEST(Json, IsShortenedForMessages) {
  EXPECT_EQ(shortened(parse(R"({"a": [1, "x"]})")), R"({"a":[1,"x"]})");
  EXPECT_EQ(shortened(Json(std::string(78, 'x'))), "\"" + std::string(78, 'x') + "\"");
  EXPECT_EQ(shortened(Json(std::string(100, 'x'))), "\"" + std::string(76, 'x') + "...");
  EXPECT_EQ(shortened(parse("[1,2,3,4,5,6,7,8,9]")), "array of 9 elements");
  std::string wide;  // cut within a character
  for (int i = 0; i < 50; ++i) wide += "\u00e4";
  EXPECT_TRUE(is_utf8(shortened(Json(wide))) && is_utf8(shortened(Json("x" + wide))));
}

}  // namespace
}  // namespace heddle
