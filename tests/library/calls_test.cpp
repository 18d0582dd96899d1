// Exceptions as statuses and messages.
#include "library/calls.h"

#include <gtest/gtest.h>

#include "engine/engine.h"

namespace heddle::test {
namespace {

using library::guarded;

TEST(LibraryCalls, ExceptionsBecomeStatuses) {
  heddle_error error{};
  EXPECT_EQ(guarded(&error, HEDDLE_FAILED, [] {}), HEDDLE_OK);
  EXPECT_STREQ(error.message, "") << "nothing is written without a failure";
  EXPECT_EQ(guarded(&error, HEDDLE_FAILED, [] { throw Error("expected {}, found {}", 1, 2); }), HEDDLE_FAILED);
  EXPECT_STREQ(error.message, "expected 1, found 2");
  EXPECT_EQ(guarded(&error, HEDDLE_INVALID, [] { throw Error("x"); }), HEDDLE_INVALID);
  EXPECT_EQ(guarded(&error, HEDDLE_FAILED, [] { throw library::NotFound("x"); }), HEDDLE_NOT_FOUND);
  EXPECT_EQ(guarded(&error, HEDDLE_FAILED, [] { throw engine::InvalidRequest("f", "x"); }), HEDDLE_INVALID);
  EXPECT_EQ(guarded(&error, HEDDLE_INVALID, [] { throw engine::Stopped("x"); }), HEDDLE_FAILED);
  EXPECT_EQ(guarded(&error, HEDDLE_INVALID, [] { throw std::bad_alloc(); }), HEDDLE_FAILED);
  EXPECT_STREQ(error.message, "out of memory");
  EXPECT_EQ(guarded(&error, HEDDLE_INVALID, [] { check(false, "never"); }), HEDDLE_BUG);
  EXPECT_EQ(guarded(&error, HEDDLE_INVALID, [] { throw 3; }), HEDDLE_BUG);
  EXPECT_EQ(guarded(nullptr, HEDDLE_INVALID, [] { throw Error("x"); }), HEDDLE_INVALID);
}

TEST(LibraryCalls, ALongMessageEndsBetweenCharacters) {
  for (size_t extra = 0; extra < 3; ++extra) {
    std::string text(extra, 'x');
    while (text.size() < 3000) text += "\xe2\x82\xac";
    heddle_error error;
    std::memset(error.message, 'y', sizeof error.message);
    EXPECT_EQ(guarded(&error, HEDDLE_FAILED, [&] { throw Error("{}", text); }), HEDDLE_FAILED);
    const std::string found = error.message;
    EXPECT_LT(found.size(), sizeof error.message);
    EXPECT_GT(found.size(), sizeof error.message - 6);
    ASSERT_TRUE(found.ends_with("..."));
    EXPECT_EQ((found.size() - 3 - extra) % 3, 0u);
    EXPECT_EQ(found.substr(0, found.size() - 3), text.substr(0, found.size() - 3));
  }
  const std::string fits(2047, 'a');
  heddle_error error;
  guarded(&error, HEDDLE_FAILED, [&] { throw Error("{}", fits); });
  EXPECT_EQ(error.message, fits);
}

}  // namespace
}  // namespace heddle::test
