#include "grammar/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"

namespace heddle::grammar {
namespace {

TEST(Decimal, IsExact) {
  EXPECT_EQ(Decimal("-012.500").text(), "-12.5");
  EXPECT_EQ(Decimal("1.25e3").text(), "1250");
  EXPECT_EQ(Decimal("125E-4").text(), "0.0125");
  EXPECT_EQ(Decimal("-0.0").text(), "0");
  EXPECT_EQ(Decimal("1e20").text(), "100000000000000000000");
  for (const char* text : {"", "-", "1.", ".5", "1e", "x", "1e999", "1x"}) EXPECT_THROW(Decimal{text}, Error) << text;
}

// Thousandths, so that sums are exact.
std::string text_of(int64_t thousandths) {
  std::string text =
      fmt::format("{}{}.{:03}", thousandths < 0 ? "-" : "", std::abs(thousandths) / 1000, std::abs(thousandths) % 1000);
  return text;
}

TEST(Numbers, BetweenBounds) {
  std::mt19937 random(9);
  auto any = [&] { return int64_t(random() % 30'000) - 15'000; };
  for (int round = 0; round < 400; ++round) {
    NumberLimits limits;
    std::optional<int64_t> least, most, of;
    if (random() % 3) least = any() / int64_t(random() % 2 ? 1 : 1000) * (random() % 2 ? 1 : 10);
    if (random() % 3) most = (least ? *least : 0) + int64_t(random() % 20'000);
    if (random() % 3 == 0) of = std::array<int64_t, 8>{1000, 10, 100, 2000, 3000, 250, 7, 12'000}[random() % 8];
    if (least) limits.least = Decimal(text_of(*least));
    if (most) limits.most = Decimal(text_of(*most));
    if (of) limits.multiple_of = Decimal(text_of(*of));
    limits.above_least = random() % 2;
    limits.below_most = random() % 2;
    limits.whole = random() % 2;
    Languages all;
    const Language language = numbers(all, limits);
    auto inside = [&](int64_t v) {
      return (!least || (limits.above_least ? v > *least : v >= *least)) &&
             (!most || (limits.below_most ? v < *most : v <= *most)) && (!of || v % *of == 0) &&
             (!limits.whole || v % 1000 == 0);
    };
    std::vector<int64_t> values{0, 1, -1, 1000, -1000, 999, 10'000};
    for (const auto& bound : {least, most})
      if (bound)
        for (int64_t d : {-1000, -10, -1, 0, 1, 10, 1000}) values.push_back(*bound + d);
    for (int i = 0; i < 40; ++i) values.push_back(any());
    for (int i = 0; i < 40; ++i) values.push_back(any() / 1000 * 1000);
    for (int64_t v : values) {
      // with all digits, more zeros, and none
      std::string text = text_of(v);
      for (int form = 0; form < 3; ++form) {
        if (form == 1) text += "0";
        if (form == 2) {
          text = Decimal(text).text();
          if (v == 0 && random() % 2) text = "-0";
        }
        ASSERT_EQ(all.contains(language, text), inside(v))
            << text << " least " << (least ? text_of(*least) : "") << " most " << (most ? text_of(*most) : "") << " of "
            << (of ? text_of(*of) : "") << " " << limits.above_least << limits.below_most << limits.whole;
      }
    }
    for (const char* text : {"", "-", "01", "1.", ".5", "+1", "--1", "1.2.3", "00"})
      ASSERT_FALSE(all.contains(language, text)) << text;
  }
}

TEST(Numbers, WithoutLimitsInEveryForm) {
  Languages all;
  const Language any = numbers(all, {}), whole = numbers(all, {.whole = true});
  for (const char* text : {"0", "-1", "12.5", "1e5", "1.5E-10", "-0.0e+1"})
    EXPECT_TRUE(all.contains(any, text)) << text;
  for (const char* text : {"0", "-1", "100", "1.0"}) EXPECT_TRUE(all.contains(whole, text)) << text;
  for (const char* text : {"1.5", "1e", "e", "01"}) EXPECT_FALSE(all.contains(whole, text)) << text;
}

TEST(Numbers, RefuseMultiplesThatNeedTooManyStates) {
  Languages all;
  EXPECT_THROW(numbers(all, {.multiple_of = Decimal("0.000123457")}), Error);
  EXPECT_THROW(numbers(all, {.multiple_of = Decimal("0")}), Error);
  EXPECT_THROW(numbers(all, {.multiple_of = Decimal("-1")}), Error);
}

}  // namespace
}  // namespace heddle::grammar
