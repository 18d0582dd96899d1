// A part is written by rank 0 when all others have written theirs, so what is left by processes that were killed is
// found nowhere or everywhere, but for parts that only others have: these are not asked for.
#include "tiers/rank_disks.h"

#include "base/error.h"

namespace heddle::tiers {

using engine::KvKey;
using ranks::Bytes;

std::filesystem::path rank_folder(const std::filesystem::path& folder, uint32_t rank, uint32_t ranks) {
  return folder / fmt::format("rank-{}-of-{}", rank, ranks);
}

GroupDisk::GroupDisk(std::unique_ptr<PartFolder> own, ranks::Group& group, ranks::PartNumbers& numbers)
    : own_(std::move(own)), group_(group), numbers_(numbers) {
  const DiskQuestion question{.kind = DiskQuestion::Kind::which, .parts = own_->keys()};
  std::vector<bool> everywhere(question.parts.size(), true);
  for (const Bytes& answer : group_.answers(group_.ask(encode(question)))) {
    const std::vector<bool> there = decode_there(answer, everywhere.size());
    for (size_t i = 0; i < there.size(); ++i) everywhere[i] = everywhere[i] && there[i];
  }
  for (size_t i = 0; i < everywhere.size(); ++i)
    if (!everywhere[i]) own_->forget(question.parts[i]);
}

DiskAnswer GroupDisk::answer_of_all(uint64_t question) {
  DiskAnswer worst;
  uint32_t rank = 0;
  for (const Bytes& bytes : group_.answers(question)) {
    DiskAnswer answer = decode_disk_answer(bytes);
    ++rank;
    if (answer.kind <= worst.kind) continue;
    worst = {answer.kind, fmt::format("rank {}: {}", rank, answer.why)};
  }
  return worst;
}

void GroupDisk::write(const KvKey& key, std::span<const uint8_t> bytes) {
  if (group_.alarm().raised()) return;  // nothing can be computed with it any more
  const std::optional<uint64_t> number = numbers_.find(bytes.data());
  check(number.has_value(), "a buffer that every rank has");
  const DiskAnswer others =
      answer_of_all(group_.ask(encode({.kind = DiskQuestion::Kind::save, .buffer = *number, .parts = {key}})));
  if (others.kind != DiskAnswer::Kind::done) throw Error("{}", others.why);
  own_->write(key, bytes);
}

bool GroupDisk::read(const KvKey& key, std::span<uint8_t> to) {
  numbers_.send_dropped(group_);  // so that the others have room
  const uint64_t question =
      group_.ask(encode({.kind = DiskQuestion::Kind::load, .buffer = numbers_.number(to.data()), .parts = {key}}));
  DiskAnswer answer;
  try {
    if (!own_->read(key, to)) answer.kind = DiskAnswer::Kind::absent;
  } catch (const Error& error) {
    answer = {DiskAnswer::Kind::failed, error.what()};
  }
  const DiskAnswer others = answer_of_all(question);  // before the buffer can be freed
  if (others.kind > answer.kind) answer = others;
  if (answer.kind == DiskAnswer::Kind::done) return true;
  own_->forget(key);
  if (answer.kind == DiskAnswer::Kind::failed) throw Error("{}", answer.why);
  return false;
}

RankDisk::RankDisk(std::unique_ptr<PartFolder> folder, ranks::Group& group, ranks::PartBuffers& buffers,
                   const model::Backend& own)
    : folder_(std::move(folder)),
      group_(group),
      buffers_(buffers),
      sizes_(ranks::part_sizes(own)),
      identity_(fmt::format("rank {} of {} in {} stages\nlayout {}\nbytes {} {} {}\n", group.rank(), group.ranks(),
                            group.options().stages, own.kv_layout(), sizes_[0], sizes_[1], sizes_[2])) {
  group_.on_question([this](uint64_t number, std::span<const uint8_t> question) { take(number, question); });
}

RankDisk::~RankDisk() {
  group_.on_question({});
  buffers_.end();
}

// Files of two ranks have different names: one is never read for the other.
KvKey RankDisk::own_key(const KvKey& key) const {
  const std::string_view text(reinterpret_cast<const char*>(key.text.bytes.data()), key.text.bytes.size());
  return {key.part, engine::TextHash::of(identity_ + std::string(text))};
}

void RankDisk::take(uint64_t number, std::span<const uint8_t> bytes) {
  using enum DiskQuestion::Kind;
  DiskQuestion question = decode_disk_question(bytes);
  Workers& worker = question.kind == save ? writer_ : reader_;
  worker.add([this, number, question = std::move(question)] {
    try {
      group_.answer(number, answer_to(question));
    } catch (const Error&) {  // rank 0 is gone, which the group notices
    }
  });
}

Bytes RankDisk::answer_to(const DiskQuestion& question) {
  using enum DiskQuestion::Kind;
  if (question.kind == which) return which_of(question);
  try {
    return encode(question.kind == save ? save_part(question) : load_part(question));
  } catch (const std::exception& error) {
    return encode(DiskAnswer{DiskAnswer::Kind::failed, error.what()});
  }
}

Bytes RankDisk::which_of(const DiskQuestion& question) const {
  std::vector<bool> there;
  for (const KvKey& key : question.parts) there.push_back(is_empty(key) || (folder_ && folder_->has(own_key(key))));
  return encode(there);
}

DiskAnswer RankDisk::save_part(const DiskQuestion& question) {
  const KvKey& key = question.parts[0];
  const ranks::PartBuffers::Buffer buffer = buffers_.wait_for(question.buffer);
  if (!buffer || !folder_) return {DiskAnswer::Kind::failed, "it does not keep its KV cache on a disk"};
  if (!is_empty(key)) folder_->write(own_key(key), *buffer);
  return {};
}

DiskAnswer RankDisk::load_part(const DiskQuestion& question) {
  const KvKey& key = question.parts[0];
  const uint64_t bytes = sizes_[size_t(key.part)];
  if (bytes && !folder_) return {DiskAnswer::Kind::absent};
  buffers_.wait_for_room(bytes);
  const auto buffer = std::make_shared<Bytes>(bytes);
  if (bytes && !folder_->read(own_key(key), *buffer)) return {DiskAnswer::Kind::absent};
  buffers_.put(question.buffer, buffer);
  return {};
}

}  // namespace heddle::tiers
