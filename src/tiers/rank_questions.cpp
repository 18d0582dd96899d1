#include "tiers/rank_questions.h"

#include <algorithm>

namespace heddle::tiers {

using engine::KvKey;
using ranks::ByteReader;
using ranks::Bytes;
using ranks::ByteWriter;

Bytes encode(const DiskQuestion& question) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.raw(uint8_t(question.kind));
  if (question.kind != DiskQuestion::Kind::which) writer.number(question.buffer);
  for (const KvKey& key : question.parts) {
    writer.raw(uint8_t(key.part));
    writer.raw(key.text.bytes);
  }
  return bytes;
}

DiskQuestion decode_disk_question(std::span<const uint8_t> bytes) {
  using enum DiskQuestion::Kind;
  ByteReader reader(bytes);
  const auto kind = reader.raw<uint8_t>();
  if (kind > uint8_t(load)) throw Error("message of a rank: expected a question about a disk, found number {}", kind);
  DiskQuestion question{.kind = DiskQuestion::Kind(kind)};
  if (question.kind != which) question.buffer = reader.number();
  while (reader.left() > 0) {
    const auto part = reader.raw<uint8_t>();
    if (part > uint8_t(model::KvPart::state))
      throw Error("message of a rank: expected a part of a cache, found {}", part);
    question.parts.push_back({model::KvPart(part), {reader.raw<decltype(engine::TextHash::bytes)>()}});
  }
  if (question.kind != which && question.parts.size() != 1)
    throw Error("message of a rank: expected one part of a cache, found {}", question.parts.size());
  return question;
}

Bytes encode(const DiskAnswer& answer) {
  Bytes bytes(1 + answer.why.size());
  bytes[0] = uint8_t(answer.kind);
  std::ranges::copy(answer.why, bytes.begin() + 1);
  return bytes;
}

DiskAnswer decode_disk_answer(std::span<const uint8_t> bytes) {
  if (bytes.empty() || bytes[0] > uint8_t(DiskAnswer::Kind::failed))
    throw Error("message of a rank: expected an answer about a disk, found {} bytes", bytes.size());
  return {DiskAnswer::Kind(bytes[0]), {bytes.begin() + 1, bytes.end()}};
}

Bytes encode(const std::vector<bool>& there) {
  Bytes bytes((there.size() + 7) / 8);
  for (size_t i = 0; i < there.size(); ++i) bytes[i / 8] |= uint8_t(there[i] << i % 8);
  return bytes;
}

std::vector<bool> decode_there(std::span<const uint8_t> bytes, size_t count) {
  if (bytes.size() != (count + 7) / 8)
    throw Error("message of a rank: expected {} bits, found {} bytes", count, bytes.size());
  std::vector<bool> there(count);
  for (size_t i = 0; i < count; ++i) there[i] = bytes[i / 8] >> i % 8 & 1;
  return there;
}

}  // namespace heddle::tiers
