// Errors and their messages.
#pragma once
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/error.h"

namespace heddle::test {

// The message of the Error that `f` throws.
template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return {};
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

// The text has these pieces, one after the other.
inline void expect_says(std::string_view text, std::initializer_list<std::string_view> pieces) {
  size_t at = 0;
  for (const std::string_view piece : pieces) {
    const size_t found = text.find(piece, at);
    if (found == text.npos) {
      ADD_FAILURE() << "expected \"" << piece << "\" (in this order) in: " << text;
      return;
    }
    at = found + piece.size();
  }
}

}  // namespace heddle::test

// EXPECT_REFUSED(read(bytes), "m.gguf", "version", "expected 2 or 3", "found 7");
#define EXPECT_REFUSED(expression, ...)                                                           \
  do {                                                                                            \
    SCOPED_TRACE("EXPECT_REFUSED");                                                               \
    heddle::test::expect_says(heddle::test::refusal([&] { (void)(expression); }), {__VA_ARGS__}); \
  } while (false)
