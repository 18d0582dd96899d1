#include "base/error.h"

#include <gtest/gtest.h>

#include <string>

namespace heddle {
namespace {

TEST(Error, SaysWhatWasExpectedAndFound) {
  const std::string name = "blk.3.attn_q.weight";
  const Error error("tensor {}: expected {} x {}, file has {} x {}", name, 4096, 4096, 4096, 2048);
  EXPECT_STREQ(error.what(), "tensor blk.3.attn_q.weight: expected 4096 x 4096, file has 4096 x 2048");
}

TEST(Check, IsSilentWhenTrue) { EXPECT_NO_THROW(check(true, "never seen")); }

TEST(Check, NamesThePlaceAsTheRepositoryDoes) {
  const int line = __LINE__ + 2;
  try {
    check(false, "two and two are four");
    FAIL() << "check(false) did not throw";
  } catch (const std::logic_error& error) {
    EXPECT_EQ(std::string(error.what()),
              "tests/base/error_test.cpp:" + std::to_string(line) + ": check failed: two and two are four");
  }
}

}  // namespace
}  // namespace heddle
