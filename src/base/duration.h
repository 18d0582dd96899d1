// How long something may take, as people write it.
#pragma once
#include <optional>
#include <string_view>

namespace heddle {

// Seconds: "90", "1.5s", "500ms", "10m", "1h30m", "-1". Nothing: it is none of these.
std::optional<double> read_duration(std::string_view text);

}  // namespace heddle
