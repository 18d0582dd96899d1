#include "server/http/query.h"

#include <algorithm>

namespace heddle::server {

std::string unescaped(std::string_view text) {
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    c = char(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool escape = text[at] == '%' && at + 2 < text.size() && digit(text[at + 1]) >= 0 && digit(text[at + 2]) >= 0;
    out += escape ? char(digit(text[at + 1]) * 16 + digit(text[at + 2])) : text[at];
    if (escape) at += 2;
  }
  return out;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(one.size() + 1, query.size()));
    if (one.starts_with(name) && one.size() > name.size() && one[name.size()] == '=')
      return unescaped(one.substr(name.size() + 1));
  }
  return std::nullopt;
}

}  // namespace heddle::server
