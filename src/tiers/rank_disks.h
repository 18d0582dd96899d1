// The disks of several ranks as one: each rank has its part of a block in a folder of its own, and a block is there if
// all have theirs.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "base/workers.h"
#include "ranks/kv_parts.h"
#include "tiers/part_folder.h"
#include "tiers/rank_questions.h"

namespace heddle::tiers {

// The folder of a rank. Another number of ranks has others.
std::filesystem::path rank_folder(const std::filesystem::path& folder, uint32_t rank, uint32_t ranks);

// Of rank 0. What it has, all others had when it was written; those that lost it say so when it is read. The group and
// the numbers must outlive it.
class GroupDisk : public PartDisk {
 public:
  // Asks the others which parts they have, and removes those that one of them does not.
  GroupDisk(std::unique_ptr<PartFolder> own, ranks::Group& group, ranks::PartNumbers& numbers);

  bool has(const engine::KvKey& key) const override { return own_->has(key); }
  uint64_t size_of(const engine::KvKey& key) const override { return own_->size_of(key); }
  // `bytes`, and `to`: buffers of a store, of which the others have theirs under the same number.
  void write(const engine::KvKey& key, std::span<const uint8_t> bytes) override;
  bool read(const engine::KvKey& key, std::span<uint8_t> to) override;
  uint64_t count() const override { return own_->count(); }
  uint64_t bytes() const override { return own_->bytes(); }
  uint64_t capacity() const override { return own_->capacity(); }

 private:
  // What the others answer: the worst of it.
  DiskAnswer answer_of_all(uint64_t question);

  const std::unique_ptr<PartFolder> own_;
  ranks::Group& group_;
  ranks::PartNumbers& numbers_;
};

// Of another rank: answers rank 0's questions, as long as it lives. All must outlive it.
class RankDisk {
 public:
  // `folder`: null: there is none. `own`: for the sizes of its parts.
  RankDisk(std::unique_ptr<PartFolder> folder, ranks::Group& group, ranks::PartBuffers& buffers,
           const model::Backend& own);
  ~RankDisk();
  RankDisk(const RankDisk&) = delete;
  RankDisk& operator=(const RankDisk&) = delete;

 private:
  engine::KvKey own_key(const engine::KvKey& key) const;
  bool is_empty(const engine::KvKey& key) const { return sizes_[size_t(key.part)] == 0; }
  void take(uint64_t number, std::span<const uint8_t> question);
  ranks::Bytes answer_to(const DiskQuestion& question);
  ranks::Bytes which_of(const DiskQuestion& question) const;
  DiskAnswer save_part(const DiskQuestion& question);
  DiskAnswer load_part(const DiskQuestion& question);

  const std::unique_ptr<PartFolder> folder_;
  ranks::Group& group_;
  ranks::PartBuffers& buffers_;
  const ranks::PartSizes sizes_;
  const std::string identity_;     // of this rank's parts
  Workers writer_{1}, reader_{4};  // last: they use all above
};

}  // namespace heddle::tiers
