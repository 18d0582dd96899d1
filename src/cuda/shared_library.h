// A library that is looked for while the program runs, and a function in it.
#pragma once
#include <dlfcn.h>
#include <stdlib.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace heddle::cuda {

// A function of such a library with its name, so that every failure can name it.
template <class... Args>
struct Call {
  const char* name;
  int (*function)(Args...);  // null only if it is optional and missing

  // `since`: the version of the library that brought it. The library has find(symbol, since, optional).
  template <class Library>
  Call(const Library& library, const char* symbol, int since, bool optional = false)
      : name(symbol), function(reinterpret_cast<int (*)(Args...)>(library.find(symbol, since, optional))) {}
  int operator()(Args... args) const { return function(args...); }
  explicit operator bool() const { return function != nullptr; }
};

struct SharedLibrary {
  std::string path;
  void* handle = nullptr;  // never closed: neither the driver nor NCCL survives it
  std::string tried;       // where there is no handle: what was looked for, and why it was not found
};

// The first of these that there is.
inline SharedLibrary open_first(const std::vector<std::string>& candidates) {
  SharedLibrary library;
  for (const std::string& candidate : candidates) {
    library.handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    library.path = candidate;
    if (library.handle) return library;
    const char* why = dlerror();  // begins with the path
    library.tried += (library.tried.empty() ? "" : "; ") + std::string(why ? why : candidate.c_str());
  }
  return library;
}

// The library of this kind at the path that an environment variable has, or else at its usual places. Opened once for
// each path; a path that failed is tried again.
template <class Library>
const Library& opened_once(const char* variable) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Library>> opened;
  const char* path = getenv(variable);
  const std::lock_guard lock(mutex);
  std::unique_ptr<Library>& found = opened[path ? path : ""];
  if (!found) found = std::make_unique<Library>(path ? path : "");
  return *found;
}

}  // namespace heddle::cuda
