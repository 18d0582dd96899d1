#include "cuda/driver.h"

#include <stdlib.h>

#include "cuda/error.h"

namespace heddle::cuda {

namespace {

std::string version_name(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

SharedLibrary open(const std::string& path) {
  SharedLibrary library =
      open_first(path.empty() ? std::vector<std::string>{"libcuda.so.1", "libcuda.so"} : std::vector{path});
  if (!library.handle) throw NoDriver(fmt::format("no NVIDIA driver library (tried {})", library.tried));
  return library;
}

// Asked before all functions are found, because the message about a missing one says how old the driver is.
int version_of(const SharedLibrary& library) {
  int version = 0;
  const auto ask = reinterpret_cast<int (*)(int*)>(dlsym(library.handle, "cuDriverGetVersion"));
  return ask && ask(&version) == code::success ? version : 0;
}

}  // namespace

Driver::Driver(const std::string& path) : library(open(path)), version(version_of(library)) {}

void* Driver::find(const char* symbol, int since, bool optional) const {
  void* address = dlsym(library.handle, symbol);
  if (!address && !optional)
    throw NoDriver(fmt::format(
        "the driver library {} has no {}: heddle needs a driver for CUDA {} or newer, this one is {}", library.path,
        symbol, version_name(since), version ? "for CUDA " + version_text() : "of unknown version"));
  return address;
}

std::string Driver::version_text() const { return version_name(version); }

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

const Driver& driver() { return opened_once<Driver>("HEDDLE_LIBCUDA"); }

const Driver& initialised_driver() {
  const Driver& api = driver();
  const int result = api.init(0);  // once it has succeeded, calling it again costs nothing
  if (result == code::success) return api;
  const char* visible = getenv("CUDA_VISIBLE_DEVICES");
  throw NoDevice(fmt::format("no GPU: {}: {}{}", api.init.name, api.reason(result),
                             visible ? fmt::format("; CUDA_VISIBLE_DEVICES is \"{}\"", visible) : ""));
}

}  // namespace heddle::cuda
