// FUZZ_TARGET(name) { ... return 0; } is what is done with an input: `data`, `size`. In a build for libFuzzer it is all
// of a program; otherwise the driver runs the targets by name.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#ifdef HEDDLE_FUZZ
#define FUZZ_TARGET(name) extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
#else
namespace heddle::fuzz {

using Target = int (*)(const uint8_t* data, size_t size);

inline std::map<std::string, Target, std::less<> >& targets() {
  static std::map<std::string, Target, std::less<> > all;
  return all;
}

}  // namespace heddle::fuzz

#define FUZZ_TARGET(name)                                                                 \
  int try_##name(const uint8_t* data, size_t size);                                       \
  const bool name##_is_there = heddle::fuzz::targets().emplace(#name, try_##name).second; \
  int try_##name(const uint8_t* data, size_t size)
#endif
