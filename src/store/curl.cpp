#include "store/curl.h"

#include <dlfcn.h>

#include "base/error.h"

namespace heddle::store {

Curl open_curl(const std::vector<std::string>& names) {
  std::string tried;
  for (const std::string& name : names) {
    void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* why = dlerror();  // begins with the name
      tried += fmt::format("{}{}", tried.empty() ? "" : "; ", why ? why : name.c_str());
      continue;
    }
    Curl curl{};
    const auto find = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
      if (!function) throw Error("{}: expected the function {}, found none: it is no libcurl", name, symbol);
    };
    find(curl.global_init, "curl_global_init");
    find(curl.easy_init, "curl_easy_init");
    find(curl.easy_cleanup, "curl_easy_cleanup");
    find(curl.easy_reset, "curl_easy_reset");
    find(curl.easy_setopt, "curl_easy_setopt");
    find(curl.easy_getinfo, "curl_easy_getinfo");
    find(curl.easy_perform, "curl_easy_perform");
    find(curl.easy_strerror, "curl_easy_strerror");
    find(curl.slist_append, "curl_slist_append");
    find(curl.slist_free_all, "curl_slist_free_all");
    if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw Error("{}: libcurl cannot be initialised", name);
    return curl;
  }
  throw Error("pulling a model needs libcurl: install libcurl4 (tried {})", tried);
}

const Curl& curl() {
  // the second is the one that git brings along on Debian
  static const Curl opened = open_curl({"libcurl.so.4", "libcurl-gnutls.so.4"});
  return opened;
}

}  // namespace heddle::store
