// The text part of a class that reads more than text: its config is an object within the class's.
#pragma once
#include "formats/hf/description.h"

namespace heddle::formats::hf {

// `describe` reads text_config.
Description text_part(Config& config, Description (*describe)(Config& text));

}  // namespace heddle::formats::hf
