#include "grammar/token_masks.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "grammar/json_schema.h"
#include "grammar/pattern.h"

namespace heddle::grammar {
namespace {

// Objects, lists, strings, numbers: JSON, with at most one space where it may stand.
std::shared_ptr<CompiledGrammar> json() {
  Grammar g;
  auto pattern = [&](std::string_view text) { return g.terminal(whole_pattern(g.languages, text, Writing::utf8)); };
  const Symbol string = pattern("\"([^\"\\\\\\x00-\\x1f]|\\\\([\"\\\\/bfnrt]|u[0-9a-fA-F]{4}))*\""),
               number = pattern("-?(0|[1-9]\\d*)(\\.\\d+)?([eE][+-]?\\d+)?"), word = pattern("true|false|null"),
               comma = pattern(", ?"), colon = pattern(": ?");
  const Symbol value = g.rule(), members = g.rule(), items = g.rule();
  for (const Symbol& s : {string, number, word}) g.add_choice(value, {s});
  g.add_choice(value, {pattern("\\{"), pattern("\\}")});
  g.add_choice(value, {pattern("\\{"), members, pattern("\\}")});
  g.add_choice(value, {pattern("\\["), pattern("\\]")});
  g.add_choice(value, {pattern("\\["), items, pattern("\\]")});
  g.add_choice(members, {string, colon, value});
  g.add_choice(members, {members, comma, string, colon, value});
  g.add_choice(items, {value});
  g.add_choice(items, {items, comma, value});
  g.set_start(value);
  return std::make_shared<CompiledGrammar>(std::move(g));
}

std::vector<std::string> random_vocabulary(std::mt19937& random) {
  const std::vector<std::string> pieces{"{", "}", "[", "]", "\"", ",", ":",    " ",    "a",    "b",    "\\",
                                        "n", "1", "0", ".", "e",  "-", "true", "null", "\xc3", "\xa4", "\n"};
  std::vector<std::string> all{""};
  for (int byte = 0; byte < 256; ++byte) all.emplace_back(1, char(byte));
  for (int i = 0; i < 400; ++i) {
    std::string text;
    for (uint32_t n = 1 + random() % 5; n > 0; --n) text += pieces[random() % pieces.size()];
    all.push_back(text);
  }
  return all;
}

// At every position of random walks, a token is allowed exactly if its bytes can be taken.
TEST(TokenMasks, AllowWhatCanBeTaken) {
  std::mt19937 random(2);
  const auto grammar = json();
  for (int round = 0; round < 20; ++round) {
    const std::vector<std::string> tokens = random_vocabulary(random);
    TokenMasks masks(grammar, std::make_shared<Vocabulary>(tokens));
    Position at(grammar);
    for (int step = 0; step < 40 && !at.must_end(); ++step) {
      const TokenMask mask = masks.mask(at);
      std::vector<uint32_t> allowed;
      for (uint32_t t = 0; t < tokens.size(); ++t) {
        Position next = at;
        ASSERT_EQ(mask[t], !tokens[t].empty() && next.take(tokens[t])) << tokens[t] << " in step " << step;
        if (mask[t]) allowed.push_back(t);
      }
      ASSERT_EQ(mask.count(), allowed.size());
      ASSERT_FALSE(allowed.empty());
      at.take(tokens[allowed[random() % allowed.size()]]);
    }
  }
}

// The same where strings have limits: lengths, patterns, names that are not some others; with pieces of escapes and of
// characters in the vocabulary.
TEST(TokenMasks, OfSchemas) {
  const std::vector<std::string> pieces{"a",    "b",    "name",     "na",      "\"",  "\":",  ", \"", " ",    "\\",
                                        "\\n",  "\\u0", "061",      "\\ud83d", "\\u", "de00", "\n",   "\xc3", "\xa4",
                                        "\xf0", "\x9f", "\x98\x80", "}",       "]",   "1",    "{",    "["};
  std::mt19937 random(7);
  for (
      const char* schema :
      {R"({"type": "string", "maxLength": 3})", R"({"type": "string", "minLength": 2, "maxLength": 40})",
       R"({"properties": {"name": {"type": "string", "maxLength": 5}, "nab": {}}, "required": ["name"], "type": "object"})",
       R"({"type": "object", "propertyNames": {"pattern": "^[an]"}, "additionalProperties": {"pattern": "a.*b"}})",
       R"({"type": "array", "items": {"not": {"enum": ["a", "ab", "name"]}, "type": "string"}})",
       R"({"enum": ["a\n", "name", 1, 11, {"a": [1]}]})", "{}"}) {
    const auto grammar = std::make_shared<CompiledGrammar>(json_schema(nlohmann::ordered_json::parse(schema)));
    std::vector<std::string> tokens{""};
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, char(byte));
    for (int i = 0; i < 600; ++i) {
      std::string text = i % 2 ? " " : "";  // many with the same beginning
      for (uint32_t n = 1 + random() % 6; n > 0; --n) text += pieces[random() % pieces.size()];
      tokens.push_back(text);
    }
    TokenMasks masks(grammar, std::make_shared<Vocabulary>(tokens));
    for (int round = 0; round < 5; ++round) {
      Position at(grammar);
      for (int step = 0; step < 25 && !at.must_end(); ++step) {
        const TokenMask mask = masks.mask(at);
        std::vector<uint32_t> allowed;
        for (uint32_t t = 0; t < tokens.size(); ++t) {
          Position next = at;
          ASSERT_EQ(mask[t], !tokens[t].empty() && next.take(tokens[t]))
              << schema << ", token " << tokens[t] << " in step " << step;
          if (mask[t]) allowed.push_back(t);
        }
        ASSERT_FALSE(allowed.empty());
        // longer tokens are the more interesting ones
        uint32_t chosen = allowed[random() % allowed.size()];
        if (const uint32_t other = allowed[random() % allowed.size()]; tokens[other].size() > tokens[chosen].size())
          chosen = other;
        at.take(tokens[chosen]);
      }
    }
  }
}

TEST(TokenMasks, OfTheEnd) {
  const auto grammar = json();
  TokenMasks masks(grammar, std::make_shared<Vocabulary>(std::vector<std::string>{"true", "}", " "}));
  Position at(grammar);
  EXPECT_TRUE(at.take("true"));
  EXPECT_TRUE(at.may_end() && at.must_end());
  EXPECT_EQ(masks.mask(at).count(), 0u);
}

// Each position behind a token can be found, but not all of them at once.
TEST(TokenMasks, StepsOfAMaskAreBounded) {
  Grammar g;
  const Symbol start = g.rule();
  g.add_choice(start, {g.terminal(g.languages.text("a"))});
  g.add_choice(start, {start, start});
  g.set_start(start);
  const auto grammar = std::make_shared<CompiledGrammar>(std::move(g), ParseLimits{.steps = 1'000'000});
  std::vector<std::string> tokens;
  for (size_t i = 1; i <= 60; ++i) tokens.emplace_back(i, 'a');
  TokenMasks masks(grammar, std::make_shared<Vocabulary>(tokens));
  Position at(grammar);
  ASSERT_TRUE(at.take(std::string(60, 'a')));
  EXPECT_EQ(masks.mask(at).count(), 60u);
  ASSERT_TRUE(at.take(std::string(200, 'a')));
  try {
    masks.mask(at);
    ADD_FAILURE() << "a mask";
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "the grammar needs more than 1000000 steps at once: it is too ambiguous, or its patterns have too many "
        "states");
  }
  EXPECT_TRUE(at.take("a"));  // the limit is that of the mask
  EXPECT_FALSE(masks.is_full());
}

