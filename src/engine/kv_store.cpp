#include "engine/kv_store.h"

#include <openssl/sha.h>

namespace heddle::engine {
namespace {

TextHash sha256(std::span<const uint8_t> data) {
  TextHash hash;
  static_assert(sizeof hash.bytes == SHA256_DIGEST_LENGTH);
  SHA256(data.data(), data.size(), hash.bytes.data());
  return hash;
}

}  // namespace

TextHash TextHash::of(std::string_view what) {
  return sha256({reinterpret_cast<const uint8_t*>(what.data()), what.size()});
}

TextHash TextHash::with(std::span<const uint32_t> block) const {
  std::vector<uint8_t> data(bytes.size() + block.size_bytes());
  std::memcpy(data.data(), bytes.data(), bytes.size());
  std::memcpy(data.data() + bytes.size(), block.data(), block.size_bytes());
  return sha256(data);
}

}  // namespace heddle::engine
