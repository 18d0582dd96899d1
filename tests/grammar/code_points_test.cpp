#include "grammar/code_points.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

namespace heddle::grammar {
namespace {

TEST(CodePoints, AreInOrderAndApart) {
  CodePoints set{{10, 20}, {30, 40}};
  set.add(21, 29);
  EXPECT_EQ(set.ranges(), (std::vector<CodePoints::Range>{{10, 40}}));
  set.add(50, 60);
  set.add(0, 5);
  EXPECT_EQ(set.ranges(), (std::vector<CodePoints::Range>{{0, 5}, {10, 40}, {50, 60}}));
  EXPECT_EQ(set.complement().complement(), set);
  EXPECT_EQ(set.common({{3, 12}, {60, 70}}).ranges(), (std::vector<CodePoints::Range>{{3, 5}, {10, 12}, {60, 60}}));
  EXPECT_TRUE(set.contains(40) && !set.contains(41) && set.contains(0));
  EXPECT_TRUE(CodePoints::all().complement().empty());
}

TEST(CodePoints, HaveCategories) {
  const CodePoints upper = CodePoints::of_category("Lu"), letters = CodePoints::of_category("L");
  EXPECT_TRUE(upper.contains('A') && !upper.contains('a') && letters.contains('a') && letters.contains(0x4e00));
  EXPECT_FALSE(letters.contains('1'));
  EXPECT_THROW(CodePoints::of_category("Greek"), Error);
  EXPECT_THROW(CodePoints::of_category(""), Error);
}

// Each code point of a random set, and its neighbours, in UTF-8.
TEST(Written, InUtf8) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    CodePoints set;
    for (int i = 0; i < 3; ++i) {
      const char32_t first = random() % 0x110000 >> random() % 17, last = first + (random() % 3000 >> random() % 12);
      set.add(first, std::min<char32_t>(last, 0x10ffff));
    }
    Languages all;
    const Language language = written(all, set, Writing::utf8);
    for (const auto& r : set.ranges())
      for (uint32_t c : {uint32_t(r.first), uint32_t(r.last), r.first - 1, r.last + 1, (r.first + r.last) / 2}) {
        if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) continue;
        std::string text;
        append_utf8(text, c);
        ASSERT_EQ(all.contains(language, text), set.contains(c)) << uint32_t(c);
      }
  }
}

// What a JSON parser reads is in the set, however it is written.
TEST(Written, InAJsonString) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    CodePoints set;
    for (int i = 0; i < 3; ++i) {
      const char32_t first = random() % 0x110000 >> random() % 17;
      set.add(first, std::min<char32_t>(first + random() % 300, 0x10ffff));
    }
    Languages all;
    const Language language = written(all, set, Writing::json_string);
    auto check = [&](const std::string& text) {
      const auto parsed = nlohmann::json::parse("\"" + text + "\"", nullptr, false);
      bool in = false;
      if (!parsed.is_discarded()) {
        const auto value = parsed.get<std::string>();
        if (!value.empty()) {
          const CodePoint c = code_point_at(value, 0);
          in = c.bytes == value.size() && set.contains(c.value);
        }
      }
      ASSERT_EQ(all.contains(language, text), in) << text;
    };
    for (const auto& r : set.ranges())
      for (uint32_t c : {uint32_t(r.first), uint32_t(r.last), r.last + 1, r.first - 1}) {
        if (c > 0x10ffff) continue;
        std::string raw;
        if (c < 0xd800 || c > 0xdfff) append_utf8(raw, c);
        check(raw);
        if (c < 0x10000) {
          check(fmt::format("\\u{:04x}", uint32_t(c)));
          check(fmt::format("\\u{:04X}", uint32_t(c)));
        } else {
          check(fmt::format("\\u{:04x}\\u{:04X}", 0xd800 + ((uint32_t(c) - 0x10000) >> 10),
                            0xdc00 + (uint32_t(c) & 0x3ff)));
        }
      }
    for (const char* text : {"\\n", "\\t", "\\\"", "\\\\", "\\/", "/", "\"", "\\", "\\b", "\\f", "\\r", "\\x", ""})
      check(text);
  }
}

}  // namespace
}  // namespace heddle::grammar