// A long text of counted characters has a state for each of them, and fits.
TEST(TokenMasks, LongTextsOfCountedCharactersFit) {
  const auto grammar = std::make_shared<CompiledGrammar>(
      json_schema(nlohmann::ordered_json{{"type", "string"}, {"maxLength", 1000000}}));
  Position at(grammar);
  ASSERT_TRUE(at.take("\""));
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(at.take('a'));
  EXPECT_TRUE(at.take("\"") && at.must_end());
}

// A pattern with a million states: texts go on until too many of them are there, and a grammar compiled afresh takes
// the text further.
TEST(TokenMasks, StatesThatTextsAddAreBounded) {
  std::mt19937 random(3);
  const auto compiled_afresh = [] {
    Grammar g;
    g.set_start(g.terminal(whole_pattern(g.languages, "[ab]*a[ab]{19}", Writing::utf8)));
    return std::make_shared<CompiledGrammar>(std::move(g), ParseLimits{.added_bytes = 16u << 20});
  };
  const auto grammar = compiled_afresh();
  TokenMasks masks(grammar, std::make_shared<Vocabulary>(std::vector<std::string>{"a", "b", "ab", "bba"}));
  Position at(grammar);
  std::string text, error;
  bool was_full = false;
  while (error.empty() && text.size() < 500'000) {
    text += "ab"[random() % 2];
    was_full = masks.is_full();
    try {
      ASSERT_TRUE(at.take(uint8_t(text.back())));
      ASSERT_EQ(masks.mask(at).count(), 4u);
    } catch (const Error& e) {
      error = e.what();
    }
  }
  EXPECT_TRUE(error.starts_with("the patterns of the grammar have too many states: ")) << error;
  EXPECT_TRUE(error.ends_with(", more than 16 MiB")) << error;
  EXPECT_TRUE(was_full);
  EXPECT_LE(grammar->added_bytes(), grammar->limits().added_bytes);
  EXPECT_TRUE(Position(compiled_afresh()).take(std::string_view(text).substr(text.size() - 100)));
}

}  // namespace
}  // namespace heddle::grammar
