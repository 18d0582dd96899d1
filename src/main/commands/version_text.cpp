// Compiled alone, and again at every commit.
#include "main/commands/version_text.h"

#include <fmt/ranges.h>
#include <gnu/libc-version.h>

#include "base/commit.h"
#include "base/error.h"
#include "base/version.h"
#include "cpu/cpu.h"
#include "cuda/device.h"
#include "cuda/driver.h"
#include "cuda/error.h"

namespace heddle {
namespace {

std::string commit_text() {
  const std::string_view text = commit;
  if (text.empty()) return "unknown: built from sources without git";
  const bool changed = text.ends_with('+');
  return fmt::format("{} of {}{}", text.substr(0, text.size() - changed), commit_date, changed ? ", with changes" : "");
}

std::string compiler_text() {
#if defined(__clang__)
  return "clang++ " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

std::string machine_text() {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "another machine";
#endif
}

std::string driver_text() {
  try {
    const cuda::Driver& driver = cuda::driver();
    return fmt::format("CUDA {} ({})", driver.version_text(), driver.library.path);
  } catch (const Error& error) {
    return error.what();
  }
}

std::string gpu_text() {
  try {
    std::string text;
    for (const cuda::DeviceInfo& info : cuda::devices())
      text += fmt::format("{}cuda:{} {} ({}.{})", text.empty() ? "" : ", ", info.ordinal, info.name, info.sm / 10,
                          info.sm % 10);
    return text;
  } catch (const cuda::NoDriver&) {  // its own line says why
    return "none";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::string version_text(bool verbose) {
  std::string text = fmt::format("heddle {}", version);
  if (!verbose) return text;
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("\n  {:18}{}", what, value);
  };
  line("commit", commit_text());
  line("compiler", fmt::format("{}, {}, for {}", compiler_text(), HEDDLE_BUILD_TYPE, machine_text()));
  line("C library", fmt::format("glibc {}, built with {}.{}", gnu_get_libc_version(), __GLIBC__, __GLIBC_MINOR__));
  line("instruction sets", fmt::format("{}; this machine has {}", fmt::join(cpu::built_isa_names(), ", "),
                                       fmt::join(cpu::isa_names(), ", ")));
  line("driver", driver_text());
  line("GPUs", gpu_text());
  return text;
}

std::string version_date() { return commit_date; }

}  // namespace heddle
