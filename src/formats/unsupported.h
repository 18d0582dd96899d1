// Models that people try and heddle does not run: what each would need.
#pragma once
#include <string_view>

namespace heddle::formats {

// For a GGUF architecture or a class of transformers, such as "recurrent states (Mamba)"; empty: it is not known.
std::string_view missing_for(std::string_view architecture_or_class);

}  // namespace heddle::formats
