// The fixture of tests that run on the fake driver. Each must end with everything released, and nothing twice.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cuda/compile.h"
#include "cuda/context.h"
#include "tests/cuda/fake_driver.h"

namespace heddle::cuda {

class Fake : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("CUDA_VISIBLE_DEVICES");
    use_driver(13000);
  }
  void TearDown() override {
    EXPECT_EQ(control().retained, 0) << "contexts not released";
    EXPECT_EQ(control().opened, 0) << "memory of other processes not closed";
    for (auto& [handle, what] : control().live) ADD_FAILURE() << what << " was not released";
    EXPECT_EQ(control().wrong_releases, 0) << "released what was not alive";
    reset_();
    unsetenv("HEDDLE_LIBCUDA");
  }

  // The fake driver of this CUDA version, as if freshly started.
  void use_driver(int version) {
    const std::string path = driver_path(version);
    setenv("HEDDLE_LIBCUDA", path.c_str(), 1);
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    control_ = reinterpret_cast<decltype(control_)>(dlsym(library, "fake_control"));
    reset_ = reinterpret_cast<decltype(reset_)>(dlsym(library, "fake_reset"));
    ASSERT_TRUE(control_ && reset_);
    reset_();
  }
  static std::string driver_path(int version) {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / fmt::format("fake_driver_{}.so", version);
  }
  fake::Control& control() { return *control_(); }

 private:
  fake::Control* (*control_)() = nullptr;
  void (*reset_)() = nullptr;
};

// A text that the fake driver takes: a kernel of this name with `args_bytes` bytes of arguments.
inline Source source(const std::string& name, size_t args_bytes = 0, const std::string& more = {}) {
  return {name, fmt::format(".entry {}(\nargs {}\n{}\n", name, args_bytes, more), "sm_90a"};
}
inline Module load(const Context& context, const Source& s) {
  return std::move(compile(context, std::span(&s, 1), nullptr, 1).at(0));
}

// The message of the exception of type E that `f` throws.
template <class E, class F>
std::string message(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another exception: " << e.what();
    return {};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}
inline void expect_says(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" in: " << text;
}

// A folder that is removed afterwards.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "heddle-cuda-XXXXXX").string();
    if (mkdtemp(name.data())) path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace heddle::cuda
