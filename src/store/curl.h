// libcurl, opened when the first model is pulled: the program starts and runs models where it is not installed, and the
// program that carries its libraries with it need not carry this one and its twenty others.
#pragma once
#include <curl/curl.h>

#include <string>
#include <vector>

// Functions are called through pointers here: the header's checks of arguments are macros of the same names.
#undef curl_easy_setopt
#undef curl_easy_getinfo

namespace heddle::store {

struct Curl {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
};

// The first of the names that can be opened. An Error says what to install.
Curl open_curl(const std::vector<std::string>& names);
const Curl& curl();  // that of this process

}  // namespace heddle::store
