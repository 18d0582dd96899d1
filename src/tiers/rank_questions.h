// What rank 0 asks the other ranks about their disks, and what they answer, as bytes.
#pragma once
#include <string>
#include <vector>

#include "engine/kv_store.h"
#include "ranks/bytes.h"

namespace heddle::tiers {

struct DiskQuestion {
  enum class Kind : uint8_t {
    which,  // of these parts are there?
    save,   // writes the buffer of this number as the part
    load,   // reads the part into a new buffer of this number
  };
  Kind kind;
  uint64_t buffer = 0;                    // but for `which`
  std::vector<engine::KvKey> parts = {};  // one, but for `which`
};
ranks::Bytes encode(const DiskQuestion& question);
// Throws an Error for bytes that encode() does not give.
DiskQuestion decode_disk_question(std::span<const uint8_t> bytes);

// To `save` and `load`.
struct DiskAnswer {
  enum class Kind : uint8_t { done, absent, failed } kind = Kind::done;
  std::string why = {};  // it failed
};
ranks::Bytes encode(const DiskAnswer& answer);
DiskAnswer decode_disk_answer(std::span<const uint8_t> bytes);

// To `which`: a bit for each part, the first one in the lowest bit of the first byte.
ranks::Bytes encode(const std::vector<bool>& there);
std::vector<bool> decode_there(std::span<const uint8_t> bytes, size_t count);

}  // namespace heddle::tiers
