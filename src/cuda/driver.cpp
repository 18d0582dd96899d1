#include "cuda/driver.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <map>
#include <memory>
#include <mutex>

#include "cuda/error.h"

namespace heddle::cuda {

namespace {

std::string version_name(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

Driver::Library open(const std::string& path) {
  const std::vector<std::string> candidates =
      path.empty() ? std::vector<std::string>{"libcuda.so.1", "libcuda.so"} : std::vector{path};
  std::string tried;
  for (const std::string& candidate : candidates) {
    if (void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      int version = 0;
      // asked here, because the message about a missing function says how old the driver is
      auto ask = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
      if (!ask || ask(&version) != code::success) version = 0;
      return {candidate, library, version};
    }
    const char* why = dlerror();  // begins with the path
    tried += fmt::format("{}{}", tried.empty() ? "" : "; ", why ? why : candidate.c_str());
  }
  throw NoDriver(fmt::format("no NVIDIA driver library (tried {})", tried));
}

}  // namespace

Driver::Driver(const std::string& path) : library(open(path)) {}

void* Driver::find(const char* symbol, int since, bool optional) const {
  void* address = dlsym(library.handle, symbol);
  if (!address && !optional)
    throw NoDriver(fmt::format(
        "the driver library {} has no {}: heddle needs a driver for CUDA {} or newer, this one is {}", library.path,
        symbol, version_name(since), library.version ? "for CUDA " + version_text() : "of unknown version"));
  return address;
}

std::string Driver::version_text() const { return version_name(library.version); }

std::string Driver::code_name(int code) const {
  const char* text = nullptr;
  if (error_name(code, &text) != code::success || !text) return fmt::format("error {}", code);
  return text;
}
std::string Driver::reason(int code) const {
  const char* text = nullptr;
  if (error_string(code, &text) != code::success || !text) text = "unknown error";
  return fmt::format("{} ({})", text, code_name(code));
}

const Driver& driver() {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Driver>> loaded;  // by path; a path that failed is tried again
  const char* path = getenv("HEDDLE_LIBCUDA");
  std::lock_guard lock(mutex);
  std::unique_ptr<Driver>& found = loaded[path ? path : ""];
  if (!found) found = std::make_unique<Driver>(path ? path : "");
  return *found;
}

const Driver& initialised_driver() {
  const Driver& api = driver();
  const int result = api.init(0);  // once it has succeeded, calling it again costs nothing
  if (result == code::success) return api;
  const char* visible = getenv("CUDA_VISIBLE_DEVICES");
  throw NoDevice(fmt::format("no GPU: {}: {}{}", api.init.name, api.reason(result),
                             visible ? fmt::format("; CUDA_VISIBLE_DEVICES is \"{}\"", visible) : ""));
}

}  // namespace heddle::cuda
