// A part of a KV cache in a file: a header with its key, its size and a checksum of all, and its bytes.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "engine/kv_store.h"

namespace heddle::tiers {

using Checksum = std::array<uint8_t, 16>;
// XXH3-128 of the key and of the bytes: damage is found, and so is a part under the name of another.
Checksum checksum_of(const engine::KvKey& key, std::span<const uint8_t> bytes);

constexpr size_t part_header_bytes = 72;
using PartHeader = std::array<uint8_t, part_header_bytes>;
PartHeader part_header(const engine::KvKey& key, std::span<const uint8_t> bytes);

struct PartFile {
  engine::KvKey key;
  uint64_t bytes = 0;  // behind the header
  Checksum checksum;
};
uint64_t declared_bytes(const PartHeader& header);  // of all: the header and what it says is behind it
// Throws an Error unless it is the header of a file of this length.
PartFile read_part_header(std::span<const uint8_t> header, uint64_t file_bytes);
// The part, whole and as it was written; otherwise an Error says what was found.
void expect_part(const PartFile& file, const engine::KvKey& key, std::span<const uint8_t> bytes);

// A name for the key, and the key of such a name; false: it is another name.
std::string part_name(const engine::KvKey& key);
bool read_part_name(std::string_view name, engine::KvKey& key);

}  // namespace heddle::tiers
