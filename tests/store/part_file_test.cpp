// What of a file is there, and what a damaged record of it costs.
#include "store/part_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/folder.h"
#include "tests/support/refused.h"

namespace heddle::store {
namespace {

using Ranges = std::vector<ByteRange>;

TEST(ByteRanges, JoinWhatTouches) {
  ByteRanges ranges;
  EXPECT_EQ(ranges.missing(10), (Ranges{{0, 10}}));
  EXPECT_EQ(ranges.missing(0), Ranges{});
  ranges.add({2, 4});
  ranges.add({6, 8});
  ranges.add({5, 5});
  EXPECT_EQ(ranges.missing(10), (Ranges{{0, 2}, {4, 6}, {8, 10}}));
  ranges.add({4, 6});
  EXPECT_EQ(ranges.all().size(), 1u);
  ranges.add({0, 10});
  EXPECT_EQ(ranges.missing(10), Ranges{});
  EXPECT_EQ(ranges.total(), 10u);
}

// Against a bit for each byte.
TEST(ByteRanges, AnyOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    ByteRanges ranges;
    std::vector<bool> bits(50);
    for (int i = 0; i < 12; ++i) {
      const uint64_t begin = random() % 50, end = begin + random() % (51 - begin);
      ranges.add({begin, end});
      for (uint64_t at = begin; at < end; ++at) bits[at] = true;
      std::vector<bool> found(50, true);
      for (const ByteRange& gap : ranges.missing(50))
        for (uint64_t at = gap.begin; at < gap.end; ++at) found[at] = false;
      ASSERT_EQ(found, bits);
      ASSERT_EQ(ranges.total(), uint64_t(std::ranges::count(bits, true)));
    }
  }
}

TEST(PartState, EndsAtTheFirstLineThatIsWrong) {
  const auto total = [](const std::string& text) { return read_part_state(text, "sha256:ab", 100).total(); };
  EXPECT_EQ(total("sha256:ab 100\n0 10\n20 30\n"), 20u);
  EXPECT_EQ(total("sha256:ab 100\n0 10\n20 3"), 10u);  // cut off
  EXPECT_EQ(total("sha256:ab 100\n0 10\n20 101\n30 40\n"), 10u);
  EXPECT_EQ(total("sha256:ab 100\n0 10\n9 9\n30 40\n"), 10u);
  EXPECT_EQ(total("sha256:ab 100\n-1 10\n"), 0u);
  EXPECT_EQ(total("sha256:ab 100\n0 10 \n"), 0u);
  EXPECT_EQ(total("sha256:ab 99\n0 10\n"), 0u);  // another file
  EXPECT_EQ(total("sha256:ac 100\n0 10\n"), 0u);
  EXPECT_EQ(total(""), 0u);
}

TEST(PartFile, GoesOnWhereItWas) {
  const test::Folder folder;
  const auto path = folder.file("m.gguf");
  const auto write = [](PartFile& part, uint64_t at, std::string_view text) {
    part.write(at, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    part.record({at, at + text.size()});
  };
  {
    PartFile part(path, 8, "id");
    write(part, 4, "efgh");
    EXPECT_EQ(part.missing(), (Ranges{{0, 4}}));
  }
  EXPECT_EQ(PartFile::present(path, 8, "id"), 4u);
  EXPECT_EQ(PartFile::present(path, 8, "other"), 0u);
  {
    PartFile part(path, 8, "id");
    EXPECT_EQ(part.missing(), (Ranges{{0, 4}}));
    write(part, 0, "abcd");
    EXPECT_EQ(part.missing(), Ranges{});
    part.flush();
  }
  EXPECT_EQ(test::contents(PartFile::path_of(path)), "abcdefgh");
  {
    PartFile part(path, 9, "id");  // of another size: nothing of it is taken over
    EXPECT_EQ(part.missing(), (Ranges{{0, 9}}));
  }
  PartFile::remove(path);
  EXPECT_EQ(folder.files(), 0u);
}

TEST(PartFile, IsNotWrittenThroughALink) {
  const test::Folder folder;
  folder.write("precious", "1234");
  std::filesystem::create_symlink("precious", folder.file("m.gguf.part"));
  EXPECT_REFUSED(PartFile(folder.file("m.gguf"), 8, "id"), "m.gguf.part: cannot be written");
  EXPECT_EQ(test::contents(folder.file("precious")), "1234");
  EXPECT_REFUSED(PartFile(folder.file("no/m.gguf"), 8, "id"), "no/m.gguf.part: cannot be written: No such file");
}

}  // namespace
}  // namespace heddle::store
