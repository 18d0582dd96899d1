// How a kernel refuses a wrong spec or wrong arguments, and whether it assembles without spills.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/spec/field.h"
#include "ptx/expand.h"
#include "ptx/print.h"
#include "ptx/verify.h"
#include "tests/ptx/assemble_all.h"

namespace heddle::kernels {

// The message of the Error that f() throws, or "" if it throws none.
std::string refused(auto&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The message with which a launch with these arguments is refused, or "" if it is not.
template <class Spec>
std::string refusal(const Spec& spec, const typename Spec::Args& args) {
  return refused([&] { spec.grid(args); });
}

// Verifies every spec's kernel and expects that it assembles without spills; needs ptxas. Returns the answers in order.
template <class Spec>
std::vector<Assembled> expect_no_spills(const std::vector<Spec>& specs, const char* target) {
  const ptx::Target& t = ptx::target(target);
  std::vector<std::string> texts;
  for (const Spec& spec : specs) {
    const ptx::Kernel kernel = ptx::expanded(spec.build(), t);
    ptx::verify(kernel, t);
    texts.push_back(ptx::print(kernel, t, {.lines = false}));
  }
  const std::vector<Assembled> results = ptx::assemble_all(texts, target);
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_TRUE(results[i].ok) << field_text(specs[i]) << "\n" << results[i].log;
    EXPECT_EQ(results[i].spill_bytes, 0u) << field_text(specs[i]) << " " << target;
  }
  return results;
}

}  // namespace heddle::kernels
