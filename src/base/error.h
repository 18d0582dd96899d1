// The two ways to fail: Error for bad input (a file, a request, a machine), check() for a bug in heddle.
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string_view>
#include <utility>

namespace heddle {

// throw Error("tensor {}: expected {} rows, file has {}", name, expected, found);
struct Error : std::runtime_error {
  template <class... Args>
  explicit Error(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

[[noreturn]] void check_failed(std::string_view message, const char* file, int line);

// For a condition that only a bug can break. Throws std::logic_error with the place of the call.
// The place comes from compiler builtins because clang 14 has no std::source_location.
inline void check(bool condition, std::string_view message, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (!condition) [[unlikely]]
    check_failed(message, file, line);
}

}  // namespace heddle
