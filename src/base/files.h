// Files: read through a mapping, and written so that they appear whole or not at all.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

namespace heddle {

// Nothing is copied, and the size is that of the file when it was opened.
class MappedFile {
 public:
  // Throws an Error that names the file and the reason. A folder, a pipe or a device is refused; an empty file is not.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();

  // From now on a read of a page that the file does not have any more, because someone truncated it or its disk fails,
  // ends the process with status 1 and a line on standard error that names the file, instead of SIGBUS alone.
  static void explain_bus_errors();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  std::filesystem::path path_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  std::optional<size_t> slot_;  // in the table that the handler of SIGBUS looks at
};

// Written beside its place under another name; commit() moves it there.
class OutputFile {
 public:
  enum class Existing { replace, refuse };  // a file that has the name already

  // Throws an Error if the folder is not there or cannot be written to, or if there is a file to refuse.
  explicit OutputFile(std::filesystem::path path, Existing existing = Existing::replace);
  ~OutputFile();  // without a commit(), what was written is gone, and an older file of that name is untouched
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // From now on SIGINT, SIGTERM and SIGHUP remove unfinished files before they end the process.
  static void remove_on_signals();

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }      // written so far
  void write(std::span<const uint8_t> bytes);  // throws an Error that names file and reason, a full disk among them
  void write(std::string_view text);
  void pad_to(uint64_t multiple);  // zeros, until size() is a multiple
  // Flushes to disk, then renames. An Error if a file to refuse has appeared meanwhile.
  void commit();

 private:
  [[noreturn]] void refuse(std::string_view what);
  void close();

  std::filesystem::path path_, unfinished_;
  Existing existing_;
  std::optional<size_t> slot_;  // in the table that signals look at
  int file_ = -1;
  uint64_t size_ = 0;
};

}  // namespace heddle
