#include "grammar/numbers.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle::grammar {

Decimal::Decimal(std::string_view text) {
  const std::string_view all = text;
  auto fail = [&] { throw Error("{} is no number", in_quotes(all)); };
  bool minus = false;
  if (text.starts_with('-')) {
    minus = true;
    text.remove_prefix(1);
  }
  auto digits = [&] {
    const size_t n = std::min(text.find_first_not_of("0123456789"), text.size());
    if (n == 0) fail();
    const std::string some(text.substr(0, n));
    text.remove_prefix(n);
    return some;
  };
  whole = digits();
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = digits();
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+')) text.remove_prefix(1);
    int exponent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
    if (error != std::errc() || end != text.data() + text.size()) fail();
    if (exponent > 400 || exponent < -400) throw Error("the exponent of {} is beyond 400", in_quotes(all));
    for (; exponent > 0; --exponent) {
      whole += fraction.empty() ? '0' : fraction[0];
      if (!fraction.empty()) fraction.erase(0, 1);
    }
    for (; exponent < 0; ++exponent) {
      fraction.insert(fraction.begin(), whole.back());
      whole.pop_back();
      if (whole.empty()) whole = "0";
    }
    text = {};
  }
  if (!text.empty()) fail();
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size() - 1));
  fraction.erase(fraction.find_last_not_of('0') + 1);
  negative = minus && !is_zero();
}

std::string Decimal::text() const { return (negative ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction); }

int Decimal::compare(const Decimal& other) const {
  if (negative != other.negative) return negative ? -1 : 1;
  const int sign = negative ? -1 : 1;
  if (whole.size() != other.whole.size()) return whole.size() < other.whole.size() ? -sign : sign;
  const int by_whole = whole.compare(other.whole);
  return (by_whole != 0 ? by_whole : fraction.compare(other.fraction)) * sign;
}

namespace {

class NumberWriter {
 public:
  explicit NumberWriter(Languages& all) : all_(all) {
    digit_ = range('0', '9');
    digits_ = all_.repeat(digit_, 0);
    some_digits_ = all_.repeat(digit_, 1);
    point_ = all_.text(".");
    zeros_ = all_.repeat(all_.text("0"), 0);
    fraction_ = optional(all_.sequence(point_, some_digits_));
    no_fraction_ = optional(all_.sequence(point_, all_.repeat(all_.text("0"), 1)));
  }

  Language optional(Language a) { return all_.any_of({Languages::empty, a}); }
  Language signed_numbers(Language positive) { return all_.sequence(optional(all_.text("-")), positive); }
  Language whole_part() { return all_.any_of({all_.text("0"), all_.sequence(range('1', '9'), digits_)}); }
  Language fraction() const { return fraction_; }
  Language no_fraction() const { return no_fraction_; }
  Language exponent() {
    const Language e = all_.bytes(Bytes().set('e').set('E')), sign = all_.bytes(Bytes().set('+').set('-'));
    return all_.sequence(std::vector{e, optional(sign), some_digits_});
  }

  // Magnitudes of at least d, or above it.
  Language at_least(const Decimal& d, bool above) {
    std::vector<Language> ways;
    const std::string& w = d.whole;
    // a longer whole part, or a larger one of the same length
    ways.push_back(all_.sequence(std::vector{range('1', '9'), all_.repeat(digit_, uint32_t(w.size())), fraction_}));
    for (size_t i = 0; i < w.size(); ++i)
      if (w[i] < '9')
        ways.push_back(all_.sequence(
            std::vector{all_.text(w.substr(0, i)), range(char(w[i] + 1), '9'),
                        all_.repeat(digit_, uint32_t(w.size() - i - 1), uint32_t(w.size() - i - 1)), fraction_}));
    // the same whole part
    const Language rest = above ? all_.sequence(std::vector{digits_, range('1', '9'), digits_}) : digits_;
    if (d.fraction.empty()) {
      ways.push_back(all_.sequence(all_.text(w), above ? all_.sequence(point_, rest) : fraction_));
    } else {
      std::vector<Language> fractions{all_.sequence(all_.text(d.fraction), rest)};
      for (size_t i = 0; i < d.fraction.size(); ++i)
        if (d.fraction[i] < '9')
          fractions.push_back(all_.sequence(
              std::vector{all_.text(d.fraction.substr(0, i)), range(char(d.fraction[i] + 1), '9'), digits_}));
      ways.push_back(all_.sequence(std::vector{all_.text(w), point_, all_.any_of(std::move(fractions))}));
    }
    return all_.any_of(std::move(ways));
  }
  // Magnitudes of at most d, or below it.
  Language at_most(const Decimal& d, bool below) {
    std::vector<Language> ways;
    const std::string& w = d.whole;
    if (w.size() > 1) {
      ways.push_back(all_.sequence(all_.text("0"), fraction_));
      ways.push_back(
          all_.sequence(std::vector{range('1', '9'), all_.repeat(digit_, 0, uint32_t(w.size() - 2)), fraction_}));
    }
    for (size_t i = 0; i < w.size(); ++i) {
      const char least = i == 0 && w.size() > 1 ? '1' : '0';
      if (w[i] > least)
        ways.push_back(all_.sequence(
            std::vector{all_.text(w.substr(0, i)), range(least, char(w[i] - 1)),
                        all_.repeat(digit_, uint32_t(w.size() - i - 1), uint32_t(w.size() - i - 1)), fraction_}));
    }
    if (d.fraction.empty()) {
      if (!below) ways.push_back(all_.sequence(all_.text(w), no_fraction_));
      return all_.any_of(std::move(ways));
    }
    std::vector<Language> fractions;
    for (size_t i = 0; i < d.fraction.size(); ++i) {
      const Language same = all_.text(d.fraction.substr(0, i));
      if (i > 0) fractions.push_back(same);  // it ends before the bound does
      if (d.fraction[i] > '0')
        fractions.push_back(all_.sequence(std::vector{same, range('0', char(d.fraction[i] - 1)), digits_}));
    }
    if (!below) fractions.push_back(all_.sequence(all_.text(d.fraction), zeros_));
    ways.push_back(all_.text(w));
    ways.push_back(all_.sequence(std::vector{all_.text(w), point_, all_.any_of(std::move(fractions))}));
    return all_.any_of(std::move(ways));
  }

