// Digests are compared instead of keys: they have one length, whatever a client sends.
#include "server/service/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

#include "base/error.h"

namespace heddle::server {
namespace {

// The key in "Bearer KEY"; the scheme may be in any case.
std::string_view bearer_key(std::string_view header) {
  constexpr std::string_view scheme = "bearer";
  const bool matches =
      header.size() > scheme.size() && header[scheme.size()] == ' ' &&
      std::equal(scheme.begin(), scheme.end(), header.begin(), [](char a, char b) { return a == (b | 0x20); });
  if (!matches) return {};
  header.remove_prefix(scheme.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (key.empty()) throw Error("API keys: expected a key, found an empty one");
    digests_.push_back(digest(key));
  }
}

ApiKeys::Digest ApiKeys::digest(std::string_view key) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

bool ApiKeys::allow(const std::string* authorization) const {
  if (digests_.empty()) return true;
  const Digest given = digest(authorization ? bearer_key(*authorization) : std::string_view{});
  unsigned found = 0;  // all keys are compared, even after the right one
  for (const Digest& digest : digests_) found |= CRYPTO_memcmp(given.data(), digest.data(), given.size()) == 0;
  return found != 0;
}

}  // namespace heddle::server
