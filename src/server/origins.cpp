#include "server/origins.h"

#include <algorithm>

namespace heddle::server {

bool may_be_taken_over(std::string_view origin) {
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

}  // namespace heddle::server
