// What a KV cache has no room for is kept in a store, and found there by the content of its text. The interface; the
// room `tiers` has stores.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/backend.h"

namespace heddle::engine {

// SHA-256 of a text of whole blocks, and of what its bytes in a cache depend on besides: equal ones mean equal bytes,
// but for rounding where another machine has computed them.
struct TextHash {
  std::array<uint8_t, 32> bytes{};
  auto operator<=>(const TextHash&) const = default;

  static TextHash of(std::string_view what);  // of an empty text, with what the bytes depend on
  TextHash with(std::span<const uint32_t> block) const;
};

// What a part of a cache keeps of a text: its last block, or the state behind it.
struct KvKey {
  model::KvPart part = model::KvPart::block;
  TextHash text;
  auto operator<=>(const KvKey&) const = default;
};
struct HashOfKvKey {
  size_t operator()(const KvKey& key) const {
    size_t hash = 0;
    std::memcpy(&hash, key.text.bytes.data(), sizeof hash);
    return hash + size_t(key.part);
  }
};

struct KvBytes {
  std::shared_ptr<uint8_t[]> data;
  uint64_t size = 0;
  std::span<uint8_t> span() const { return {data.get(), size}; }
  explicit operator bool() const { return data != nullptr; }
};

// What it brings to memory stays there as long as it lives.
class KvFetch {
 public:
  virtual ~KvFetch() = default;
  virtual bool done() const = 0;  // what has not come by then is not there
};

// Where else parts of a text are: another process.
class KvSource {
 public:
  virtual ~KvSource() = default;
  // Called on a thread of a store, which may wait. For each part that is there: room(key, bytes) says where to put it,
  // an empty span if it is not wanted; then arrived(key). Throws an Error where that fails, and where the process has
  // another `root`, that of an empty text.
  virtual void fetch(const TextHash& root, std::span<const KvKey> keys,
                     const std::function<std::span<uint8_t>(const KvKey&, uint64_t bytes)>& room,
                     const std::function<void(const KvKey&)>& arrived) = 0;
};

struct KvStoreMetrics {
  uint64_t memory_parts = 0, memory_bytes = 0, memory_capacity = 0;
  uint64_t disk_parts = 0, disk_bytes = 0, disk_capacity = 0;
  uint64_t loaded = 0, received = 0;   // parts that a fetch has brought from the disk, and from other processes
  uint64_t failures = 0, dropped = 0;  // dropped: parts that were not kept for lack of room
};

// Used by the thread of an engine. No call waits for a disk or a network.
class KvStore {
 public:
  virtual ~KvStore() = default;

  enum class Where : uint8_t { nowhere, memory, elsewhere };  // elsewhere: fetch() can bring it to memory
  virtual Where where(const KvKey& key) const = 0;
  virtual KvBytes find(const KvKey& key) = 0;  // in memory; empty: it is not there

  virtual KvBytes allocate(uint64_t bytes) = 0;  // empty: there is no room
  virtual void keep(const KvKey& key, KvBytes bytes) = 0;
  virtual bool lasts() const { return false; }  // what is kept outlives the process
  // While can_save(), an engine that has nothing else to do saves what it has before it is evicted.
  virtual bool can_save() const { return false; }
  virtual void save(const KvKey&, KvBytes) {}

  virtual std::unique_ptr<KvFetch> fetch(std::vector<KvKey> keys) = 0;  // from elsewhere
  virtual std::unique_ptr<KvFetch> fetch(std::vector<KvKey> keys, const TextHash& root,
                                         std::shared_ptr<KvSource> source) = 0;
  virtual KvStoreMetrics metrics() const = 0;
};

// What an engine has computed of a prompt, for another process.
struct KvOffer {
  TextHash root;  // of an empty text
  std::vector<std::pair<KvKey, KvBytes>> parts;
  size_t blocks() const {
    size_t count = 0;
    for (const auto& [key, bytes] : parts) count += key.part == model::KvPart::block;
    return count;
  }
};
// How another process finds it.
struct KvAddress {
  std::string engine, host, request;  // request: names the offer
  uint16_t port = 0;
};
// Between processes of which one computes prompts and the other goes on with them. Called from any thread.
class KvTransfer {
 public:
  virtual ~KvTransfer() = default;
  virtual KvAddress offer(KvOffer offer) = 0;  // until it was fetched, or for a while
  virtual std::shared_ptr<KvSource> source(const KvAddress& address) = 0;
};

}  // namespace heddle::engine
