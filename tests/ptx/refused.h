// What verify says about a kernel, for its tests.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "ptx/builder.h"
#include "ptx/verify.h"

namespace heddle::ptx {

struct NoArgs {};
struct Pointers {
  DevicePtr<float> x, y;
  uint32_t rows, cols;
};

inline std::string reason(const Kernel& k, const Target* t = nullptr) {
  try {
    t ? verify(k, *t) : verify(k);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// Refused, and the message names the kernel and has all of `words`.
inline ::testing::AssertionResult refused(const Kernel& k, std::initializer_list<std::string> words,
                                          const Target* t = nullptr) {
  const std::string why = reason(k, t);
  if (why.empty()) return ::testing::AssertionFailure() << k.name << " was accepted";
  if (why.find("kernel " + k.name + ": ") != 0)
    return ::testing::AssertionFailure() << "does not name the kernel: " << why;
  for (const std::string& w : words)
    if (why.find(w) == std::string::npos) return ::testing::AssertionFailure() << "no \"" << w << "\" in: " << why;
  return ::testing::AssertionSuccess();
}
inline ::testing::AssertionResult accepted(const Kernel& k, const Target* t = nullptr) {
  const std::string why = reason(k, t);
  if (why.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << why;
}

// "tests/ptx/verify_test.cpp:12: ", as messages name a line of the calling file.
inline std::string at(uint32_t line, const char* file = __builtin_FILE()) { return fmt::format("{}:{}: ", file, line); }

// The first instruction of an Op, wherever it stands.
inline Inst* find(Block& b, Op op) {
  for (Inst& i : b) {
    if (i.op == op) return &i;
    for (Block* inner : {&i.head, &i.body, &i.otherwise})
      if (Inst* found = find(*inner, op)) return found;
  }
  return nullptr;
}
inline Inst& find(Kernel& k, Op op) {
  Inst* found = find(k.body, op);
  check(found, "the kernel has such an instruction");
  return *found;
}

}  // namespace heddle::ptx
