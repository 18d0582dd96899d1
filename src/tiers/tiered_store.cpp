// Memory is counted when it is allocated and when the last one lets go of it: what waits for the disk, and what a fetch
// holds, counts as well.
#include "tiers/tiered_store.h"

#include <algorithm>

#include "base/error.h"

namespace heddle::tiers {

using engine::KvBytes;
using engine::KvKey;

// What a fetch has brought, shared with the thread that brings it.
struct TieredStore::Fetched {
  std::vector<KvKey> keys;
  std::atomic<bool> abandoned = false;
  std::atomic<uint32_t> working = 1;  // threads that bring it
  std::mutex mutex;
  size_t next = 0;            // of the keys
  std::vector<KvBytes> held;  // so that it stays in memory

  void hold(KvBytes bytes) {
    const std::lock_guard lock(mutex);
    held.push_back(std::move(bytes));
  }
};

class TieredStore::Fetch : public engine::KvFetch {
 public:
  explicit Fetch(std::shared_ptr<Fetched> fetched) : fetched_(std::move(fetched)) {}
  ~Fetch() override { fetched_->abandoned = true; }
  bool done() const override { return fetched_->working == 0; }

 private:
  std::shared_ptr<Fetched> fetched_;
};

TieredStore::TieredStore(uint64_t memory, std::unique_ptr<PartDisk> disk,
                         std::function<void(const std::string&)> on_failure,
                         std::function<void(const uint8_t*)> on_free)
    : capacity_(memory),
      part_memory_(std::make_shared<PartMemory>(memory)),
      disk_(std::move(disk)),
      on_failure_(std::move(on_failure)),
      on_free_(std::move(on_free)) {}

TieredStore::~TieredStore() = default;

engine::KvStore::Where TieredStore::where(const KvKey& key) const {
  {
    const std::lock_guard lock(mutex_);
    if (entries_.contains(key)) return Where::memory;
  }
  return disk_ && disk_->has(key) ? Where::elsewhere : Where::nowhere;
}

KvBytes TieredStore::find_locked(const KvKey& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  by_use_.splice(by_use_.end(), by_use_, found->second.use);
  return found->second.bytes;
}

KvBytes TieredStore::find(const KvKey& key) {
  const std::lock_guard lock(mutex_);
  return find_locked(key);
}

// What others hold would not be freed, so it is not dropped for room.
KvBytes TieredStore::allocate(uint64_t bytes) {
  if (bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  for (auto next = by_use_.begin(); next != by_use_.end() && !part_memory_->has_room(bytes);) {
    const auto entry = entries_.find(*next);
    if (entry->second.bytes.data.use_count() > 1) {
      ++next;
      continue;
    }
    bytes_ -= entry->second.bytes.size;
    entries_.erase(entry);
    next = by_use_.erase(next);
  }
  uint8_t* data = part_memory_->take(bytes);
  if (!data) {  // also where the machine has less than it was told to use
    ++dropped_;
    return {};
  }
  const auto free = [memory = part_memory_, bytes, on_free = on_free_](uint8_t* no_longer_used) {
    if (on_free) on_free(no_longer_used);
    memory->give_back(no_longer_used, bytes);
  };
  return {std::shared_ptr<uint8_t[]>(data, free), bytes};
}

void TieredStore::insert_locked(const KvKey& key, const KvBytes& bytes) {
  if (entries_.contains(key)) return;
  entries_.emplace(key, Entry{bytes, by_use_.insert(by_use_.end(), key)});
  bytes_ += bytes.size;
}

void TieredStore::keep(const KvKey& key, KvBytes bytes) {
  {
    const std::lock_guard lock(mutex_);
    insert_locked(key, bytes);
  }
  if (disk_ && can_save()) write_later(key, bytes);
}

// For a disk, the other half of the memory is for what is to be found there.
bool TieredStore::can_save() const { return disk_ ? unwritten_ <= capacity_ / 2 : has_free_memory(); }

// What is saved in memory too need not be read when it is evicted, but for that nothing is dropped.
bool TieredStore::has_free_memory() const { return part_memory_->has_room(capacity_ / 8); }

void TieredStore::save(const KvKey& key, KvBytes bytes) {
  if (has_free_memory()) {
    const std::lock_guard lock(mutex_);
    insert_locked(key, bytes);
  }
  if (disk_) write_later(key, bytes);
}

void TieredStore::write_later(const KvKey& key, const KvBytes& bytes) {
  if (disk_->has(key)) return;
  unwritten_ += bytes.size;
  writer_.add([this, key, bytes = bytes]() mutable {
    try {
      disk_->write(key, bytes.span());
    } catch (const std::exception& error) {
      failed(error.what());
    }
    unwritten_ -= bytes.size;
    bytes = {};
  });
}

std::unique_ptr<engine::KvFetch> TieredStore::fetch(std::vector<KvKey> keys) {
  auto fetched = std::make_shared<Fetched>();
  fetched->keys = std::move(keys);
  fetched->working = readers;
  for (uint32_t reader = 0; reader < readers; ++reader)
    readers_.add([this, fetched] {
      while (!fetched->abandoned && load_next(*fetched)) {
      }
      --fetched->working;
    });
  return std::make_unique<Fetch>(fetched);
}

std::unique_ptr<engine::KvFetch> TieredStore::fetch(std::vector<KvKey> keys, const engine::TextHash& root,
                                                    std::shared_ptr<engine::KvSource> source) {
  auto fetched = std::make_shared<Fetched>();
  fetched->keys = std::move(keys);
  receivers_.add([this, fetched, root, source = std::move(source)] {
    receive(*fetched, root, *source);
    --fetched->working;
  });
  return std::make_unique<Fetch>(fetched);
}

// False: there is none. The first keys get the memory that there is.
bool TieredStore::load_next(Fetched& fetched) {
  KvKey key;
  KvBytes bytes;
  {
    const std::lock_guard lock(fetched.mutex);
    if (fetched.next == fetched.keys.size()) return false;
    key = fetched.keys[fetched.next++];
    if (KvBytes there = find(key)) {
      fetched.held.push_back(std::move(there));
      return true;
    }
    bytes = allocate(disk_ ? disk_->size_of(key) : 0);
  }
  try {
    if (!bytes || !disk_->read(key, bytes.span())) return true;
  } catch (const std::exception& error) {
    failed(error.what());
    return true;
  }
  ++loaded_;
  {
    const std::lock_guard lock(mutex_);
    insert_locked(key, bytes);
    bytes = find_locked(key);
  }
  fetched.hold(std::move(bytes));
  return true;
}

void TieredStore::receive(Fetched& fetched, const engine::TextHash& root, engine::KvSource& source) {
  std::unordered_map<KvKey, KvBytes, engine::HashOfKvKey> coming;
  const auto room = [&](const KvKey& key, uint64_t bytes) -> std::span<uint8_t> {
    if (fetched.abandoned) throw Error("its request has ended");
    return (coming[key] = allocate(bytes)).span();
  };
  const auto arrived = [&](const KvKey& key) {
    ++received_;
    const KvBytes bytes = std::exchange(coming[key], {});
    keep(key, bytes);
    fetched.hold(find(key));
  };
  try {
    source.fetch(root, fetched.keys, room, arrived);
  } catch (const std::exception& error) {
    if (!fetched.abandoned) failed(error.what());
  }
}

void TieredStore::failed(const std::string& what) {
  ++failures_;
  if (on_failure_) on_failure_(what);
}

engine::KvStoreMetrics TieredStore::metrics() const {
  engine::KvStoreMetrics all{.memory_capacity = capacity_,
                             .loaded = loaded_,
                             .received = received_,
                             .failures = failures_,
                             .dropped = dropped_};
  if (disk_) {
    all.disk_parts = disk_->count();
    all.disk_bytes = disk_->bytes();
    all.disk_capacity = disk_->capacity();
  }
  const std::lock_guard lock(mutex_);
  all.memory_parts = entries_.size();
  all.memory_bytes = part_memory_->used();
  return all;
}

void TieredStore::drain() { writer_.drain(); }

}  // namespace heddle::tiers
