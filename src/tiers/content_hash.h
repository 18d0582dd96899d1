// A hash of gigabytes: of the weights of a model, so that what is kept of its texts is not taken for another's.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace heddle::tiers {

// In hexadecimal digits: the SHA-256 of the sizes and of the XXH3-128 of pieces, which all cores compute.
std::string content_hash(const std::vector<std::span<const uint8_t>>& contents);

}  // namespace heddle::tiers
