// What filters and methods of texts share.
#pragma once
#include <string>
#include <string_view>

#include "text/jinja/machine.h"

namespace heddle::text::jinja {

// As str.replace(): at most `limit` times, without bound when it is negative.
std::string replace_text(Machine& machine, std::string_view text, std::string_view from, std::string_view to,
                         int64_t limit);

}  // namespace heddle::text::jinja
