// Every kernel over its sweep of shapes, interpreted and compared by value with the f64 reference.
#include <gtest/gtest.h>

#include "proof/case.h"

namespace heddle::proof {

static void PrintTo(const Case& c, std::ostream* out) { *out << c.kernel << ": " << c.shape; }

namespace {

const std::vector<Case>& cases() {
#ifdef HEDDLE_SANITIZED
  static const std::vector<Case> all = all_cases(Sweep::quick);
#else
  static const std::vector<Case> all = all_cases(Sweep::normal);
#endif
  return all;
}

class Cases : public testing::TestWithParam<Case> {};
TEST_P(Cases, AreWhatTheReferenceSays) {
  auto machine = interpreter();
  const Check check = run_case(GetParam(), *machine, 1);
  EXPECT_EQ(check.failure(), "");
}
INSTANTIATE_TEST_SUITE_P(All, Cases, testing::ValuesIn(cases()), [](const auto& one) {
  std::string name = one.param.kernel + "_" + one.param.shape;
  for (char& c : name)
    if (!std::isalnum(uint8_t(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace heddle::proof
