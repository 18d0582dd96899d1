// Dates by strftime's directives, in UTC and English, whatever the machine's own locale is.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle::text::jinja {

std::string strftime_utc(std::string_view format, int64_t seconds);  // since 1970

}  // namespace heddle::text::jinja
