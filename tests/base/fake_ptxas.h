// A ptxas of the test's own, first on PATH: says what the real one says only for kernels that are hard to come by.
#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace heddle {

class FakePtxas : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "heddle-fake-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    path_ = getenv("PATH");
  }
  void TearDown() override {
    setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  // The lines of a shell script; its output is what ptxas "prints".
  void install(const std::string& script) {
    const std::filesystem::path file = folder_ / "ptxas";
    std::ofstream(file) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
  }
  void hide_ptxas() { setenv("PATH", folder_.c_str(), 1); }

 private:
  std::filesystem::path folder_;
  std::string path_;
};

}  // namespace heddle
