// Arithmetic and conversions through the public interpreter: each instruction against its reference in integer
// arithmetic, first on the cross product of special operands, then on 10 000 random ones.
#include <gtest/gtest.h>

#include <cfenv>

#include "ptx/verify.h"
#include "tests/ptx/cases/run.h"

namespace heddle::ptx::cases {
namespace {

std::vector<Case> these() {
  std::vector<Case> v;
  add_arithmetic(v);
  add_conversions(v);
  return v;
}
// Names of tests are letters, digits and underscores.
std::string test_name(const testing::TestParamInfo<Case>& info) {
  std::string s = info.param.name;
  for (char& c : s)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return s;
}

class Arithmetic : public testing::TestWithParam<Case> {};

TEST_P(Arithmetic, GivesWhatItsReferenceGives) {
  const Case& c = GetParam();
  const uint32_t items = c.fewest_items | 1;  // the last block is not full
  const Kernel kernel = c.build();
  ASSERT_NO_THROW(verify(kernel));
  const std::vector<uint8_t> in = make_inputs(c, items, 1);
  const Difference d = compare(c, in, interpret_case(c, kernel, in, items), reference(c, in, items), items);
  EXPECT_EQ(d.mismatches, 0u) << "of " << items << "; " << d.first;
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

INSTANTIATE_TEST_SUITE_P(All, Arithmetic, testing::ValuesIn(these()), test_name);

}  // namespace
}  // namespace heddle::ptx::cases
