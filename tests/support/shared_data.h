// Reference files of other programs, beside the checkout. Tests that need a file are skipped where it is missing.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

namespace heddle::test {

// $HEDDLE_SHARED_DATA/NAME, or ../shared/data/NAME beside the repository.
inline std::optional<std::filesystem::path> shared_data(std::string_view name) {
  namespace fs = std::filesystem;
  const char* set = std::getenv("HEDDLE_SHARED_DATA");
  const fs::path path = (set ? fs::path(set) : fs::path(HEDDLE_SOURCE_DIR) / "../shared/data") / name;
  if (!fs::exists(path)) return std::nullopt;
  return path;
}

}  // namespace heddle::test

// SHARED_DATA(path, "quant/x.gguf"): declares the path, or skips the test.
#define SHARED_DATA(variable, name)                                                      \
  const auto variable##_found = heddle::test::shared_data(name);                         \
  if (!variable##_found) GTEST_SKIP() << "needs " << (name) << " of the reference data"; \
  const std::filesystem::path& variable = *variable##_found
