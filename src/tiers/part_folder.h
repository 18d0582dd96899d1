// A folder of parts of KV caches, a file for each: bounded, and found again after a restart.
#pragma once
#include <filesystem>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/kv_store.h"

namespace heddle::tiers {

// What a store has on a disk: a folder, or a folder for each of several ranks. All calls from any thread.
class PartDisk {
 public:
  virtual ~PartDisk() = default;
  virtual bool has(const engine::KvKey& key) const = 0;
  virtual uint64_t size_of(const engine::KvKey& key) const = 0;  // its bytes; 0: it is not there
  // Throws an Error if it cannot be written. What was used least recently is removed to make room; a part that is
  // larger than all may be is not written.
  virtual void write(const engine::KvKey& key, std::span<const uint8_t> bytes) = 0;
  // Throws an Error, and the part is not there any more, unless these are its bytes as they were written. False: it is
  // not there.
  virtual bool read(const engine::KvKey& key, std::span<uint8_t> to) = 0;

  virtual uint64_t count() const = 0;
  virtual uint64_t bytes() const = 0;  // of files
  virtual uint64_t capacity() const = 0;
};

// A file has another name until it is complete, so what a process leaves behind that is killed is not a part.
class PartFolder : public PartDisk {
 public:
  // Makes the folder if there is none, and removes the files that were used least recently where it has more than
  // `capacity` bytes. An Error if the folder cannot be written to, or another process still uses it after `patience`
  // seconds.
  PartFolder(std::filesystem::path folder, uint64_t capacity, double patience = 0);
  ~PartFolder() override;
  PartFolder(const PartFolder&) = delete;
  PartFolder& operator=(const PartFolder&) = delete;

  bool has(const engine::KvKey& key) const override;
  uint64_t size_of(const engine::KvKey& key) const override;
  void write(const engine::KvKey& key, std::span<const uint8_t> bytes) override;
  bool read(const engine::KvKey& key, std::span<uint8_t> to) override;
  void forget(const engine::KvKey& key);    // it is removed
  std::vector<engine::KvKey> keys() const;  // of all parts

  uint64_t count() const override;
  uint64_t bytes() const override;
  uint64_t capacity() const override { return capacity_; }

 private:
  struct Entry {
    uint64_t bytes;  // of the file
    std::list<engine::KvKey>::iterator use;
  };
  std::filesystem::path path_of(const engine::KvKey& key) const;
  void lock_folder(double patience);
  void scan();
  void add(const engine::KvKey& key, uint64_t bytes);
  void make_room(uint64_t bytes);

  const std::filesystem::path folder_;
  const uint64_t capacity_;
  int lock_ = -1;

  mutable std::mutex mutex_;  // guards all below
  std::unordered_map<engine::KvKey, Entry, engine::HashOfKvKey> entries_;
  std::list<engine::KvKey> by_use_;  // the one used least recently first
  uint64_t bytes_ = 0;
};

}  // namespace heddle::tiers
