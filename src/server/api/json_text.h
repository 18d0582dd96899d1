// Pieces of JSON written straight into a text, for answers that are made many times a second.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle::server {

// With quotation marks and escapes. Any bytes may be given: what is no UTF-8 becomes U+FFFD.
void append_json(std::string& out, std::string_view text);
// The shortest number that reads back as the same float; JSON has no word for what is not finite: null.
void append_json(std::string& out, float number);
void append_json(std::string& out, uint64_t number);
void append_json(std::string& out, int64_t number);

std::string base64(std::string_view bytes);

}  // namespace heddle::server
