#include "tiers/part_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace heddle::tiers {
namespace {

using engine::KvKey;

// At the beginning of a header: what it is, and the version of all that follows.
constexpr std::string_view magic = "heddleKV";
constexpr uint32_t version = 1;
constexpr size_t version_at = 8, part_at = 12, text_at = 16, size_at = 48, checksum_at = 56;
static_assert(checksum_at + sizeof(Checksum) == part_header_bytes);

template <class T>
void put(PartHeader& to, size_t at, const T& value) {
  std::memcpy(to.data() + at, &value, sizeof value);
}
template <class T>
T get(std::span<const uint8_t> from, size_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

constexpr uint32_t part_kinds = uint32_t(model::KvPart::state) + 1;
constexpr std::string_view digits = "0123456789abcdef";

}  // namespace

Checksum checksum_of(const KvKey& key, std::span<const uint8_t> bytes) {
  XXH64_hash_t seed = 0;
  std::memcpy(&seed, key.text.bytes.data(), sizeof seed);
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed + uint64_t(key.part));
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Checksum checksum;
  static_assert(sizeof canonical.digest == sizeof checksum);
  std::memcpy(checksum.data(), canonical.digest, sizeof checksum);
  return checksum;
}

PartHeader part_header(const KvKey& key, std::span<const uint8_t> bytes) {
  PartHeader header;
  std::copy(magic.begin(), magic.end(), header.begin());
  put(header, version_at, version);
  put(header, part_at, uint32_t(key.part));
  put(header, text_at, key.text.bytes);
  put(header, size_at, uint64_t(bytes.size()));
  put(header, checksum_at, checksum_of(key, bytes));
  return header;
}

uint64_t declared_bytes(const PartHeader& header) { return get<uint64_t>(header, size_at) + part_header_bytes; }

PartFile read_part_header(std::span<const uint8_t> header, uint64_t file_bytes) {
  if (header.size() < part_header_bytes || file_bytes < part_header_bytes)
    throw Error("expected a header of {} bytes, the file has {}", part_header_bytes, file_bytes);
  if (!std::equal(magic.begin(), magic.end(), header.begin())) throw Error("not a part of a KV cache");
  if (const auto found = get<uint32_t>(header, version_at); found != version)
    throw Error("expected version {} of the format, found {}", version, found);
  const auto part = get<uint32_t>(header, part_at);
  if (part >= part_kinds) throw Error("expected a part below {}, found {}", part_kinds, part);
  PartFile file{.key = {model::KvPart(part), {get<decltype(engine::TextHash::bytes)>(header, text_at)}},
                .bytes = get<uint64_t>(header, size_at),
                .checksum = get<Checksum>(header, checksum_at)};
  if (file.bytes != file_bytes - part_header_bytes)
    throw Error("expected {} bytes behind the header, found {}", file.bytes, file_bytes - part_header_bytes);
  return file;
}

void expect_part(const PartFile& file, const KvKey& key, std::span<const uint8_t> bytes) {
  if (file.key != key) throw Error("expected part {}, found {}", part_name(key), part_name(file.key));
  if (file.bytes != bytes.size()) throw Error("expected {} bytes, found {}", bytes.size(), file.bytes);
  if (checksum_of(key, bytes) != file.checksum) throw Error("damaged: its checksum is another");
}

std::string part_name(const KvKey& key) {
  std::string name;
  for (const uint8_t byte : key.text.bytes) {
    name += digits[byte >> 4];
    name += digits[byte & 15];
  }
  return name + '.' + digits[size_t(key.part)];
}

bool read_part_name(std::string_view name, KvKey& key) {
  const size_t count = 2 * key.text.bytes.size();
  if (name.size() != count + 2 || name[count] != '.') return false;
  const size_t part = digits.find(name[count + 1]);
  if (part >= part_kinds) return false;
  for (size_t i = 0; i < key.text.bytes.size(); ++i) {
    const size_t high = digits.find(name[2 * i]), low = digits.find(name[2 * i + 1]);
    if (high == digits.npos || low == digits.npos) return false;
    key.text.bytes[i] = uint8_t(high << 4 | low);
  }
  key.part = model::KvPart(part);
  return true;
}

}  // namespace heddle::tiers
