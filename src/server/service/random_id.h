// Names for requests and answers that nobody can foretell, and that are not made twice.
#pragma once
#include <string>
#include <string_view>

namespace heddle::server {

std::string random_id(std::string_view prefix);  // and 24 letters of hex

}  // namespace heddle::server
