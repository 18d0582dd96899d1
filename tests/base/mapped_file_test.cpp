// Files as they lie on the disk, and what cannot be mapped.
#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/folder.h"
#include "tests/support/refused.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

TEST(MappedFile, ShowsTheBytes) {
  const test::Folder folder;
  for (const size_t size : {1u, 4095u, 4096u, 4097u, 100'000u}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = char(i * 7);
    const MappedFile file(folder.write("f", bytes));
    EXPECT_EQ(file.path(), folder.path() / "f");
    EXPECT_EQ(file.text(), bytes);
    EXPECT_EQ(file.bytes().size(), size);
    EXPECT_EQ(file.bytes()[size - 1], uint8_t(bytes[size - 1]));
  }
}

TEST(MappedFile, AnEmptyFileIsEmpty) {
  const test::Folder folder;
  const MappedFile file(folder.write("f", ""));
  EXPECT_TRUE(file.bytes().empty());
  EXPECT_EQ(file.text(), "");
}

TEST(MappedFile, OutlivesTheNameOfItsFile) {
  const test::Folder folder;
  const MappedFile file(folder.write("f", "abc"));
  fs::remove(folder.path() / "f");
  EXPECT_EQ(file.text(), "abc");
}

TEST(MappedFile, SaysWhyItCannotBeRead) {
  const test::Folder folder;
  const fs::path none = folder.path() / "none";
  EXPECT_REFUSED(MappedFile(none), none.string() + ": cannot be read: No such file or directory");
  EXPECT_REFUSED(MappedFile(folder.path()), folder.path().string() + ": expected a file, found a folder");
  EXPECT_REFUSED(MappedFile("/dev/null"), "/dev/null: expected a file, found a device or pipe");
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_REFUSED(MappedFile(pipe), "expected a file, found a device or pipe");  // and does not wait for a writer
  EXPECT_REFUSED(MappedFile(""), "cannot be read");
  EXPECT_REFUSED(MappedFile(folder.write("f", "x") / "g"), "Not a directory");
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  fs::permissions(folder.path() / "f", fs::perms::none);
  EXPECT_REFUSED(MappedFile(folder.path() / "f"), "Permission denied");
}

}  // namespace
}  // namespace heddle
