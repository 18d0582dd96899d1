// Bodies that come compressed, as their Content-Encoding says.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace heddle::server {

// "identity" and an empty name leave the body as it is; "gzip" (or "x-gzip") and "deflate" expand it. Throws an
// ApiError: 415 for another encoding, 400 for bytes that are none of this encoding, 413 as soon as there are more than
// `max_bytes`.
std::string decode_body(std::string body, std::string_view encoding, size_t max_bytes);
bool is_identity(std::string_view encoding);

}  // namespace heddle::server
