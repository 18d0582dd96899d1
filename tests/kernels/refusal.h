// What a kernel says to arguments that do not suit it.
#pragma once
#include <string>

#include "base/error.h"

namespace heddle::kernels {

// The message of the refusal, or "" if there is none.
template <class Spec>
std::string refusal(const Spec& spec, const typename Spec::Args& args) {
  try {
    spec.grid(args);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace heddle::kernels
