#include "server/http/origins.h"

#include <algorithm>

namespace heddle::server {

bool can_be_rebound(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme)) continue;
    std::string_view host = origin.substr(scheme.size());
    if (host.starts_with('[')) return false;
    host = host.substr(0, host.find(':'));
    if (host.find('.') == std::string_view::npos || host.ends_with(".localhost")) return false;
    return !std::all_of(host.begin(), host.end(), [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
  }
  return false;
}

bool is_origin(std::string_view text) {
  const size_t scheme = text.find("://");
  if (scheme == 0 || scheme == std::string_view::npos) return false;
  const std::string_view host = text.substr(scheme + 3);
  return !host.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; }) &&
         host.find_first_of("/?#@") == std::string_view::npos;
}

}  // namespace heddle::server
