// Numbers of JSON between bounds, and multiples of a number.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "grammar/language.h"

namespace heddle::grammar {

// A decimal number as it is written: exact, of any size.
class Decimal {
 public:
  // As JSON writes numbers. An Error for others, and for exponents beyond 400.
  explicit Decimal(std::string_view text);

  bool negative = false;    // never of zero
  std::string whole = "0";  // digits without leading zeros
  std::string fraction;     // digits without trailing zeros
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  bool is_whole() const { return fraction.empty(); }
  std::string text() const;
  // Below zero, zero or above zero as this number is less than the other, the same or greater.
  int compare(const Decimal& other) const;
};

struct NumberLimits {
  std::optional<Decimal> least, most;
  bool above_least = false, below_most = false;  // not the bound itself
  std::optional<Decimal> multiple_of;            // above zero
  bool whole = false;                            // without a fraction, or one of zeros
  bool plain = false;                            // without an exponent
};
// Without limits in every form that JSON has; with bounds or multiple_of without exponents. An Error if multiple_of is
// not a whole number up to 10000 times a power of ten.
Language numbers(Languages& all, const NumberLimits& limits);

}  // namespace heddle::grammar
