// Any bytes as a compressed body, in the encoding that the first byte names: expanded within the limit, or refused.
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/api/api_error.h"
#include "server/http/inflate.h"
#include "tests/fuzz/target.h"

FUZZ_TARGET(inflate) {
  constexpr std::string_view encodings[] = {"gzip", "deflate", "identity", "br"};
  constexpr size_t limit = 10'000;
  if (size == 0) return 0;
  const std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string_view encoding = encodings[data[0] % 4];
  try {
    const std::string found = heddle::server::decode_body(body, encoding, limit);
    if (encoding != "identity" && found.size() > limit) std::abort();
    if (encoding == "identity" && found != body) std::abort();
  } catch (const heddle::server::ApiError& error) {
    if (error.status != 400 && error.status != 413 && error.status != 415) std::abort();
  }
  return 0;
}
