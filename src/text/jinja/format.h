// Python's two ways to format: "%s" % value, and "{}".format(value).
#pragma once
#include <string>
#include <string_view>

#include "text/jinja/functions.h"

namespace heddle::text::jinja {

Value format_percent(Machine& machine, const Value& format, const Value& values);
Value format_braces(Machine& machine, const Value& format, Args& args);
// One value by a specification such as ">8.2f".
std::string format_value(Machine& machine, const Value& value, std::string_view spec);

}  // namespace heddle::text::jinja
