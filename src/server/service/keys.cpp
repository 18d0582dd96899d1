// Digests are compared and not keys: they are of one length, whatever a client sends.
#include "server/service/keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

#include "base/error.h"

namespace heddle::server {
namespace {

// The key of "Bearer KEY"; the first word may be in any case.
std::string_view bearer(std::string_view header) {
  constexpr std::string_view word = "bearer";
  const bool is = header.size() > word.size() && header[word.size()] == ' ' &&
                  std::equal(word.begin(), word.end(), header.begin(), [](char a, char b) { return a == (b | 0x20); });
  if (!is) return {};
  header.remove_prefix(word.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

}  // namespace

Keys::Keys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (key.empty()) throw Error("API keys: expected a key, found an empty one");
    digests_.push_back(digest(key));
  }
}

Keys::Digest Keys::digest(std::string_view key) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

bool Keys::allow(const std::string* authorization) const {
  if (digests_.empty()) return true;
  const Digest given = digest(authorization ? bearer(*authorization) : std::string_view{});
  unsigned found = 0;  // every key is compared, also behind the right one
  for (const Digest& digest : digests_) found |= CRYPTO_memcmp(given.data(), digest.data(), given.size()) == 0;
  return found != 0;
}

}  // namespace heddle::server
