// The name that was probably meant.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// The one of `known` that is most like `name`: misspelt, in another case, cut short or too long. Empty if none is near.
std::string nearest(std::string_view name, const std::vector<std::string>& known);
// "; did you mean X?", or nothing.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

}  // namespace heddle
