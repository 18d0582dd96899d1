// A folder of parts of KV caches, a file for each: bounded, and found again after a restart.
#pragma once
#include <filesystem>
#include <list>
#include <mutex>
#include <unordered_map>

#include "engine/kv_store.h"

namespace heddle::tiers {

// A file has another name until it is complete, so what a process leaves behind that is killed is not a part. All calls
// from any thread.
class PartFolder {
 public:
  // Makes the folder if there is none, and removes the files that were used least recently where it has more than
  // `capacity` bytes. An Error if the folder cannot be written to, or another process uses it.
  PartFolder(std::filesystem::path folder, uint64_t capacity);
  ~PartFolder();
  PartFolder(const PartFolder&) = delete;
  PartFolder& operator=(const PartFolder&) = delete;

  bool has(const engine::KvKey& key) const;
  uint64_t size_of(const engine::KvKey& key) const;  // its bytes; 0: it is not there
  // Throws an Error if it cannot be written. Files used least recently are removed to make room; one that is larger
  // than the folder may be is not written.
  void write(const engine::KvKey& key, std::span<const uint8_t> bytes);
  // Throws an Error, and the part is not there any more, unless these are its bytes as they were written.
  void read(const engine::KvKey& key, std::span<uint8_t> to);

  uint64_t count() const;
  uint64_t bytes() const;  // of files
  uint64_t capacity() const { return capacity_; }

 private:
  struct Entry {
    uint64_t bytes;  // of the file
    std::list<engine::KvKey>::iterator use;
  };
  std::filesystem::path path_of(const engine::KvKey& key) const;
  void lock_folder();
  void scan();
  void add(const engine::KvKey& key, uint64_t bytes);
  void forget(const engine::KvKey& key);
  void make_room(uint64_t bytes);

  const std::filesystem::path folder_;
  const uint64_t capacity_;
  int lock_ = -1;
  uint64_t written_ = 0;  // names of files that are not complete

  mutable std::mutex mutex_;  // guards all below
  std::unordered_map<engine::KvKey, Entry, engine::HashOfKvKey> entries_;
  std::list<engine::KvKey> by_use_;  // the one used least recently first
  uint64_t bytes_ = 0;
};

}  // namespace heddle::tiers
