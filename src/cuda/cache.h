// Cubins on disk, so that a kernel is assembled once per driver and not once per start.
//
// A cache is never a reason to fail: what cannot be read is assembled again, what cannot be written is not kept.
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

#include "cuda/hash.h"

namespace heddle::cuda {

// What a cubin depends on.
struct CacheKey {
  Hash128 hash;            // names the file
  uint64_t check = 0;      // a second, independent hash
  uint64_t key_bytes = 0;  // length of what was hashed
  // `gpu` is the one assembled for ("sm_89"), which may be newer than the target that the text names ("sm_80").
  static CacheKey of(const std::string& text, const std::string& target, const std::string& gpu,
                     const std::string& driver_version);
};

// Several threads and several processes may use one folder at the same time.
class Cache {
 public:
  static constexpr uint64_t default_cap = 256ull << 20;

  // In $HEDDLE_CACHE_DIR, else $XDG_CACHE_HOME/heddle, else ~/.cache/heddle; off if HEDDLE_CACHE_DIR is empty or "off".
  static Cache from_environment();
  explicit Cache(std::filesystem::path folder, uint64_t cap = default_cap);
  static Cache off(const std::string& reason);

  bool is_on() const { return !folder_.empty(); }
  const std::filesystem::path& folder() const { return folder_; }  // where the files are; empty if it is off
  std::string problem() const;  // why it is off, or why something could not be written; empty if all is well

  // The cubin, or nothing: if there is no file, or if it is not whole, not of this version, not for this key.
  std::optional<std::vector<std::byte>> get(const CacheKey& key);
  void put(const CacheKey& key, std::span<const std::byte> cubin);
  void remove(const CacheKey& key);
  // Removes the entries used longest ago until the rest fits the cap. `compile` calls it after it has written.
  void trim();

  struct Counts {
    uint64_t hits, misses, rejected, written, evicted;  // rejected: files that were there and no use; also misses
  };
  Counts counts() const;

 private:
  struct Off {};
  Cache(Off, const std::string& reason) : problem_(reason) {}
  std::filesystem::path path(const CacheKey& key) const;
  void note(const std::string& problem);

  std::filesystem::path folder_;
  uint64_t cap_ = default_cap;
  mutable std::mutex mutex_;
  std::string problem_;  // the first
  std::atomic<uint64_t> hits_ = 0, misses_ = 0, rejected_ = 0, written_ = 0, evicted_ = 0;
};

}  // namespace heddle::cuda
