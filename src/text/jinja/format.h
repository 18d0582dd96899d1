// Formatting as in Python: "%s" % value, "{}".format(value), and dates by strftime.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "text/jinja/functions.h"

namespace heddle::text::jinja {

Value format_percent(Machine& machine, const Value& format, const Value& values);
Value format_braces(Machine& machine, const Value& format, Args& args);
// One value by a specification such as ">8.2f".
std::string format_value(Machine& machine, const Value& value, std::string_view spec);

// A date by strftime's directives, in UTC and English whatever the locale. `seconds`: since 1970.
std::string strftime_utc(std::string_view format, int64_t seconds);

}  // namespace heddle::text::jinja
