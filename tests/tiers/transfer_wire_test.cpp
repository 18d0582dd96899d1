#include "tiers/transfer_wire.h"

#include <gtest/gtest.h>

#include "tests/support/refused.h"
#include "tests/tiers/some_parts.h"

namespace heddle::tiers {
namespace {

using test::refusal;

std::span<const uint8_t> behind_length(const std::vector<uint8_t>& frame) {
  EXPECT_EQ(frame_bytes(std::span(frame).first(frame_length_bytes)), frame.size() - frame_length_bytes);
  return std::span(frame).subspan(frame_length_bytes);
}

TEST(TransferWire, RequestsAndAnswersAreReadAsTheyWereWritten) {
  for (const size_t count : {0u, 1u, 100u}) {
    TransferRequest request{.offer = "an offer", .root = engine::TextHash::of("root")};
    for (size_t i = 0; i < count; ++i) request.keys.push_back(some_key(i, model::KvPart(i % 3)));
    const TransferRequest read = decode_request(behind_length(encode_request(request)));
    EXPECT_EQ(read.offer, request.offer);
    EXPECT_EQ(read.root, request.root);
    EXPECT_EQ(read.keys, request.keys);
  }
  for (const std::string text : {"", "no"}) EXPECT_EQ(decode_answer(behind_length(encode_answer(text))), text);
}

TEST(TransferWire, ADamagedByteIsFound) {
  const std::vector<uint8_t> frame = encode_request({"offer", engine::TextHash::of("r"), {some_key(1)}});
  for (size_t i = frame_length_bytes; i < frame.size(); ++i) {
    std::vector<uint8_t> damaged = frame;
    damaged[i] ^= 0x10;
    EXPECT_EQ(refusal([&] { decode_request(std::span(damaged).subspan(frame_length_bytes)); }),
              "damaged: its checksum is another");
  }
  EXPECT_NE(refusal([&] { decode_request({}); }), "");
  const std::vector<uint8_t> answer = encode_answer("no");
  EXPECT_NE(refusal([&] { decode_request(behind_length(answer)); }), "");
  EXPECT_NE(refusal([&] { decode_answer(behind_length(frame)); }), "");
}

TEST(TransferWire, LengthsHaveBounds) {
  const uint8_t zero[4] = {}, large[4] = {0xff, 0xff, 0xff, 0xff};
  EXPECT_NE(refusal([&] { frame_bytes(zero); }), "");
  EXPECT_EQ(refusal([&] { frame_bytes(large); }), "expected a frame of 16 to 67108864 bytes, found 4294967295");
}

}  // namespace
}  // namespace heddle::tiers
