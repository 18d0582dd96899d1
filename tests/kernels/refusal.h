// What a kernel says to a spec or to arguments that do not suit it, and whether it assembles without spills.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/ptxas.h"
#include "kernels/spec/field.h"
#include "ptx/print.h"
#include "ptx/verify.h"

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

// The same of a launch with these arguments.
template <class Spec>
std::string refusal(const Spec& spec, const typename Spec::Args& args) {
  return refused([&] { spec.grid(args); });
}

// Verified, and assembled without spills; only where there is ptxas.
template <class Spec>
Assembled expect_no_spills(const Spec& spec, const char* target) {
  const ptx::Target& t = ptx::target(target);
  const ptx::Kernel kernel = spec.build();
  ptx::verify(kernel, t);
  const Assembled result = assemble(ptx::print(kernel, t), target);
  EXPECT_TRUE(result.ok) << field_text(spec) << "\n" << result.log;
  EXPECT_EQ(result.spill_bytes, 0u) << field_text(spec) << " " << target;
  return result;
}

}  // namespace heddle::kernels
