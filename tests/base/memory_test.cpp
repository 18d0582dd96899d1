// What Linux says of memory, read.
#include "base/memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "tests/support/sanitized.h"

namespace heddle {
namespace {

TEST(Memory, ALineIsFoundByItsWholeKey) {
  const char* text = "MemTotal:  100 kB\nMemAvailable:     24 kB\nMemAvailableX: 9 kB\nEmpty:\nWord: x kB";
  EXPECT_EQ(kilobytes_at(text, "MemAvailable"), 24u * 1024);
  EXPECT_EQ(kilobytes_at(text, "MemTotal"), 100u * 1024);
  EXPECT_EQ(kilobytes_at(text, "Mem"), 0u);
  EXPECT_EQ(kilobytes_at(text, "Empty"), 0u);
  EXPECT_EQ(kilobytes_at(text, "Word"), 0u);
  EXPECT_EQ(kilobytes_at("", "Word"), 0u);
}

TEST(Memory, ThereIsSome) { EXPECT_GT(available_memory(), 1u << 20); }

TEST(Memory, ThePeakSeesWhatWasTouchedAndForgetsIt) {
  const uint64_t before = peak_memory();
  EXPECT_GT(before, 100'000u);
  constexpr uint64_t bytes = 64 << 20;
  {
    std::vector<char> touched(bytes, 1);
    EXPECT_EQ(touched[bytes / 2], 1);
  }
  EXPECT_GT(peak_memory(), bytes);
  if (test::sanitized) return;  // it keeps what was freed
  forget_peak_memory();
  EXPECT_LT(peak_memory(), before + bytes / 2);
}

TEST(Memory, BytesInWords) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1500), "1.5 KB");
  EXPECT_EQ(bytes_text(2.5e6), "2.5 MB");
  EXPECT_EQ(bytes_text(4.92e9), "4.92 GB");
}

TEST(Memory, SizesAreReadAsTheyAreWritten) {
  const auto bytes = [](const char* text) { return bytes_named(text, "--gpu-memory"); };
  EXPECT_EQ(bytes("8GB"), 8'000'000'000u);
  EXPECT_EQ(bytes("8 GB"), 8'000'000'000u);
  EXPECT_EQ(bytes("8GiB"), uint64_t(8) << 30);
  EXPECT_EQ(bytes("1.5MiB"), 3u << 19);
  EXPECT_EQ(bytes("500MB"), 500'000'000u);
  EXPECT_EQ(bytes("2KB"), 2000u);
  EXPECT_EQ(bytes("4096"), 4096u);
  for (const char* wrong : {"", "GB", "8G", "8gb", "-1GB", "0", "0GB", "1e3GB", "8GB ", "nan", "inf", "99999999TB"})
    try {
      bytes(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), std::string("--gpu-memory: expected a size such as 8GB, 1.5GiB or 500MB, "
                                                       "found \"") +
                                               wrong + "\"");
    }
}

}  // namespace
}  // namespace heddle
