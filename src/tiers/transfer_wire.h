// What two processes say to each other when one fetches what the other has computed of a prompt.
//
// The one that fetches sends a frame with its request and gets one with the answer: nothing, or why it is refused.
// Parts follow, each as a file has them (part_file.h), behind a byte of 1; a byte of 0 ends them. A frame is its
// length, its bytes and their checksum. Numbers are little-endian.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/kv_store.h"
#include "tiers/part_file.h"

namespace heddle::tiers {

constexpr size_t max_frame = 64 << 20;  // a text of a million blocks has 33 MB of keys
constexpr size_t frame_length_bytes = 4;

struct TransferRequest {
  std::string offer;
  engine::TextHash root;  // what bytes depend on besides the text
  std::vector<engine::KvKey> keys;
};
std::vector<uint8_t> encode_request(const TransferRequest& request);
std::vector<uint8_t> encode_answer(const std::string& refusal);  // empty: parts follow

// Of a frame: the bytes behind its length, with the checksum. Throws an Error for what is too short or too long.
size_t frame_bytes(std::span<const uint8_t> length);
// From those bytes. Throw an Error for any that encode_... does not write.
TransferRequest decode_request(std::span<const uint8_t> frame);
std::string decode_answer(std::span<const uint8_t> frame);

}  // namespace heddle::tiers
