// Whether this program was built with a sanitizer. Asked when it runs, because g++ and clang say it in different ways
// when they compile.
#pragma once

extern "C" {
void __asan_init() __attribute__((weak));
void __tsan_init() __attribute__((weak));
}

namespace heddle::test {

inline const bool sanitized = __asan_init || __tsan_init;

}  // namespace heddle::test
