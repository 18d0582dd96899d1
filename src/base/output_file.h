// A file that appears whole or not at all: written beside its place under another name, moved there by commit().
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace heddle {

class OutputFile {
 public:
  // Throws an Error when the folder is not there or cannot be written to.
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();  // without a commit(), what was written is gone, and an older file of that name is untouched
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }      // written so far
  void write(std::span<const uint8_t> bytes);  // throws an Error that names file and reason, a full disk among them
  void write(std::string_view text);
  void pad_to(uint64_t multiple);  // zeros, until size() is a multiple
  void commit();                   // flushed to disk, then renamed

 private:
  [[noreturn]] void refuse(std::string_view what);

  std::filesystem::path path_, part_;
  int file_ = -1;
  uint64_t size_ = 0;
};

}  // namespace heddle
