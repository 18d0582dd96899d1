// GPT-2's spelling of bytes as visible characters: a space is U+0120, so that vocabularies can be text files.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace heddle::text {

// "\u0120the" -> " the"; nothing if a character stands for no byte.
std::optional<std::string> byte_level_bytes(std::string_view spelling);
std::string byte_level_spelling(std::string_view bytes);

}  // namespace heddle::text
