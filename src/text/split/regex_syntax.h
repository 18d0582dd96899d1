// Oniguruma's syntax as PCRE2 understands it.
#pragma once
#include <string>
#include <string_view>

namespace heddle::text {

// Throws an Error with the pattern and the place for what cannot be said in PCRE2's syntax. What is wrong in both is
// left for PCRE2 to find.
std::string to_pcre2(std::string_view pattern);

// Whether PCRE2 knows this script ("Han"): its \p{Han} also has characters that other scripts share, \p{sc:Han} does
// not.
bool is_script(std::string_view name);

}  // namespace heddle::text
