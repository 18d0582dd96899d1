#include "tiers/transfer_wire.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace heddle::tiers {
namespace {

using engine::KvKey;
using engine::TextHash;

constexpr std::string_view transfer_magic = "heddleKX";
constexpr uint32_t transfer_version = 1;
constexpr uint32_t max_name = 256, max_text = 1 << 16;

class FrameWriter {
 public:
  FrameWriter() { bytes_.resize(frame_length_bytes); }
  void raw(std::span<const uint8_t> data) {
    const size_t end = bytes_.size();
    bytes_.resize(end + data.size());
    std::copy(data.begin(), data.end(), bytes_.begin() + ptrdiff_t(end));
  }
  void number(uint32_t value) {
    uint8_t data[sizeof value];
    std::memcpy(data, &value, sizeof value);
    raw(data);
  }
  void text(std::string_view value) {
    number(uint32_t(value.size()));
    raw({reinterpret_cast<const uint8_t*>(value.data()), value.size()});
  }
  std::vector<uint8_t> finish() {
    const Checksum checksum = checksum_of({}, std::span(bytes_).subspan(frame_length_bytes));
    raw(checksum);
    const uint32_t length = uint32_t(bytes_.size() - frame_length_bytes);
    std::memcpy(bytes_.data(), &length, sizeof length);
    return std::move(bytes_);
  }

 private:
  std::vector<uint8_t> bytes_;
};

class FrameReader {
 public:
  explicit FrameReader(std::span<const uint8_t> frame) {
    if (frame.size() < sizeof(Checksum)) throw Error("expected a checksum, found {} bytes", frame.size());
    left_ = frame.first(frame.size() - sizeof(Checksum));
    const Checksum checksum = checksum_of({}, left_);
    if (!std::equal(checksum.begin(), checksum.end(), frame.end() - sizeof(Checksum)))
      throw Error("damaged: its checksum is another");
    const auto magic = raw(transfer_magic.size());
    if (!std::equal(magic.begin(), magic.end(), transfer_magic.begin())) throw Error("not a transfer of a KV cache");
    if (const uint32_t version = number(); version != transfer_version)
      throw Error("expected version {} of transfers, found {}", transfer_version, version);
  }
  std::span<const uint8_t> raw(size_t count) {
    if (count > left_.size()) throw Error("expected {} more bytes, found {}", count, left_.size());
    const auto data = left_.first(count);
    left_ = left_.subspan(count);
    return data;
  }
  uint32_t number() {
    uint32_t value = 0;
    std::memcpy(&value, raw(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text(uint32_t longest) {
    const uint32_t size = number();
    if (size > longest) throw Error("expected a text of at most {} bytes, found {}", longest, size);
    const auto data = raw(size);
    return {data.begin(), data.end()};
  }
  TextHash hash() {
    TextHash hash;
    std::ranges::copy(raw(hash.bytes.size()), hash.bytes.begin());
    return hash;
  }
  void end() const {
    if (!left_.empty()) throw Error("expected the end, found {} more bytes", left_.size());
  }

 private:
  std::span<const uint8_t> left_;
};

FrameWriter begin_frame() {
  FrameWriter frame;
  frame.raw({reinterpret_cast<const uint8_t*>(transfer_magic.data()), transfer_magic.size()});
  frame.number(transfer_version);
  return frame;
}

}  // namespace

std::vector<uint8_t> encode_request(const TransferRequest& request) {
  FrameWriter frame = begin_frame();
  frame.text(request.offer);
  frame.raw(request.root.bytes);
  frame.number(uint32_t(request.keys.size()));
  for (const KvKey& key : request.keys) {
    const uint8_t part = uint8_t(key.part);
    frame.raw({&part, 1});
    frame.raw(key.text.bytes);
  }
  return frame.finish();
}

std::vector<uint8_t> encode_answer(const std::string& refusal) {
  FrameWriter frame = begin_frame();
  frame.text(refusal.substr(0, max_text));
  return frame.finish();
}

size_t frame_bytes(std::span<const uint8_t> length) {
  uint32_t bytes = 0;
  check(length.size() == sizeof bytes, "the length of a frame");
  std::memcpy(&bytes, length.data(), sizeof bytes);
  if (bytes < sizeof(Checksum) || bytes > max_frame)
    throw Error("expected a frame of {} to {} bytes, found {}", sizeof(Checksum), max_frame, bytes);
  return bytes;
}

TransferRequest decode_request(std::span<const uint8_t> frame) {
  FrameReader reader(frame);
  TransferRequest request;
  request.offer = reader.text(max_name);
  request.root = reader.hash();
  for (uint32_t count = reader.number(); count > 0; --count) {
    const uint8_t part = reader.raw(1)[0];
    if (part > uint8_t(model::KvPart::state)) throw Error("expected a part below 3, found {}", part);
    request.keys.push_back({model::KvPart(part), reader.hash()});
  }
  reader.end();
  return request;
}

std::string decode_answer(std::span<const uint8_t> frame) {
  FrameReader reader(frame);
  std::string refusal = reader.text(max_text);
  reader.end();
  return refusal;
}

}  // namespace heddle::tiers
