// Files are read through a mapping, and appear whole or not at all, whatever ends the writing.
#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/folder.h"
#include "tests/support/refused.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using test::contents;

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

// Run in a process of its own, which ends.
TEST(MappedFileDeathTest, NamesTheFileThatWasTruncated) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const test::Folder folder;
  const fs::path path = folder.write("cut", std::string(100'000, 'x'));
  const auto read_beyond_the_end = [&] {
    MappedFile::explain_bus_errors();
    const MappedFile other(folder.write("other", "abc")), file(path);
    fs::resize_file(path, 10);
    const volatile uint8_t* bytes = file.bytes().data();
    ::_exit(bytes[50'000] == 'x' ? 0 : 2);
  };
  EXPECT_EXIT(read_beyond_the_end(), testing::ExitedWithCode(1),
              "heddle: .*/cut: cannot be read any more: it was truncated");
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

TEST(OutputFile, AppearsWhenItIsCommitted) {
  const test::Folder folder;
  const fs::path path = folder.path() / "f";
  OutputFile file(path);
  EXPECT_EQ(file.path(), path);
  file.write("abc");
  file.write(std::string_view());
  const std::vector<uint8_t> more = {0, 255};
  file.write(more);
  EXPECT_EQ(file.size(), 5u);
  file.pad_to(5);
  EXPECT_EQ(file.size(), 5u);
  file.pad_to(8);
  EXPECT_EQ(file.size(), 8u);
  EXPECT_FALSE(fs::exists(path));
  file.commit();
  EXPECT_EQ(contents(path), std::string("abc\0\xff\0\0\0", 8));
  EXPECT_EQ(folder.files(), 1u);
  EXPECT_THROW(file.write("x"), std::logic_error);
  EXPECT_THROW(file.commit(), std::logic_error);
}

TEST(OutputFile, MayBeEmptyOrLarge) {
  const test::Folder folder;
  OutputFile empty(folder.path() / "empty");
  empty.commit();
  EXPECT_EQ(fs::file_size(folder.path() / "empty"), 0u);
  OutputFile large(folder.path() / "large");
  large.write("x");
  large.pad_to(1 << 20);
  large.commit();
  EXPECT_EQ(contents(folder.path() / "large"), "x" + std::string((1 << 20) - 1, '\0'));
}

TEST(OutputFile, WithoutCommitTheOldFileStays) {
  const test::Folder folder;
  const fs::path path = folder.write("f", "old");
  {
    OutputFile file(path);
    file.write("new");
  }
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(folder.files(), 1u);
  OutputFile file(path);
  file.write("new");
  EXPECT_EQ(contents(path), "old");
  file.commit();
  EXPECT_EQ(contents(path), "new");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(OutputFile, TwoOfOneNameDoNotMix) {
  const test::Folder folder;
  const fs::path path = folder.path() / "f";
  OutputFile a(path), b(path);
  a.write("aaaa");
  b.write("b");
  a.commit();
  EXPECT_EQ(contents(path), "aaaa");
  b.commit();
  EXPECT_EQ(contents(path), "b");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(OutputFile, SaysWhyItCannotBeWritten) {
  const test::Folder folder;
  const fs::path nowhere = folder.path() / "no" / "f";
  EXPECT_REFUSED(OutputFile(nowhere), nowhere.string() + ": cannot be written: No such file or directory");
  EXPECT_REFUSED(OutputFile(folder.path()), folder.path().string() + ": expected a file to write, found a folder");
  EXPECT_REFUSED(OutputFile("/dev/null"), "/dev/null: expected a file to write, found a device or pipe");
  EXPECT_REFUSED(OutputFile(""), "expected the name of a file to write, found an empty one");
  EXPECT_REFUSED(OutputFile(folder.write("f", "x") / "g"), "cannot be written: Not a directory");
  EXPECT_EQ(folder.files(), 1u);
  OutputFile late(folder.path() / "late");
  fs::create_directory(folder.path() / "late");
  EXPECT_REFUSED(late.commit(), "late: cannot be put in place: Is a directory");
}

TEST(OutputFile, RefusesAFileThatIsThere) {
  const test::Folder folder;
  const fs::path path = folder.write("f", "old");
  EXPECT_REFUSED(OutputFile(path, OutputFile::Existing::refuse), path.string(), "expected a new file", "there already");
  fs::create_symlink("nowhere", folder.path() / "link");
  EXPECT_REFUSED(OutputFile(folder.path() / "link", OutputFile::Existing::refuse), "link: expected a new file");
  OutputFile late(folder.path() / "late", OutputFile::Existing::refuse);
  late.write("new");
  folder.write("late", "meanwhile");
  EXPECT_REFUSED(late.commit(), "late: cannot be put in place: File exists");
  EXPECT_EQ(contents(folder.path() / "late"), "meanwhile");
  OutputFile fresh(folder.path() / "fresh", OutputFile::Existing::refuse);
  fresh.write("new");
  fresh.commit();
  EXPECT_EQ(contents(folder.path() / "fresh"), "new");
}

// In a process of its own, which the signal ends.
TEST(OutputFile, ASignalLeavesNothingBehind) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const test::Folder folder;
    folder.write("old", "old");
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(signal, SIG_DFL);
      OutputFile::remove_on_signals();
      OutputFile done(folder.path() / "done"), a(folder.path() / "a"), b(folder.path() / "old");
      done.write("x");
      a.write("x");
      b.write("x");
      done.commit();
      ::raise(signal);
      _exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_EQ(folder.files(), 2u);
    EXPECT_EQ(contents(folder.path() / "done"), "x");
    EXPECT_EQ(contents(folder.path() / "old"), "old");
  }
}

// nohup ignores SIGHUP, and that stays.
TEST(OutputFile, AnIgnoredSignalStaysIgnored) {
  const test::Folder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGHUP, SIG_IGN);
    OutputFile::remove_on_signals();
    OutputFile file(folder.path() / "f");
    ::raise(SIGHUP);
    file.commit();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(folder.files(), 1u);
}

// In a process of its own: a file size limit stands for a full disk.
TEST(OutputFile, AFullDiskLeavesNothingBehind) {
  const test::Folder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{10'000, 10'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      OutputFile file(folder.path() / "f");
      const std::vector<uint8_t> bytes(4000);
      for (int i = 0; i < 3; ++i) file.write(bytes);
      _exit(1);
    } catch (const Error& error) {
      const std::string_view message = error.what();
      _exit(message.find("f: writing failed after 10000 bytes: File too large") == message.npos ? 2 : 0);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(folder.files(), 0u);
}

}  // namespace
}  // namespace heddle
