// weft, the small model that is part of the program: what runs when no model is named.
#pragma once
#include <cstdint>
#include <span>

namespace heddle {

std::span<const uint8_t> own_model();  // a GGUF file

}  // namespace heddle
