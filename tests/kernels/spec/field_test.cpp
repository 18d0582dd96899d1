// Specs of any kernel as one type: how they are found, and what they build.
#include "kernels/spec/field.h"

#include <gtest/gtest.h>

#include <map>

#include "kernels/layer/elementwise.h"
#include "kernels/layer/norm.h"

namespace heddle::kernels {
namespace {

TEST(AnySpec, IsFoundByTypeAndValue) {
  std::map<AnySpec, int, SpecOrder> numbers;
  numbers.emplace(AnySpec(RmsNorm{}), 1);
  numbers.emplace(AnySpec(RmsNorm{.threads = 64}), 2);
  numbers.emplace(AnySpec(SoftcapRows{}), 3);
  EXPECT_FALSE(numbers.emplace(AnySpec(RmsNorm{}), 4).second);
  EXPECT_EQ(numbers.find(SpecKey(RmsNorm{}))->second, 1);
  EXPECT_EQ(numbers.find(AnySpec(RmsNorm{.threads = 64}))->second, 2);
  EXPECT_EQ(numbers.find(SpecKey(SoftcapRows{}))->second, 3);
  EXPECT_EQ(numbers.find(SpecKey(RmsNorm{.threads = 128})), numbers.end());
}

TEST(AnySpec, BuildsTheKernelOfItsSpec) {
  AnySpec spec(RmsNorm{.threads = 64});
  const AnySpec copy = spec;
  spec = AnySpec(SoftcapRows{});  // a copy keeps its own
  EXPECT_EQ(spec.build().name, "softcap_rows");
  EXPECT_EQ(copy.build().name, "rms_norm");
  EXPECT_EQ(copy.build().threads(), 64u);
}

}  // namespace
}  // namespace heddle::kernels
