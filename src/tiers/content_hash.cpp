#include "tiers/content_hash.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "base/parallel.h"
#include "engine/kv_store.h"

namespace heddle::tiers {

std::string content_hash(const std::vector<std::span<const uint8_t>>& contents) {
  constexpr size_t piece_bytes = 16 << 20;
  std::string text;
  std::vector<std::span<const uint8_t>> pieces;
  for (const std::span<const uint8_t> all : contents) {
    text += fmt::format("{}\n", all.size());
    for (size_t at = 0; at < all.size(); at += piece_bytes)
      pieces.push_back(all.subspan(at, std::min(piece_bytes, all.size() - at)));
  }
  std::vector<XXH128_hash_t> hashes(pieces.size());
  parallel_for(pieces.size(), 0, [&](size_t i) { hashes[i] = XXH3_128bits(pieces[i].data(), pieces[i].size()); });
  for (const XXH128_hash_t& hash : hashes) text += fmt::format("{:016x}{:016x}\n", hash.high64, hash.low64);
  std::string hex;
  for (const uint8_t byte : engine::TextHash::of(text).bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace heddle::tiers
