// Cubins on disk, so that a kernel is assembled once per driver and not once per start.
//
// The cache never makes anything fail: a cubin that cannot be read is assembled again, one that cannot be written is
// not kept.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace heddle::cuda {

// Two well-known hashes of bytes, neither against an adversary: MurmurHash3 (x64, 128 bits) and FNV-1a (64 bits).
struct Hash128 {
  uint64_t high = 0, low = 0;
  bool operator==(const Hash128&) const = default;
  std::string hex() const;  // 32 digits
};

Hash128 murmur3(std::span<const std::byte> data, uint32_t seed = 0);
uint64_t fnv1a(std::span<const std::byte> data);

// What a cubin depends on.
struct CubinKey {
  Hash128 hash;            // names the file
  uint64_t check = 0;      // a second, independent hash
  uint64_t key_bytes = 0;  // length of what was hashed
  // `gpu` is the one assembled for ("sm_89"), which may be newer than the target that the text names ("sm_80").
  static CubinKey of(const std::string& text, const std::string& target, const std::string& gpu,
                     const std::string& driver_version);
};

// Several threads and several processes may use one folder at the same time.
class CubinCache {
 public:
  static constexpr uint64_t default_cap = 256ull << 20;

  // In $HEDDLE_CACHE_DIR, else $XDG_CACHE_HOME/heddle, else ~/.cache/heddle; off if HEDDLE_CACHE_DIR is empty or "off".
  static CubinCache from_environment();
  explicit CubinCache(std::filesystem::path folder, uint64_t cap = default_cap);
  static CubinCache off(const std::string& reason);

  bool is_on() const { return !folder_.empty(); }
  const std::filesystem::path& folder() const { return folder_; }  // where the files are; empty if it is off
  std::string problem() const;  // why it is off, or why a file could not be written; empty if all is well

  // Nothing if there is no file, or if it is damaged, of another version or for another key.
  std::optional<std::vector<std::byte>> get(const CubinKey& key);
  void put(const CubinKey& key, std::span<const std::byte> cubin);
  void remove(const CubinKey& key);
  // Removes the least recently used entries until the rest fits the cap. `compile` calls it after it has written.
  void trim();

  struct Counts {
    uint64_t hits, misses, rejected, written, evicted;  // rejected: files that could not be used; they are misses too
  };
  Counts counts() const;

 private:
  struct Off {};
  CubinCache(Off, const std::string& reason) : problem_(reason) {}
  std::filesystem::path path(const CubinKey& key) const;
  void note(const std::string& problem);

  std::filesystem::path folder_;
  uint64_t cap_ = default_cap;
  mutable std::mutex mutex_;
  std::string problem_;  // the first
  std::atomic<uint64_t> hits_ = 0, misses_ = 0, rejected_ = 0, written_ = 0, evicted_ = 0;
};

}  // namespace heddle::cuda
