// The models of the reference data that transformers saved, one of each architecture that it has there.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/shared_data.h"

namespace heddle::test {

// "llama3-ropescaled" -> "llama3_ropescaled"
inline std::string as_test_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class HfArch : public testing::TestWithParam<const char*> {
 public:
  static std::string folder() { return std::string("hf-arch/") + GetParam(); }
};

}  // namespace heddle::test

#define HEDDLE_FOR_ALL_OF_HF_ARCH()                                                                                   \
  INSTANTIATE_TEST_SUITE_P(All, HfArch,                                                                               \
                           testing::Values("gemma2", "gemma3", "gpt2", "llama3-ropescaled", "mistral-swa", "mixtral", \
                                           "phi3", "qwen2", "qwen3"),                                                 \
                           [](const auto& one) { return heddle::test::as_test_name(one.param); })
