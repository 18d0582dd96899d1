// Oniguruma's syntax as PCRE2 understands it.
#pragma once
#include <string>
#include <string_view>

namespace heddle::text {

// Throws an Error with the pattern and the position for what PCRE2's syntax cannot express. What is wrong in both is
// left for PCRE2 to find.
std::string to_pcre2(std::string_view pattern);

// Whether PCRE2 knows this script ("Han"): its \p{Han} includes characters shared with other scripts, \p{sc:Han} does
// not.
bool is_script(std::string_view name);

}  // namespace heddle::text
