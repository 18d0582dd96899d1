// The seeds of the fuzz targets are what their names say: good ones are read, bad ones refused.
#include <gtest/gtest.h>

#include "base/error.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "tests/formats/built_files.h"
#include "tests/support/folder.h"

namespace heddle::formats {
namespace {

template <class Read>
void try_seeds(const char* name, Read read) {
  size_t good = 0, bad = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(HEDDLE_SOURCE_DIR) / "tests/fuzz/corpus" / name)) {
    const std::string bytes = heddle::test::contents(entry.path());
    const bool is_good = entry.path().filename().string().starts_with("good");
    ++(is_good ? good : bad);
    if (is_good)
      EXPECT_NO_THROW(read(test::bytes_of(bytes))) << entry.path();
    else
      EXPECT_THROW(read(test::bytes_of(bytes)), Error) << entry.path();
  }
  EXPECT_GE(good, 3u);
  EXPECT_GE(bad, 3u);
}

TEST(FuzzSeeds, OfGguf) {
  try_seeds("gguf", [](std::span<const uint8_t> bytes) { read_gguf(bytes, "seed"); });
}
TEST(FuzzSeeds, OfSafetensors) {
  std::vector<Unreadable> unreadable;
  try_seeds("safetensors", [&](std::span<const uint8_t> bytes) { read_safetensors(bytes, "seed", &unreadable); });
  EXPECT_EQ(unreadable.size(), 5u);
}

}  // namespace
}  // namespace heddle::formats
