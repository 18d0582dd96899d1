// The program `heddle` that was built together with the running tests.
#pragma once
#include <filesystem>
#include <string>

namespace heddle::test {

inline std::string program_path() { return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "heddle"; }

}  // namespace heddle::test
