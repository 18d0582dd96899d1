// A folder for the files of one test, removed afterwards.
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace heddle::test {

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();  // in blocks: byte by byte, a model takes a second under the sanitizers
  return std::move(all).str();
}

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "heddle-test-XXXXXX").string();
    if (mkdtemp(name.data())) path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(std::string_view name) const { return path_ / name; }
  std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }
  size_t files() const { return size_t(std::distance(std::filesystem::directory_iterator(path_), {})); }

 private:
  std::filesystem::path path_;
};

}  // namespace heddle::test
