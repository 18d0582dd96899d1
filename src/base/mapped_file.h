// A file read through a mapping: nothing is copied, and its size is what was there when it was opened.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace heddle {

class MappedFile {
 public:
  // Throws an Error that names the file and the reason. A folder, a pipe or a device is refused; an empty file is not.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  std::filesystem::path path_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace heddle
