#include "server/service/random_id.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <array>

#include "base/error.h"

namespace heddle::server {

std::string random_id(std::string_view prefix) {
  std::array<unsigned char, 12> bytes;
  if (RAND_bytes(bytes.data(), int(bytes.size())) != 1) throw Error("the system has no random numbers");
  return fmt::format("{}{:02x}", prefix, fmt::join(bytes, ""));
}

}  // namespace heddle::server
