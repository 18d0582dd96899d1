// A store in the memory of the host and, behind it, on a disk.
#pragma once
#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/workers.h"
#include "engine/kv_store.h"
#include "tiers/part_folder.h"
#include "tiers/part_memory.h"

namespace heddle::tiers {

// What was used least recently goes first. All that comes to memory is also written to the disk, unless that cannot
// keep up. Called from any thread.
class TieredStore : public engine::KvStore {
 public:
  // `memory`: bytes, with those on their way to the disk and from it. `disk`: null: there is none. `on_failure` is
  // called on a thread of the store with what went wrong on a disk or a network; it may be empty. `on_free` is called
  // on any thread, before memory is freed that was allocated; it may be empty, and is called after the store's end for
  // what others still hold.
  explicit TieredStore(uint64_t memory, std::unique_ptr<PartDisk> disk = nullptr,
                       std::function<void(const std::string&)> on_failure = {},
                       std::function<void(const uint8_t*)> on_free = {});
  ~TieredStore() override;  // waits until all is written

  Where where(const engine::KvKey& key) const override;
  engine::KvBytes find(const engine::KvKey& key) override;
  engine::KvBytes allocate(uint64_t bytes) override;
  void keep(const engine::KvKey& key, engine::KvBytes bytes) override;
  bool lasts() const override { return disk_ != nullptr; }
  bool can_save() const override;
  void save(const engine::KvKey& key, engine::KvBytes bytes) override;
  std::unique_ptr<engine::KvFetch> fetch(std::vector<engine::KvKey> keys) override;
  std::unique_ptr<engine::KvFetch> fetch(std::vector<engine::KvKey> keys, const engine::TextHash& root,
                                         std::shared_ptr<engine::KvSource> source) override;
  engine::KvStoreMetrics metrics() const override;

  void drain();  // waits until all is written

 private:
  struct Entry {
    engine::KvBytes bytes;
    std::list<engine::KvKey>::iterator use;
  };
  struct Fetched;
  class Fetch;
  engine::KvBytes find_locked(const engine::KvKey& key);
  bool has_free_memory() const;
  void insert_locked(const engine::KvKey& key, const engine::KvBytes& bytes);
  void write_later(const engine::KvKey& key, const engine::KvBytes& bytes);
  bool load_next(Fetched& fetched);
  void receive(Fetched& fetched, const engine::TextHash& root, engine::KvSource& source);
  void failed(const std::string& what);

  const uint64_t capacity_;
  const std::shared_ptr<PartMemory> part_memory_;  // in use: what is allocated
  const std::unique_ptr<PartDisk> disk_;
  const std::function<void(const std::string&)> on_failure_;
  const std::function<void(const uint8_t*)> on_free_;
  std::atomic<uint64_t> loaded_ = 0, received_ = 0, failures_ = 0, dropped_ = 0;
  std::atomic<uint64_t> unwritten_ = 0;  // bytes that wait for the disk

  mutable std::mutex mutex_;  // guards these
  std::unordered_map<engine::KvKey, Entry, engine::HashOfKvKey> entries_;
  std::list<engine::KvKey> by_use_;  // the one used least recently first
  uint64_t bytes_ = 0;               // of entries

  static constexpr uint32_t readers = 4;                 // of one fetch: a thread copies less than a fast disk gives
  Workers writer_{1}, readers_{readers}, receivers_{4};  // last: they use all above
};

}  // namespace heddle::tiers
