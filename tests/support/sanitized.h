// Whether the program under test has a sanitizer. Asked when it runs: the tests of a build with sanitizers are those of
// the release build, compiled once.
#pragma once

extern "C" {
void __asan_init() __attribute__((weak));
void __tsan_init() __attribute__((weak));
}

namespace heddle::test {

inline const bool sanitized = __asan_init || __tsan_init;

}  // namespace heddle::test
