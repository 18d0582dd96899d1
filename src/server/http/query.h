// Percent-escapes, and values in the query of a path.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace heddle::server {

// "a%2Fb" -> "a/b". What is no escape stays as it is.
std::string unescaped(std::string_view text);

// "a/b" in "x=1&name=a%2Fb"; nothing: absent.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace heddle::server
