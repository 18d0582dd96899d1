#include "grammar/free_text.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/json_schema.h"
#include "tests/grammar/random_grammar.h"

namespace heddle::grammar {
namespace {

using test::accepts;
using test::compile;
using Texts = std::vector<std::string>;

bool contains_any(std::string_view text, const Texts& list) {
  return std::ranges::any_of(list, [&](const std::string& one) { return text.find(one) != text.npos; });
}

std::vector<std::string> byte_texts(size_t longest) {
  std::vector<std::string> all;
  for (const std::u32string& each : test::all_texts(U"abcd", longest)) {
    std::string text;
    for (char32_t c : each) text += c == U'c' ? '\xc3' : c == U'd' ? '\xa9' : char(c);
    all.push_back(text);
  }
  return all;
}

TEST(FreeText, SearchesAsTryingEverythingDoes) {
  std::mt19937 random(2);
  const std::vector<std::string> texts = byte_texts(5);
  for (int round = 0; round < 100; ++round) {
    const auto some = [&](size_t most) {
      Texts list;
      for (size_t count = random() % (most + 1); count > 0; --count) {
        std::string text;
        for (size_t length = 1 + random() % 3; length > 0; --length)
          text += std::array{"a", "b", "\xc3\xa9"}[random() % 3];
        list.push_back(text);
      }
      return list;
    };
    Languages all;
    const Texts never = some(2);
    const Language without = text_without(all, never);
    for (const std::string& text : texts)
      ASSERT_EQ(all.contains(without, text), is_utf8(text) && !contains_any(text, never)) << text;

    const Texts until = some(2);
    const auto inside_another = [&] {
      for (const Texts& list : {until, never})
        for (const std::string& a : list)
          for (const std::string& b : until)
            if (&a != &b && (a.find(b) != a.npos || b.find(a) != b.npos)) return true;
      return false;
    };
    if (until.empty() || inside_another()) continue;
    const Language found = text_until(all, until, never);
    for (const std::string& text : texts) {
      const bool ends = std::ranges::any_of(until, [&](const std::string& u) { return text.ends_with(u); });
      const bool early = !text.empty() && contains_any(std::string_view(text).substr(0, text.size() - 1), until);
      ASSERT_EQ(all.contains(found, text), is_utf8(text) && ends && !early && !contains_any(text, never)) << text;
    }
  }
}

// <n> leads to "n", <j> to a JSON value.
FreeText with_triggers(Grammar& g) {
  const Symbol n = g.terminal(g.languages.text("n"));
  const Symbol json = add_json_schema(g, nlohmann::ordered_json::parse(R"({"type": "integer"})"));
  return {.triggers = {{"<n>", n}, {"<j>", json}}};
}
std::shared_ptr<CompiledGrammar> built(const std::function<void(FreeText&)>& change) {
  Grammar g;
  FreeText text = with_triggers(g);
  change(text);
  g.set_start(add_free_text(g, text));
  return compile(std::move(g));
}

TEST(FreeText, ATriggerLeadsToWhatItStandsFor) {
  const auto grammar = built([](FreeText&) {});
  for (const char* text : {"", "hello", "a<n>n", "a<n>n<j>12 b", "<<n>n<", "<n<n>n\u00e9", "<j>1<n>nn"})
    EXPECT_TRUE(accepts(grammar, text)) << text;
  for (const char* text : {"<n>", "<n>x", "a<j>x", "<n>n<j>", "\xff", "a\xc3"})
    EXPECT_FALSE(accepts(grammar, text)) << text;
}

TEST(FreeText, OnceAtLeastOnceAndWithEnds) {
  const auto once = built([](FreeText& t) { t.again = false; });
  EXPECT_TRUE(accepts(once, "ab"));
  EXPECT_TRUE(accepts(once, "ab<n>n"));
  EXPECT_FALSE(accepts(once, "ab<n>n "));
  const auto must = built([](FreeText& t) { t.must_trigger = true; });
  EXPECT_FALSE(accepts(must, "ab"));
  EXPECT_TRUE(accepts(must, "ab<n>n c"));
  const auto ends = built([](FreeText& t) {
    t.ends = {"</x>", "</y>"};
    t.excluded = {"bad", "</y>"};
  });
  EXPECT_TRUE(accepts(ends, "</x>"));
  EXPECT_TRUE(accepts(ends, "a<n>n</y>"));
  EXPECT_FALSE(accepts(ends, "a<n>n"));
  EXPECT_FALSE(accepts(ends, "</x>a"));
  EXPECT_FALSE(accepts(ends, "</x></y>"));
  EXPECT_FALSE(accepts(ends, "a bad</y>"));
  const auto one_end = built([](FreeText& t) {
    t.ends = {"."};
    t.again = false;
  });
  EXPECT_TRUE(accepts(one_end, "a."));
  EXPECT_TRUE(accepts(one_end, "a<n>n."));
  EXPECT_FALSE(accepts(one_end, "a<n>n b."));
}

TEST(FreeText, BehindItsEndNothingFollows) {
  Grammar g;
  g.set_start(add_free_text(g, {.triggers = {}, .ends = {"."}}));
  Position at(compile(std::move(g)));
  EXPECT_TRUE(at.take("ab"));
  EXPECT_FALSE(at.must_end());
  EXPECT_TRUE(at.take("."));
  EXPECT_TRUE(at.may_end());
  EXPECT_TRUE(at.must_end());
}

TEST(FreeText, TriggersThatOverlapThemselves) {
  Grammar g;
  g.set_start(add_free_text(g, {.triggers = {{"aa", g.terminal(g.languages.text("b"))}}}));
  const auto grammar = compile(std::move(g));
  EXPECT_TRUE(accepts(grammar, "caab"));
  EXPECT_FALSE(accepts(grammar, "aaab"));  // behind the first two comes b
}

TEST(FreeText, TextsThatHideOthersAreErrors) {
  Grammar g;
  const Symbol then = g.terminal(g.languages.text("b"));
  EXPECT_THROW(add_free_text(g, {.triggers = {{"<a", then}, {"<a>", then}}}), Error);
  EXPECT_THROW(add_free_text(g, {.triggers = {{"<a>", then}}, .ends = {"a"}}), Error);
  EXPECT_THROW(add_free_text(g, {.triggers = {{"<a>", then}}, .ends = {"<a>"}}), Error);
  EXPECT_THROW(add_free_text(g, {.triggers = {{"<a>", then}}, .excluded = {"a"}}), Error);
  EXPECT_THROW(add_free_text(g, {.triggers = {{"", then}}}), Error);
  EXPECT_THROW(add_free_text(g, {.triggers = {{"\xff", then}}}), Error);
  EXPECT_THROW(add_free_text(g, {.triggers = {}, .must_trigger = true}), Error);
}

}  // namespace
}  // namespace heddle::grammar
