// Files of parts of KV caches: what is accepted is what heddle writes, byte by byte.
#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "tests/fuzz/target.h"
#include "tiers/part_file.h"

namespace heddle {

FUZZ_TARGET(part_file) {
  const std::span<const uint8_t> all(data, size);
  engine::KvKey key;
  if (tiers::read_part_name({reinterpret_cast<const char*>(data), size}, key) &&
      !std::ranges::equal(tiers::part_name(key), all))
    std::abort();
  try {
    const tiers::PartFile file = tiers::read_part_header(all, size);
    const std::span<const uint8_t> bytes = all.subspan(tiers::part_header_bytes);
    const tiers::PartHeader written = tiers::part_header(file.key, bytes);
    // all but the checksum has been read, and says what it says
    if (!std::equal(written.begin(), written.end() - sizeof(tiers::Checksum), all.begin())) std::abort();
    tiers::expect_part(file, file.key, bytes);
    if (!std::equal(written.begin(), written.end(), all.begin())) std::abort();
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace heddle