  // Magnitudes that are multiples of m times a power of ten: all digits after the last one that counts are zeros.
  Language multiples(const Decimal& of) {
    const std::string digits = of.whole + of.fraction;
    std::string significant = digits;
    significant.erase(0, std::min(significant.find_first_not_of('0'), significant.size() - 1));
    const size_t kept = significant.find_last_not_of('0') + 1, zeros = significant.size() - kept;
    significant.erase(kept);
    if (significant.size() > 5 || std::stoul(significant) > 10'000)
      throw Error("multiples of {}: expected up to 10000 times a power of ten", of.text());
    const auto m = uint32_t(std::stoul(significant));
    const auto places = uint32_t(of.fraction.size());  // digits of the fraction that count
    // a numeral is read as a whole number of units of 10^-places; what its fraction lacks is made up for at the end
    const uint32_t unit = m * uint32_t(places ? 1 : pow10(zeros));
    if (unit > 10'000) throw Error("multiples of {}: expected up to 10000 times a power of ten", of.text());
    Languages::Automaton a;
    // state: (digits of the fraction so far, or none before the point; remainder), then zeros after the last place
    auto state = [&](uint32_t part, uint32_t remainder) { return part * unit + remainder; };
    const uint32_t parts = places + 2;  // before the point, behind it with 0 to `places` digits
    a.next.assign(size_t(parts) * unit + 1, {});
    a.ends.assign(a.next.size(), false);
    for (auto& row : a.next) row.fill(Languages::Automaton::none);
    auto scaled = [&](uint64_t remainder, uint32_t by) {
      for (; by > 0; --by) remainder = remainder * 10 % unit;
      return remainder;
    };
    for (uint32_t part = 0; part < parts; ++part)
      for (uint32_t r = 0; r < unit; ++r) {
        const uint32_t have = part == 0 ? 0 : part - 1;  // digits of the fraction
        auto& row = a.next[state(part, r)];
        a.ends[state(part, r)] = scaled(r, places - have) == 0;
        for (uint32_t d = 0; d < 10; ++d) {
          if (part > 0 && have == places) {
            if (d == 0) row['0'] = state(part, r);
          } else {
            row['0' + d] = state(part == 0 ? 0 : part + 1, uint32_t((uint64_t(r) * 10 + d) % unit));
          }
        }
        if (part == 0) row['.'] = state(1, r);
      }
    const Language right = all_.accepted(std::move(a));
    return all_.all_of({right, all_.sequence(whole_part(), fraction_)});
  }

 private:
  Language range(char first, char last) {
    Bytes set;
    for (int c = first; c <= last; ++c) set.set(uint8_t(c));
    return all_.bytes(set);
  }
  static uint64_t pow10(size_t n) {
    uint64_t p = 1;
    for (size_t i = 0; i < std::min<size_t>(n, 6); ++i) p *= 10;
    return p;
  }

  Languages& all_;
  Language digit_, digits_, some_digits_, point_, zeros_, fraction_, no_fraction_;
};

}  // namespace

Language numbers(Languages& all, const NumberLimits& limits) {
  NumberWriter write(all);
  const bool bounded = limits.least || limits.most || limits.multiple_of;
  const Language plain = all.sequence(write.whole_part(), limits.whole ? write.no_fraction() : write.fraction());
  if (!bounded) {
    if (limits.whole || limits.plain) return write.signed_numbers(plain);
    return write.signed_numbers(all.sequence(plain, write.optional(write.exponent())));
  }
  const Decimal zero("0");
  // magnitudes of the numbers without a sign, and of those with one: -0 is 0
  std::vector<Language> positive{plain}, negative{plain};
  if (limits.multiple_of) {
    if (limits.multiple_of->negative || limits.multiple_of->is_zero())
      throw Error("multiples of {}: expected a number above zero", limits.multiple_of->text());
    const Language multiples = write.multiples(*limits.multiple_of);
    positive.push_back(multiples);
    negative.push_back(multiples);
  }
  if (limits.least) {
    const Decimal& d = *limits.least;
    if (!d.negative) {
      positive.push_back(write.at_least(d, limits.above_least));
      // only -0 could be as large
      negative.push_back(d.is_zero() && !limits.above_least ? write.at_most(zero, false) : Languages::nothing);
    } else {
      negative.push_back(write.at_most(d, limits.above_least));
    }
  }
  if (limits.most) {
    const Decimal& d = *limits.most;
    if (d.negative) {
      positive.push_back(Languages::nothing);
      negative.push_back(write.at_least(d, limits.below_most));
    } else {
      positive.push_back(write.at_most(d, limits.below_most));
      if (d.is_zero() && limits.below_most) negative.push_back(write.at_least(zero, true));
    }
  }
  return all.any_of({all.all_of(std::move(positive)), all.sequence(all.text("-"), all.all_of(std::move(negative)))});
}

}  // namespace heddle::grammar
